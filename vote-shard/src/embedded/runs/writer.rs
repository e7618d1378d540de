//! Writes a run, row by row, in order.

use std::io;

use super::Key;
use super::format::{self, BLOCK_HEAD_BYTES, Entry, Footer};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::manners::Polite;

/// A block is closed when it is at least this long.
const BLOCK_BYTES: usize = 32 << 10;
/// Blocks are written together, and synced: a sync of a whole run at its end
/// would be a long one, also for votes that wait for this disk.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct RunWriter<'a> {
    id: u64,
    polite: Polite<'a>,
    file: Box<dyn DiskFile>,
    /// What was not written yet, and where it goes.
    buffer: Vec<u8>,
    written: u64,
    block: Vec<u8>,
    block_first: Option<Key>,
    block_rows: u32,
    index: Vec<Entry>,
    rows: u64,
}

impl<'a> RunWriter<'a> {
    pub(super) fn create(disk: &dyn Disk, id: u64, polite: Polite<'a>) -> io::Result<Self> {
        let name = format::draft_of(id);
        match disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self {
            id,
            polite,
            file: disk.create(&name, 0)?,
            buffer: format::header(id).to_vec(),
            written: 0,
            block: Vec::new(),
            block_first: None,
            block_rows: 0,
            index: Vec::new(),
            rows: 0,
        })
    }

    /// Adds a row that comes after all before it.
    pub(super) fn push(&mut self, key: Key, row: &[u8]) -> io::Result<()> {
        self.block_first.get_or_insert(key);
        self.block.extend_from_slice(row);
        self.block_rows += 1;
        self.rows += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let Some(first) = self.block_first.take() else {
            return Ok(());
        };
        self.index.push(Entry {
            first,
            place: self.written + self.buffer.len() as u64,
            length: (BLOCK_HEAD_BYTES + self.block.len()) as u32,
        });
        let sum = format::checksum(self.id, &self.block);
        self.buffer
            .extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        self.buffer
            .extend_from_slice(&self.block_rows.to_le_bytes());
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.buffer.append(&mut self.block);
        self.block_rows = 0;
        if self.buffer.len() >= BUFFER_BYTES {
            self.write()?;
            self.file.sync()?;
            self.polite.rest();
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the run, makes it durable and gives it its name, durably: no
    /// checkpoint that names it may be seen without it.
    pub(super) fn finish(mut self, disk: &dyn Disk) -> io::Result<u64> {
        self.end_block()?;
        let mut index = Vec::with_capacity(self.index.len() * format::ENTRY_BYTES);
        for entry in &self.index {
            entry.encode(&mut index);
        }
        let footer = Footer {
            index_place: self.written + self.buffer.len() as u64,
            entries: self.index.len() as u64,
            rows: self.rows,
            index_sum: format::checksum(self.id, &index),
        };
        self.buffer.append(&mut index);
        self.buffer.extend_from_slice(&footer.encode(self.id));
        self.write()?;
        self.file.sync()?;
        disk.rename(&format::draft_of(self.id), &format::name_of(self.id))?;
        disk.sync_names()?;
        Ok(self.rows)
    }
}
