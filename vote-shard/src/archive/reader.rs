//! Reads a file: first its tail, then group by group, so that at most one group
//! is in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::PollId;
use bytes::Bytes;

use super::error::{ArchiveError, ArchiveResult};
use super::format::{FileTail, MAGIC, PrintedRow};
use super::store::Archive;
use crate::shard::{ArchiveFile, Digest, SliceKey, VoterPrint, VoterRow};

/// An open file.
#[derive(Clone)]
pub struct ArchiveReader {
    archive: Archive,
    file: Arc<ArchiveFile>,
    tail: Arc<FileTail>,
}

/// What the rows of a file add up to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileSummary {
    /// Their number and digest.
    pub digest: Digest,
    /// Voters with at least one chosen item.
    pub voting: u64,
    /// Number of rows per chosen item.
    pub counts: Vec<u64>,
}

impl ArchiveReader {
    /// Opens a poll's file.
    pub async fn open(archive: &Archive, file: &ArchiveFile, poll: PollId) -> ArchiveResult<Self> {
        Self::open_at(archive, &file.path, file, poll).await
    }

    /// Opens a poll's file under another name.
    pub(super) async fn open_at(
        archive: &Archive,
        path: &str,
        file: &ArchiveFile,
        poll: PollId,
    ) -> ArchiveResult<Self> {
        let start = file.bytes.checked_sub(file.tail_bytes);
        let start =
            start.ok_or_else(|| ArchiveError::damaged(path, "tail longer than the file"))?;
        let size = archive.bytes(path).await?;
        if size != file.bytes {
            let what = format!("size is {size} bytes instead of {}", file.bytes);
            return Err(ArchiveError::damaged(path, what));
        }
        let tail = archive.read_range(path, start..file.bytes).await?;
        let tail = FileTail::read(file, poll, tail).map_err(ArchiveError::parquet(path))?;
        let file = ArchiveFile {
            path: path.to_owned(),
            ..file.clone()
        };
        Ok(Self {
            archive: archive.clone(),
            file: Arc::new(file),
            tail: Arc::new(tail),
        })
    }

    /// The file's description.
    pub fn file(&self) -> &ArchiveFile {
        &self.file
    }

    /// Reads a voter's row.
    pub async fn find(&self, print: VoterPrint, key: &SliceKey) -> ArchiveResult<Option<VoterRow>> {
        let mut found = self.find_all(&[print], key).await?;
        Ok(found.pop().flatten())
    }

    /// Reads the rows of several voters, in their order; reads each group at
    /// most once.
    pub async fn find_all(
        &self,
        prints: &[VoterPrint],
        key: &SliceKey,
    ) -> ArchiveResult<Vec<Option<VoterRow>>> {
        let mut found = vec![None; prints.len()];
        let mut by_group: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, print) in prints.iter().enumerate() {
            if let Some(group) = self.first_with(|last| last >= *print) {
                by_group.entry(group).or_default().push(index);
            }
        }
        for (group, places) in by_group {
            let rows = self.rows(group, key).await?;
            for index in places {
                let own = rows.binary_search_by_key(&prints[index], |(print, _)| *print);
                found[index] = own.ok().map(|own| rows[own].1.clone());
            }
        }
        Ok(found)
    }

    /// Returns the next rows after a voter, and the last one's fingerprint;
    /// `None` at the end.
    pub async fn rows_after(
        &self,
        after: Option<VoterPrint>,
        key: &SliceKey,
    ) -> ArchiveResult<Option<(VoterPrint, Vec<VoterRow>)>> {
        let first = self.first_with(|last| after.is_none_or(|after| last > after));
        let Some(group) = first else {
            return Ok(None);
        };
        let mut rows = self.rows(group, key).await?;
        rows.retain(|(print, _)| after.is_none_or(|after| *print > after));
        let last = rows.last().map(|(print, _)| *print);
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Ok(last.map(|last| (last, rows)))
    }

    /// The first group whose last fingerprint fits. A group without statistics
    /// may hold anything.
    fn first_with(&self, fits: impl Fn(VoterPrint) -> bool) -> Option<usize> {
        (0..self.tail.groups()).find(|group| self.tail.last(*group).is_none_or(&fits))
    }

    async fn bytes(&self, group: usize) -> ArchiveResult<Bytes> {
        let range = self.tail.range(group);
        self.archive.read_range(&self.file.path, range).await
    }

    async fn rows(&self, group: usize, key: &SliceKey) -> ArchiveResult<Vec<PrintedRow>> {
        let bytes = self.bytes(group).await?;
        let (tail, key) = (self.tail.clone(), *key);
        let read = tokio::task::spawn_blocking(move || tail.rows(group, bytes, &key)).await;
        let damaged = |what: String| ArchiveError::damaged(&self.file.path, what);
        let rows = read.map_err(|error| damaged(error.to_string()))?;
        rows.map_err(ArchiveError::parquet(&self.file.path))
    }

    /// Compares every byte with the checksums, without decoding rows; returns
    /// the number of bytes.
    pub(super) async fn check(&self) -> ArchiveResult<u64> {
        self.check_magic().await?;
        for group in 0..self.tail.groups() {
            let bytes = self.bytes(group).await?;
            let checked = self.tail.check(group, &bytes);
            checked.map_err(ArchiveError::parquet(&self.file.path))?;
        }
        Ok(self.file.bytes)
    }

    /// Reads every row, and checks that they match the shard's digest.
    pub(super) async fn read_all(&self, key: &SliceKey) -> ArchiveResult<FileSummary> {
        self.check_magic().await?;
        let mut found = FileSummary::default();
        let mut last = None;
        for group in 0..self.tail.groups() {
            for (print, row) in self.rows(group, key).await? {
                if last.is_some_and(|last| last >= print) {
                    let what = "rows out of order";
                    return Err(ArchiveError::damaged(&self.file.path, what));
                }
                last = Some(print);
                found.add(print, &row, key);
            }
        }
        if found.digest != self.file.digest {
            let (held, named) = (found.digest, self.file.digest);
            let what = format!("its rows have digest {held:?}; the shard expects {named:?}");
            return Err(ArchiveError::damaged(&self.file.path, what));
        }
        Ok(found)
    }

    async fn check_magic(&self) -> ArchiveResult<()> {
        let magic = self
            .archive
            .read_range(&self.file.path, 0..MAGIC.len() as u64);
        match magic.await? == MAGIC.as_slice() {
            true => Ok(()),
            false => Err(ArchiveError::damaged(&self.file.path, "wrong magic bytes")),
        }
    }
}

impl FileSummary {
    fn add(&mut self, print: VoterPrint, row: &VoterRow, key: &SliceKey) {
        let hash = key.hash_row(row.poll, print, &row.items, row.version);
        self.digest.add(hash);
        self.voting += u64::from(!row.items.is_empty());
        for item in row.items.iter().map(|item| usize::from(*item)) {
            if self.counts.len() <= item {
                self.counts.resize(item + 1, 0);
            }
            self.counts[item] += 1;
        }
    }
}
