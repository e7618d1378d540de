//! Voters by fingerprint, in hash tables that never grow by much at once.
//!
//! ```text
//!   one table ──► full, and large ──► 256 tables, by the next byte of the
//!                                     fingerprint ──► each of these the same
//! ```
//! A table that doubles moves all its rows to memory that the operating system
//! has to clear first, and votes wait meanwhile: a single table took a quarter
//! of a second at half a million rows. So a large one is split instead. The
//! tables are in the order of fingerprints: sorted rows fill one after the
//! other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::shard::VoterPrint;

/// A full table with more bytes than this is split. At most about twice as much
/// is moved at once.
const GROWS_UP_TO: usize = 512 << 10;
const PARTS: usize = 256;
/// Fingerprint bytes that select a table; the others are the hash.
const DEPTH_MAX: u32 = 8;

type Table<V> = HashMap<VoterPrint, V, BuildHasherDefault<PrintHasher>>;

#[derive(Debug)]
pub(super) enum SplitTables<V> {
    One(Table<V>),
    /// By the next byte of the fingerprint.
    Many(Vec<Self>),
}

impl<V> Default for SplitTables<V> {
    fn default() -> Self {
        Self::One(Table::default())
    }
}

impl<V> SplitTables<V> {
    fn table(&self, print: &VoterPrint) -> &Table<V> {
        let (mut here, mut depth) = (self, 0);
        loop {
            match here {
                Self::One(table) => return table,
                Self::Many(parts) => here = &parts[child_index(print, depth)],
            }
            depth += 1;
        }
    }

    pub(super) fn get(&self, print: &VoterPrint) -> Option<&V> {
        self.table(print).get(print)
    }

    pub(super) fn contains(&self, print: &VoterPrint) -> bool {
        self.table(print).contains_key(print)
    }

    /// Inserts a value, and returns the replaced one.
    pub(super) fn insert(&mut self, print: VoterPrint, value: V) -> Option<V> {
        let (mut here, mut depth) = (self, 0);
        loop {
            here.divide_if_full(depth);
            match here {
                Self::One(table) => return table.insert(print, value),
                Self::Many(parts) => here = &mut parts[child_index(&print, depth)],
            }
            depth += 1;
        }
    }

    pub(super) fn remove(&mut self, print: &VoterPrint) {
        let (mut here, mut depth) = (self, 0);
        loop {
            match here {
                Self::One(table) => {
                    table.remove(print);
                    return;
                }
                Self::Many(parts) => here = &mut parts[child_index(print, depth)],
            }
            depth += 1;
        }
    }

    fn divide_if_full(&mut self, depth: u32) {
        let Self::One(table) = self else {
            return;
        };
        let is_large = table.len() * size_of::<(VoterPrint, V)>() > GROWS_UP_TO;
        if !is_large || table.len() < table.capacity() || depth >= DEPTH_MAX {
            return;
        }
        let rows = std::mem::take(table);
        // Capacity for tables with more than their share.
        let each = rows.len() / PARTS * 5 / 4;
        let mut parts: Vec<Table<V>> = Vec::with_capacity(PARTS);
        parts.resize_with(PARTS, || {
            Table::with_capacity_and_hasher(each, BuildHasherDefault::default())
        });
        for (print, value) in rows {
            parts[child_index(&print, depth)].insert(print, value);
        }
        *self = Self::Many(parts.into_iter().map(Self::One).collect());
    }

    /// Drops its tables one after the other, after passing each to `take`.
    pub(super) fn drop_each(self, take: &mut impl FnMut(&Table<V>)) {
        match self {
            Self::One(table) => take(&table),
            Self::Many(parts) => parts.into_iter().for_each(|part| part.drop_each(take)),
        }
    }

    /// Capacity of the largest table, in bytes.
    #[cfg(test)]
    fn largest(&self) -> usize {
        match self {
            Self::One(table) => table.capacity() * size_of::<(VoterPrint, V)>(),
            Self::Many(parts) => parts.iter().map(Self::largest).max().unwrap_or(0),
        }
    }
}

fn child_index(print: &VoterPrint, depth: u32) -> usize {
    usize::from((print.0[0] << (8 * depth)).to_be_bytes()[0])
}

/// A fingerprint is already a hash.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PrintHasher(u64);

impl Hasher for PrintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    /// Unused: a fingerprint hashes itself as one number.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As uniform as fingerprints are.
    fn print(n: u64) -> VoterPrint {
        let spread = |n: u64| {
            let n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let n = (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            n ^ (n >> 33)
        };
        VoterPrint([spread(n + 1), spread(!n)])
    }

    /// Bounds the delay of one vote: it never waits for all rows of a poll to
    /// move.
    #[test]
    fn no_table_grows_beyond_its_limit_however_many_rows_there_are() {
        let mut tables = SplitTables::<[u64; 10]>::default();
        for n in 0..300_000 {
            assert_eq!(tables.insert(print(n), [n; 10]), None);
        }
        let largest = tables.largest();
        assert!(largest <= 2 * GROWS_UP_TO, "{largest}");
        for n in 0..300_000 {
            assert_eq!(tables.get(&print(n)), Some(&[n; 10]));
        }
        assert!(!tables.contains(&print(300_000)));
    }

    /// Fingerprints that share their first bytes, which a keyed hash
    /// practically never produces.
    #[test]
    fn rows_that_cannot_be_divided_stay_together() {
        let mut tables = SplitTables::<[u64; 10]>::default();
        let alike = |n: u64| VoterPrint([7, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
        for n in 0..20_000 {
            tables.insert(alike(n), [n; 10]);
        }
        for n in 0..20_000 {
            assert_eq!(tables.get(&alike(n)), Some(&[n; 10]));
        }
    }

    #[test]
    fn every_row_is_replaced_removed_and_dropped_once() {
        let mut tables = SplitTables::<u64>::default();
        for n in 0..100_000 {
            tables.insert(print(n), n);
        }
        for n in 0..50_000 {
            assert_eq!(tables.insert(print(n), n + 1), Some(n));
        }
        for n in 0..10_000 {
            tables.remove(&print(n));
        }
        let (mut seen, mut sum) = (0, 0);
        tables.drop_each(&mut |table| {
            seen += table.len() as u64;
            sum += table.values().sum::<u64>();
        });
        assert_eq!(seen, 90_000);
        let expected = (10_000..100_000).sum::<u64>() + 40_000;
        assert_eq!(sum, expected);
    }
}
