//! Rows of a stretch of the log, in order.
//!
//! They are kept and sorted in pieces of like size. All of them in one would be
//! moved again and again while it grows, to memory that the operating system has
//! to clear first, and sorted without a rest: with a million rows, half a second
//! of a processor that voters want too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Key;

/// A piece is sorted when it has so many rows, or bytes.
const PIECE_ROWS: usize = 16 << 10;
const PIECE_BYTES: usize = 2 << 20;

/// Rows in the order they were written, to be handed out in the order of keys.
#[derive(Default)]
pub(super) struct Gathered {
    /// Sorted, oldest first.
    pieces: Vec<Piece>,
    open: Piece,
}

#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    /// Key, and where its bytes begin and end. Later places are later rows.
    places: Vec<(Key, u32, u32)>,
}

impl Piece {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(PIECE_BYTES),
            places: Vec::with_capacity(PIECE_ROWS),
        }
    }

    fn row(&self, place: usize) -> Option<(Key, &[u8])> {
        let (key, start, end) = *self.places.get(place)?;
        Some((key, &self.bytes[start as usize..end as usize]))
    }
}

impl Gathered {
    /// Adds a row; says whether a piece was sorted for it.
    pub(super) fn add(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.open.places.is_empty() {
            self.open = Piece::new();
        }
        let start = self.open.bytes.len();
        write(&mut self.open.bytes);
        let end = self.open.bytes.len();
        self.open.places.push((key, start as u32, end as u32));
        let is_full = end >= PIECE_BYTES || self.open.places.len() >= PIECE_ROWS;
        if is_full {
            self.end_piece();
        }
        is_full
    }

    fn end_piece(&mut self) {
        let mut piece = std::mem::take(&mut self.open);
        if !piece.places.is_empty() {
            piece.places.sort_unstable();
            self.pieces.push(piece);
        }
    }

    /// Hands out the last row of each voter, in the order of keys.
    pub(super) fn each<E>(
        mut self,
        mut take: impl FnMut(Key, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_piece();
        // The next row of each piece. Of the same voter's, the oldest first.
        let firsts = self.pieces.iter().enumerate();
        let firsts = firsts.filter_map(|(no, piece)| Some(Reverse((piece.row(0)?.0, no, 0))));
        let mut next: BinaryHeap<Reverse<(Key, usize, usize)>> = firsts.collect();
        while let Some(Reverse((key, no, place))) = next.pop() {
            let piece = &self.pieces[no];
            if let Some((later, _)) = piece.row(place + 1) {
                next.push(Reverse((later, no, place + 1)));
            }
            let is_last = next.peek().is_none_or(|Reverse((later, ..))| *later != key);
            if let Some((_, bytes)) = piece.row(place).filter(|_| is_last) {
                take(key, bytes)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.open.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;
    use crate::shard::VoterPrint;

    /// Several pieces, with voters who come back in the same one and in others.
    #[test]
    fn the_last_row_of_each_voter_is_handed_out_in_order() {
        let mut gathered = Gathered::default();
        let mut expected = BTreeMap::new();
        let mut sorted = 0;
        for n in 0..3 * PIECE_ROWS as u64 + 5 {
            let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49;
            let key = Key {
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
    fn nothing_is_handed_out_of_nothing() {
        assert!(Gathered::default().is_empty());
        let each = Gathered::default().each(|_, _| Err(()));
        assert_eq!(each, Ok(()));
    }
}
