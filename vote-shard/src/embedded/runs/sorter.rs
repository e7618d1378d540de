//! Sorts the rows of a section of the log.
//!
//! Rows are collected and sorted in chunks of similar size. One large buffer
//! would be moved again and again while it grows, to memory that the operating
//! system has to clear first, and sorted without a pause: with a million rows
//! this takes half a second of a processor that votes need too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::RowKey;

/// A chunk is sorted when it reaches so many rows or bytes.
const CHUNK_ROWS: usize = 16 << 10;
const CHUNK_BYTES: usize = 2 << 20;

/// Collects rows in log order, and returns them by key.
#[derive(Default)]
pub(super) struct RowSorter {
    /// Sorted, oldest first.
    chunks: Vec<SortedChunk>,
    open: SortedChunk,
}

#[derive(Default)]
struct SortedChunk {
    bytes: Vec<u8>,
    /// Key, start and end of its bytes. Later entries are later rows.
    places: Vec<(RowKey, u32, u32)>,
}

impl SortedChunk {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            places: Vec::with_capacity(CHUNK_ROWS),
        }
    }

    fn row(&self, place: usize) -> Option<(RowKey, &[u8])> {
        let (key, start, end) = *self.places.get(place)?;
        Some((key, &self.bytes[start as usize..end as usize]))
    }
}

impl RowSorter {
    /// Adds a row; returns whether that completed and sorted a chunk.
    pub(super) fn add(&mut self, key: RowKey, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.open.places.is_empty() {
            self.open = SortedChunk::new();
        }
        let start = self.open.bytes.len();
        write(&mut self.open.bytes);
        let end = self.open.bytes.len();
        self.open.places.push((key, start as u32, end as u32));
        let is_full = end >= CHUNK_BYTES || self.open.places.len() >= CHUNK_ROWS;
        if is_full {
            self.end_chunk();
        }
        is_full
    }

    fn end_chunk(&mut self) {
        let mut chunk = std::mem::take(&mut self.open);
        if !chunk.places.is_empty() {
            chunk.places.sort_unstable();
            self.chunks.push(chunk);
        }
    }

    /// Passes the last row of each voter to `take`, by key.
    pub(super) fn each<E>(
        mut self,
        mut take: impl FnMut(RowKey, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_chunk();
        // The next row of each chunk. Rows of the same voter come oldest first.
        let firsts = self.chunks.iter().enumerate();
        let firsts = firsts.filter_map(|(no, chunk)| Some(Reverse((chunk.row(0)?.0, no, 0))));
        let mut next: BinaryHeap<Reverse<(RowKey, usize, usize)>> = firsts.collect();
        while let Some(Reverse((key, no, place))) = next.pop() {
            let chunk = &self.chunks[no];
            if let Some((later, _)) = chunk.row(place + 1) {
                next.push(Reverse((later, no, place + 1)));
            }
            let is_last = next.peek().is_none_or(|Reverse((later, ..))| *later != key);
            if let Some((_, bytes)) = chunk.row(place).filter(|_| is_last) {
                take(key, bytes)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.open.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;
    use crate::shard::VoterPrint;

    /// Several chunks, with voters that recur in the same chunk and in others.
    #[test]
    fn the_last_row_of_each_voter_is_handed_out_in_order() {
        let mut gathered = RowSorter::default();
        let mut expected = BTreeMap::new();
        let mut sorted = 0;
        for n in 0..3 * CHUNK_ROWS as u64 + 5 {
            let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49;
            let key = RowKey {
                poll: (n % 3) as u32,
                voter: VoterPrint([spread, 1]),
            };
            let row = n.to_le_bytes();
            sorted += usize::from(gathered.add(key, |to| to.extend_from_slice(&row)));
            expected.insert(key, row.to_vec());
        }
        assert_eq!(sorted, 3);
        let mut found = Vec::new();
        let each = gathered.each(|key, row| {
            found.push((key, row.to_vec()));
            Ok::<_, Infallible>(())
        });
        each.unwrap();
        let expected: Vec<_> = expected.into_iter().collect();
        assert!(found == expected, "{} {}", found.len(), expected.len());
    }

    #[test]
    fn an_empty_sorter_returns_no_rows() {
        assert!(RowSorter::default().is_empty());
        let each = RowSorter::default().each(|_, _| Err(()));
        assert_eq!(each, Ok(()));
    }
}
