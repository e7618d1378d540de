//! Reads a run: the index is in memory, blocks are read on demand.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use super::format::{self, BLOCK_HEAD_BYTES, ENTRY_BYTES, FOOTER_BYTES, Footer, IndexEntry};
use super::{RowKey, StoredRow, row};
use crate::embedded::disk::{self, Disk, DiskFile, DiskFileId, LostName};
use crate::embedded::record::{PollNo, RecordError};
use crate::embedded::state::RowData;

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The disk failed.
    #[error("read a run")]
    Disk(#[from] io::Error),
    /// The run is damaged.
    #[error("{run}, byte {place}: {what}")]
    Corrupt {
        /// The file.
        run: String,
        /// The offset.
        place: u64,
        /// The damage.
        what: String,
    },
    /// A row cannot be decoded.
    #[error(transparent)]
    Row(#[from] RecordError),
}

impl RunError {
    /// Whether the run is damaged. A retry does not help.
    pub(in crate::embedded) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Row(_))
    }
}

/// Decides whether to skip a damaged block that may hold rows of these polls.
/// Without it, a damaged block is an error.
pub(in crate::embedded) type SkipDamaged<'a> = Option<&'a dyn Fn(RangeInclusive<PollNo>) -> bool>;

/// An open run.
pub(in crate::embedded) struct Run {
    id: u64,
    file: Box<dyn DiskFile>,
    file_id: DiskFileId,
    index: Vec<IndexEntry>,
    rows: u64,
    /// The last row's key, if readable: lookups beyond it need no read.
    last: Option<RowKey>,
    /// Whether a read has found damage.
    damaged: AtomicBool,
}

impl Run {
    pub(in crate::embedded) fn open(disk: &dyn Disk, id: u64) -> Result<Self, RunError> {
        let name = format::file_name(id);
        let corrupt = |place: u64, what: &str| RunError::Corrupt {
            run: name.clone(),
            place,
            what: what.to_owned(),
        };
        let file = disk.open(&name)?;
        let bytes = file.bytes()?;
        let mut header = [0; format::HEADER_BYTES];
        read_exactly(&*file, 0, &mut header).map_err(|_| corrupt(0, "too short"))?;
        if header[..8] == *format::MAGIC && format::read_u32(&header, 8) > format::VERSION {
            let found = format::read_u32(&header, 8);
            let known = format::VERSION;
            let what = format!("format version {found}; this program supports {known}");
            return Err(corrupt(8, &what));
        }
        if header != format::header(id) {
            return Err(corrupt(0, "damaged header"));
        }
        let footer_place = bytes
            .checked_sub(FOOTER_BYTES as u64)
            .ok_or_else(|| corrupt(0, "too short"))?;
        let mut footer = [0; FOOTER_BYTES];
        read_exactly(&*file, footer_place, &mut footer)?;
        let footer =
            Footer::decode(id, &footer).ok_or_else(|| corrupt(footer_place, "damaged footer"))?;
        if footer.index_place > footer_place {
            return Err(corrupt(footer_place, "damaged footer"));
        }
        let mut index = vec![0; (footer_place - footer.index_place) as usize];
        read_exactly(&*file, footer.index_place, &mut index)?;
        let whole = index.len() as u64 == footer.entries * ENTRY_BYTES as u64
            && format::checksum(id, &index) == footer.index_sum;
        if !whole {
            return Err(corrupt(footer.index_place, "damaged index"));
        }
        let (entries, _) = index.as_chunks::<ENTRY_BYTES>();
        let mut run = Self {
            id,
            file_id: file.id()?,
            file,
            index: entries.iter().map(IndexEntry::decode).collect(),
            rows: footer.rows,
            last: None,
            damaged: AtomicBool::new(false),
        };
        run.last = run.read_last_key();
        Ok(run)
    }

    /// Checks that its name leads to it.
    pub(in crate::embedded) fn check_name(&self, disk: &dyn Disk) -> Result<(), LostName> {
        disk::check_name(disk, &format::file_name(self.id), self.file_id)
    }

    /// Writes it again if it was removed.
    pub(in crate::embedded) fn restore(&self, disk: &dyn Disk) -> Result<(), LostName> {
        disk::restore_name(disk, &format::file_name(self.id), self.file_id, &*self.file)
    }

    fn read_last_key(&self) -> Option<RowKey> {
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

    /// Reads a block's rows and their number; nothing behind the last block.
    fn block(&self, place: usize) -> Result<(Vec<u8>, u32), RunError> {
        let Some(entry) = self.index.get(place) else {
            return Ok((Vec::new(), 0));
        };
        let mut block = vec![0; entry.length as usize];
        read_exactly(&*self.file, entry.place, &mut block)?;
        let rows = block.split_off(BLOCK_HEAD_BYTES.min(block.len()));
        let whole = block.len() == BLOCK_HEAD_BYTES
            && format::read_u32(&block, 0) as usize == rows.len()
            && format::read_u64(&block, 8) == format::checksum(self.id, &rows);
        if whole {
            return Ok((rows, format::read_u32(&block, 4)));
        }
        Err(self.damaged(place))
    }

    /// Whether a read has found damage: until the run is replaced, the files
    /// that could restore it must stay.
    pub(in crate::embedded) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    fn damaged(&self, block: usize) -> RunError {
        self.damaged.store(true, Ordering::Release);
        RunError::Corrupt {
            run: format::file_name(self.id),
            place: self.index.get(block).map_or(0, |entry| entry.place),
            what: "a block is damaged".to_owned(),
        }
    }

    /// The polls whose rows a block may hold.
    fn polls_in_block(&self, place: usize) -> RangeInclusive<PollNo> {
        let first = self.index.get(place).map(|entry| entry.first);
        let next = self.index.get(place + 1).map(|entry| entry.first);
        let poll = |key: Option<RowKey>, without: PollNo| key.map_or(without, |key| key.poll);
        poll(first, PollNo::MIN)..=poll(next.or(self.last), PollNo::MAX)
    }

    /// The block that holds a key, if any does.
    fn find_block(&self, key: RowKey) -> usize {
        let after = self.index.partition_point(|entry| entry.first <= key);
        after.saturating_sub(1)
    }

    /// Reads a row.
    pub(super) fn get(&self, key: RowKey) -> Result<Option<StoredRow>, RunError> {
        let rows = self.from(key, None)?;
        match rows.peek() {
            Some((found, bytes)) if found == key => Ok(Some(row::read(bytes)?)),
            _ => Ok(None),
        }
    }

    /// Returns the rows from a key on.
    pub(in crate::embedded) fn from<'a>(
        &'a self,
        key: RowKey,
        skips: SkipDamaged<'a>,
    ) -> Result<RunCursor<'a>, RunError> {
        let mut rows = RunCursor {
            run: self,
            skips,
            block: Vec::new(),
            offset: 0,
            left: 0,
            next_block: self.index.len(),
        };
        if self.last.is_none_or(|last| key <= last) {
            rows.enter(self.find_block(key))?;
        }
        while rows.peek().is_some_and(|(found, _)| found < key) {
            rows.advance()?;
        }
        Ok(rows)
    }
}

/// Iterates over a run's rows.
pub(in crate::embedded) struct RunCursor<'a> {
    run: &'a Run,
    skips: SkipDamaged<'a>,
    block: Vec<u8>,
    offset: usize,
    /// Remaining rows of the block, by its header, which the checksum does not
    /// cover.
    left: u32,
    next_block: usize,
}

impl RunCursor<'_> {
    /// The current row.
    pub(in crate::embedded) fn peek(&self) -> Option<(RowKey, &[u8])> {
        let rest = self.block.get(self.offset..)?;
        let (key, length) = row::peek(rest)?;
        Some((key, &rest[..length]))
    }

    /// Advances to the next row.
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

    /// Enters a block, or the first readable one behind it if damaged blocks
    /// may be skipped.
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
        is_there
            && error.is_damage()
            && self
                .skips
                .is_some_and(|may| may(self.run.polls_in_block(place)))
    }

    /// Decodes the current row, without the voter's name.
    pub(in crate::embedded) fn row(&self) -> Result<Option<(RowKey, RowData)>, RunError> {
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
