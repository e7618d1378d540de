//! Reads a run: its index is in memory, its blocks are read when needed.

use std::io;

use super::format::{self, BLOCK_HEAD_BYTES, ENTRY_BYTES, Entry, FOOTER_BYTES, Footer};
use super::{Key, StoredRow, row};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::record::Unreadable;
use crate::embedded::state::Row;

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The disk failed.
    #[error("read sorted rows")]
    Disk(#[from] io::Error),
    /// What is there was not written so.
    #[error("{run}, byte {place}: {what}")]
    Corrupt {
        /// Which file.
        run: String,
        /// Where in it.
        place: u64,
        /// What is wrong.
        what: String,
    },
    /// A row cannot be read.
    #[error(transparent)]
    Row(#[from] Unreadable),
}

/// An open run.
pub(in crate::embedded) struct Run {
    id: u64,
    file: Box<dyn DiskFile>,
    index: Vec<Entry>,
    rows: u64,
}

impl Run {
    pub(in crate::embedded) fn open(disk: &dyn Disk, id: u64) -> Result<Self, RunError> {
        let name = format::name_of(id);
        let corrupt = |place: u64, what: &str| RunError::Corrupt {
            run: name.clone(),
            place,
            what: what.to_owned(),
        };
        let file = disk.open(&name)?;
        let bytes = file.bytes()?;
        let mut header = [0; format::HEADER_BYTES];
        read_exactly(&*file, 0, &mut header).map_err(|_| corrupt(0, "it is too short"))?;
        if header[..8] == *format::MAGIC && format::four(&header, 8) > format::VERSION {
            let found = format::four(&header, 8);
            let known = format::VERSION;
            let what = format!("it has format {found}; this program knows {known}");
            return Err(corrupt(8, &what));
        }
        if header != format::header(id) {
            return Err(corrupt(0, "its header is damaged"));
        }
        let footer_place = bytes
            .checked_sub(FOOTER_BYTES as u64)
            .ok_or_else(|| corrupt(0, "it is too short"))?;
        let mut footer = [0; FOOTER_BYTES];
        read_exactly(&*file, footer_place, &mut footer)?;
        let footer = Footer::decode(id, &footer)
            .ok_or_else(|| corrupt(footer_place, "its end is damaged"))?;
        if footer.index_place > footer_place {
            return Err(corrupt(footer_place, "its end is damaged"));
        }
        let mut index = vec![0; (footer_place - footer.index_place) as usize];
        read_exactly(&*file, footer.index_place, &mut index)?;
        let whole = index.len() as u64 == footer.entries * ENTRY_BYTES as u64
            && format::checksum(id, &index) == footer.index_sum;
        if !whole {
            return Err(corrupt(footer.index_place, "its index is damaged"));
        }
        let (entries, _) = index.as_chunks::<ENTRY_BYTES>();
        Ok(Self {
            id,
            file,
            index: entries.iter().map(Entry::decode).collect(),
            rows: footer.rows,
        })
    }

    pub(in crate::embedded) fn id(&self) -> u64 {
        self.id
    }

    pub(in crate::embedded) fn rows(&self) -> u64 {
        self.rows
    }

    /// The rows of a block, and how many they are; nothing behind the last.
    fn block(&self, place: usize) -> Result<(Vec<u8>, u32), RunError> {
        let Some(entry) = self.index.get(place) else {
            return Ok((Vec::new(), 0));
        };
        let mut block = vec![0; entry.length as usize];
        read_exactly(&*self.file, entry.place, &mut block)?;
        let rows = block.split_off(BLOCK_HEAD_BYTES.min(block.len()));
        let whole = block.len() == BLOCK_HEAD_BYTES
            && format::four(&block, 0) as usize == rows.len()
            && format::eight(&block, 8) == format::checksum(self.id, &rows);
        if whole {
            return Ok((rows, format::four(&block, 4)));
        }
        Err(self.damaged(place))
    }

    fn damaged(&self, block: usize) -> RunError {
        RunError::Corrupt {
            run: format::name_of(self.id),
            place: self.index.get(block).map_or(0, |entry| entry.place),
            what: "a block is damaged".to_owned(),
        }
    }

    /// The block in which a key is, if it is anywhere.
    fn block_of(&self, key: Key) -> usize {
        let after = self.index.partition_point(|entry| entry.first <= key);
        after.saturating_sub(1)
    }

    /// A row.
    pub(super) fn get(&self, key: Key) -> Result<Option<StoredRow>, RunError> {
        let rows = self.from(key)?;
        match rows.peek() {
            Some((found, bytes)) if found == key => Ok(Some(row::read(bytes)?)),
            _ => Ok(None),
        }
    }

    /// The rows from a key on.
    pub(in crate::embedded) fn from(&self, key: Key) -> Result<Rows<'_>, RunError> {
        let place = self.block_of(key);
        let (block, left) = self.block(place)?;
        let mut rows = Rows {
            run: self,
            block,
            offset: 0,
            left,
            next_block: place + 1,
        };
        while rows.peek().is_some_and(|(found, _)| found < key) {
            rows.advance()?;
        }
        Ok(rows)
    }
}

/// Walks through a run's rows.
pub(in crate::embedded) struct Rows<'a> {
    run: &'a Run,
    block: Vec<u8>,
    offset: usize,
    /// How many rows of the block are still ahead, by its head, which no
    /// checksum is over.
    left: u32,
    next_block: usize,
}

impl Rows<'_> {
    /// The row it stands at.
    pub(in crate::embedded) fn peek(&self) -> Option<(Key, &[u8])> {
        let rest = self.block.get(self.offset..)?;
        let (key, length) = row::peek(rest)?;
        Some((key, &rest[..length]))
    }

    /// Goes on to the next row.
    pub(in crate::embedded) fn advance(&mut self) -> Result<(), RunError> {
        if let Some((_, bytes)) = self.peek() {
            self.offset += bytes.len();
            self.left = self.left.wrapping_sub(1);
        }
        let is_over = self.offset >= self.block.len();
        if is_over != (self.left == 0) {
            return Err(self.run.damaged(self.next_block - 1));
        }
        if is_over {
            (self.block, self.left) = self.run.block(self.next_block)?;
            self.offset = 0;
            self.next_block += 1;
        }
        Ok(())
    }

    /// The row it stands at, read, without the voter's name.
    pub(in crate::embedded) fn row(&self) -> Result<Option<(Key, Row)>, RunError> {
        let row = self.peek().map(|(_, bytes)| row::read_nameless(bytes));
        Ok(row.transpose()?.map(|(key, row, _)| (key, row)))
    }
}

fn read_exactly(file: &dyn DiskFile, place: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read_at(place + have as u64, &mut buffer[have..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => have += more,
        }
    }
    Ok(())
}
