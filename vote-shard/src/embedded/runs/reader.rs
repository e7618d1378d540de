//! Reads a run: its index is in memory, its blocks are read when needed.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use super::format::{self, BLOCK_HEAD_BYTES, ENTRY_BYTES, Entry, FOOTER_BYTES, Footer};
use super::{Key, StoredRow, row};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::record::{PollNo, Unreadable};
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

impl RunError {
    /// Whether what is stored is not what was written: that does not pass.
    pub(in crate::embedded) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Row(_))
    }
}

/// Whether a block that is damaged may be passed over, which could hold rows of
/// these polls. Without it, such a block fails whoever reads.
pub(in crate::embedded) type Skips<'a> = Option<&'a dyn Fn(RangeInclusive<PollNo>) -> bool>;

/// An open run.
pub(in crate::embedded) struct Run {
    id: u64,
    file: Box<dyn DiskFile>,
    index: Vec<Entry>,
    rows: u64,
    /// The last row, if that can be read: nothing is looked for behind it.
    last: Option<Key>,
    /// Whether anybody found that it cannot be read.
    damaged: AtomicBool,
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
        let mut run = Self {
            id,
            file,
            index: entries.iter().map(Entry::decode).collect(),
            rows: footer.rows,
            last: None,
            damaged: AtomicBool::new(false),
        };
        run.last = run.last_of_all();
        Ok(run)
    }

    fn last_of_all(&self) -> Option<Key> {
        let place = self.index.len().checked_sub(1)?;
        let (block, _) = self.block(place).ok()?;
        let (mut rest, mut last) = (&*block, None);
        while let Some((key, length)) = row::peek(rest) {
            last = Some(key);
            rest = &rest[length..];
        }
        last
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

    /// Whether somebody found that it is damaged: until it is not needed any more,
    /// nothing may be removed that it could be made anew from.
    pub(in crate::embedded) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    fn damaged(&self, block: usize) -> RunError {
        self.damaged.store(true, Ordering::Release);
        RunError::Corrupt {
            run: format::name_of(self.id),
            place: self.index.get(block).map_or(0, |entry| entry.place),
            what: "a block is damaged".to_owned(),
        }
    }

    /// The polls of which a block may hold rows.
    fn polls_of(&self, place: usize) -> RangeInclusive<PollNo> {
        let first = self.index.get(place).map(|entry| entry.first);
        let next = self.index.get(place + 1).map(|entry| entry.first);
        let poll = |key: Option<Key>, without: PollNo| key.map_or(without, |key| key.poll);
        poll(first, PollNo::MIN)..=poll(next.or(self.last), PollNo::MAX)
    }

    /// The block in which a key is, if it is anywhere.
    fn block_of(&self, key: Key) -> usize {
        let after = self.index.partition_point(|entry| entry.first <= key);
        after.saturating_sub(1)
    }

    /// A row.
    pub(super) fn get(&self, key: Key) -> Result<Option<StoredRow>, RunError> {
        let rows = self.from(key, None)?;
        match rows.peek() {
            Some((found, bytes)) if found == key => Ok(Some(row::read(bytes)?)),
            _ => Ok(None),
        }
    }

    /// The rows from a key on.
    pub(in crate::embedded) fn from<'a>(
        &'a self,
        key: Key,
        skips: Skips<'a>,
    ) -> Result<Rows<'a>, RunError> {
        let mut rows = Rows {
            run: self,
            skips,
            block: Vec::new(),
            offset: 0,
            left: 0,
            next_block: self.index.len(),
        };
        if self.last.is_none_or(|last| key <= last) {
            rows.enter(self.block_of(key))?;
        }
        while rows.peek().is_some_and(|(found, _)| found < key) {
            rows.advance()?;
        }
        Ok(rows)
    }
}

/// Walks through a run's rows.
pub(in crate::embedded) struct Rows<'a> {
    run: &'a Run,
    skips: Skips<'a>,
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
            let here = self.next_block.saturating_sub(1);
            let damaged = self.run.damaged(here);
            if !self.may_skip(here, &damaged) {
                return Err(damaged);
            }
        } else if !is_over {
            return Ok(());
        }
        self.enter(self.next_block)
    }

    /// Comes to a block, or to the first behind it that can be read if those before
    /// may be passed over.
    fn enter(&mut self, mut place: usize) -> Result<(), RunError> {
        (self.block, self.left) = loop {
            match self.run.block(place) {
                Err(error) if self.may_skip(place, &error) => place += 1,
                read => break read?,
            }
        };
        self.offset = 0;
        self.next_block = place + 1;
        Ok(())
    }

    fn may_skip(&self, place: usize, error: &RunError) -> bool {
        let is_there = place < self.run.index.len();
        is_there && error.is_damage() && self.skips.is_some_and(|may| may(self.run.polls_of(place)))
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
