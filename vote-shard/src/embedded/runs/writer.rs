//! Writes a run, row by row, in key order.

use std::io;

use super::RowKey;
use super::format::{self, BLOCK_HEAD_BYTES, Footer, IndexEntry};
use crate::embedded::background::throttle::ThrottledTask;
use crate::embedded::disk::{Disk, DiskFile};

/// A block ends when it reaches this size.
const BLOCK_BYTES: usize = 32 << 10;
/// Blocks are written and synced in batches: one large sync at the end would
/// delay votes on the same disk.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct RunWriter<'a> {
    id: u64,
    task: ThrottledTask<'a>,
    file: Box<dyn DiskFile>,
    /// Unwritten bytes, and their offset.
    buffer: Vec<u8>,
    written: u64,
    block: Vec<u8>,
    block_first: Option<RowKey>,
    block_rows: u32,
    index: Vec<IndexEntry>,
    rows: u64,
}

impl<'a> RunWriter<'a> {
    pub(super) fn create(disk: &dyn Disk, id: u64, task: ThrottledTask<'a>) -> io::Result<Self> {
        let name = format::draft_name(id);
        match disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self {
            id,
            task,
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

    /// Adds a row; its key must be higher than the last.
    pub(super) fn push(&mut self, key: RowKey, row: &[u8]) -> io::Result<()> {
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
        self.index.push(IndexEntry {
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
            self.task.pause_if_busy();
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_at(self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Completes the run, makes it durable, and renames it durably: a
    /// checkpoint that refers to it must not be visible without it.
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
        disk.rename(&format::draft_name(self.id), &format::file_name(self.id))?;
        disk.sync_names()?;
        Ok(self.rows)
    }
}
