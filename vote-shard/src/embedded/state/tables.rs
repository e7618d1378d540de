//! Voters by their prints, in tables of which none grows by much at once.
//!
//! ```text
//!   one table ──► full, and large ──► 256 of them, by the next byte of a print
//!                                      └─► each of these the same
//! ```
//! A table that doubles moves all its rows to memory that the operating system
//! has to clear first, and whoever votes waits for that: a single one took a
//! quarter of a second at half a million rows. So a large one is divided
//! instead. The order of tables is that of prints: rows that come sorted fill
//! one after the other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::shard::VoterPrint;

/// A table with more bytes than this is divided when it is full. The most that
/// is moved at once is about twice that.
const GROWS_UP_TO: usize = 512 << 10;
const PARTS: usize = 256;
/// Bytes of a print by which tables are divided; the others are the hash.
const DEPTH_MAX: u32 = 8;

type Table<V> = HashMap<VoterPrint, V, BuildHasherDefault<Print>>;

#[derive(Debug)]
pub(super) enum Tables<V> {
    One(Table<V>),
    /// By the next byte of the print.
    Many(Vec<Self>),
}

impl<V> Default for Tables<V> {
    fn default() -> Self {
        Self::One(Table::default())
    }
}

impl<V> Tables<V> {
    fn table(&self, print: &VoterPrint) -> &Table<V> {
        let (mut here, mut depth) = (self, 0);
        loop {
            match here {
                Self::One(table) => return table,
                Self::Many(parts) => here = &parts[part_of(print, depth)],
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

    /// Puts something in place of what is there, which is returned.
    pub(super) fn insert(&mut self, print: VoterPrint, value: V) -> Option<V> {
        let (mut here, mut depth) = (self, 0);
        loop {
            here.divide_if_full(depth);
            match here {
                Self::One(table) => return table.insert(print, value),
                Self::Many(parts) => here = &mut parts[part_of(&print, depth)],
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
                Self::Many(parts) => here = &mut parts[part_of(print, depth)],
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
        // Room for those that get more than their share.
        let each = rows.len() / PARTS * 5 / 4;
        let mut parts: Vec<Table<V>> = Vec::with_capacity(PARTS);
        parts.resize_with(PARTS, || {
            Table::with_capacity_and_hasher(each, BuildHasherDefault::default())
        });
        for (print, value) in rows {
            parts[part_of(&print, depth)].insert(print, value);
        }
        *self = Self::Many(parts.into_iter().map(Self::One).collect());
    }

    /// Drops its tables one after the other, each after it was shown.
    pub(super) fn drop_each(self, take: &mut impl FnMut(&Table<V>)) {
        match self {
            Self::One(table) => take(&table),
            Self::Many(parts) => parts.into_iter().for_each(|part| part.drop_each(take)),
        }
    }

    /// The bytes that the largest of its tables has room for.
    #[cfg(test)]
    fn largest(&self) -> usize {
        match self {
            Self::One(table) => table.capacity() * size_of::<(VoterPrint, V)>(),
            Self::Many(parts) => parts.iter().map(Self::largest).max().unwrap_or(0),
        }
    }
}

fn part_of(print: &VoterPrint, depth: u32) -> usize {
    usize::from((print.0[0] << (8 * depth)).to_be_bytes()[0])
}

/// A print is a keyed hash already: nothing more is to be hashed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Print(u64);

impl Hasher for Print {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    /// Not used: a print hashes itself as one number.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As spread as prints are.
    fn print(n: u64) -> VoterPrint {
        let spread = |n: u64| {
            let n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let n = (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            n ^ (n >> 33)
        };
        VoterPrint([spread(n + 1), spread(!n)])
    }

    /// What one vote may have to wait for: never all rows of a poll.
    #[test]
    fn no_table_grows_beyond_its_limit_however_many_rows_there_are() {
        let mut tables = Tables::<[u64; 10]>::default();
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

    /// Prints that agree in their first bytes, as no keyed hash makes them.
    #[test]
    fn rows_that_cannot_be_divided_stay_together() {
        let mut tables = Tables::<[u64; 10]>::default();
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
        let mut tables = Tables::<u64>::default();
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
