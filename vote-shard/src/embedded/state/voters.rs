//! A poll's voters in memory: 32 bytes for a typical row.
//!
//! ```text
//!   print 16 │ request 8 │ time since the poll's creation 5 · epoch 1 · item 2
//! ```
//! A typical row has one item and one revision, and its epoch is one of the
//! first 255 that the poll has seen. Other rows are in a second table: in a
//! poll with changeable votes they can become many.

use ballast_domain::Timestamp;
use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::poll::RequestId;
use ballast_domain::poll::judge::ChosenItems;
use ballast_domain::tenant::Epoch;

use super::tables::SplitTables;
use crate::embedded::record::RowRecord;
use crate::shard::{RowVersion, VoterPrint};

/// Marks a row that is in the second table.
const FULL_ROW: u16 = u16::MAX;
const TIME_BITS: u32 = 40;

/// A voter's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct RowData {
    pub(in crate::embedded) items: ChosenItems,
    pub(in crate::embedded) version: RowVersion,
    pub(in crate::embedded) requests: Vec<(RequestId, u32)>,
    pub(in crate::embedded) at: Timestamp,
}

impl RowData {
    pub(in crate::embedded) fn from_record(record: &RowRecord<'_>) -> Self {
        Self {
            items: match record.items[..] {
                [one] => ChosenItems::One(one),
                _ => ChosenItems::Many(record.items.clone()),
            },
            version: record.version,
            requests: record.requests.clone(),
            at: record.at,
        }
    }
}

/// A typical row.
#[derive(Debug, Clone, Copy)]
struct PackedRow {
    request: u64,
    packed: u64,
}

/// A view of a voter's row, without copying.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) enum VoterView<'a> {
    /// One item, one request.
    Packed {
        item: u16,
        request: RequestId,
        version: RowVersion,
        at: Timestamp,
    },
    /// Any other row.
    Full(&'a RowData),
}

impl VoterView<'_> {
    pub(in crate::embedded) fn version(&self) -> RowVersion {
        match self {
            Self::Packed { version, .. } => *version,
            Self::Full(row) => row.version,
        }
    }

    pub(in crate::embedded) fn items(&self) -> &[u16] {
        match self {
            Self::Packed { item, .. } => std::slice::from_ref(item),
            Self::Full(row) => row.items.as_slice(),
        }
    }

    pub(in crate::embedded) fn to_row(self) -> RowData {
        match self {
            Self::Packed {
                item,
                request,
                version,
                at,
            } => RowData {
                items: ChosenItems::One(item),
                version,
                requests: vec![(request, version.revision)],
                at,
            },
            Self::Full(row) => row.clone(),
        }
    }
}

/// A poll's voters.
#[derive(Debug)]
pub(in crate::embedded) struct VoterTable {
    /// The base of relative times.
    since: Timestamp,
    epochs: Vec<Epoch>,
    slim: SplitTables<PackedRow>,
    whole: SplitTables<RowData>,
    count: usize,
}

impl VoterTable {
    pub(in crate::embedded) fn new(since: Timestamp) -> Self {
        Self {
            since,
            epochs: Vec::new(),
            slim: SplitTables::default(),
            whole: SplitTables::default(),
            count: 0,
        }
    }

    /// The number of voters.
    pub(in crate::embedded) fn len(&self) -> usize {
        self.count
    }

    pub(in crate::embedded) fn get(&self, print: &VoterPrint) -> Option<VoterView<'_>> {
        let slim = self.slim.get(print)?;
        let item = slim.packed as u16;
        if item == FULL_ROW {
            return self.whole.get(print).map(VoterView::Full);
        }
        let epoch = self.epochs[(slim.packed >> 16) as u8 as usize];
        let ms = (slim.packed >> 24) as i64;
        Some(VoterView::Packed {
            item,
            request: RequestId(slim.request),
            version: RowVersion { epoch, revision: 1 },
            at: Timestamp::from_unix_ms(self.since.unix_ms() + ms),
        })
    }

    /// Prefetches these voters: in a large poll each lookup misses the cache,
    /// and here the misses overlap.
    pub(in crate::embedded) fn prefetch(&self, prints: &[VoterPrint]) {
        let known = prints.iter().filter(|print| self.slim.contains(print));
        std::hint::black_box(known.count());
    }

    /// Inserts or replaces a row.
    pub(in crate::embedded) fn insert_row(&mut self, print: VoterPrint, row: RowData) {
        let slim = match (&row.items, &row.requests[..]) {
            (ChosenItems::One(item), [(request, 1)]) if row.version.revision == 1 => {
                self.pack(*item, *request, row.version.epoch, row.at)
            }
            _ => None,
        };
        match slim {
            Some(slim) => {
                if self.insert(print, slim) {
                    self.whole.remove(&print);
                }
            }
            None => {
                self.whole.insert(print, row);
                let packed = u64::from(FULL_ROW);
                self.insert(print, PackedRow { request: 0, packed });
            }
        }
    }

    /// Inserts a first vote, the common case.
    pub(in crate::embedded) fn insert_first(
        &mut self,
        print: VoterPrint,
        item: u16,
        request: RequestId,
        epoch: Epoch,
        at: Timestamp,
    ) {
        if let Some(slim) = self.pack(item, request, epoch, at) {
            self.insert(print, slim);
            return;
        }
        let row = RowData {
            items: ChosenItems::One(item),
            version: RowVersion { epoch, revision: 1 },
            requests: vec![(request, 1)],
            at,
        };
        self.insert_row(print, row);
    }

    fn pack(
        &mut self,
        item: u16,
        request: RequestId,
        epoch: Epoch,
        at: Timestamp,
    ) -> Option<PackedRow> {
        let ms = at.unix_ms().checked_sub(self.since.unix_ms())?;
        let ms = u64::try_from(ms).ok().filter(|ms| ms >> TIME_BITS == 0)?;
        let known = self.epochs.iter().rposition(|known| *known == epoch);
        let epoch = match known {
            Some(place) => place,
            None if self.epochs.len() <= usize::from(u8::MAX) => {
                self.epochs.push(epoch);
                self.epochs.len() - 1
            }
            None => return None,
        };
        let packed = ms << 24 | (epoch as u64) << 16 | u64::from(item);
        Some(PackedRow {
            request: request.0,
            packed,
        })
    }

    /// Returns whether it replaced a row.
    fn insert(&mut self, print: VoterPrint, slim: PackedRow) -> bool {
        let replaced = self.slim.insert(print, slim).is_some();
        self.count += usize::from(!replaced);
        replaced
    }

    /// Frees all rows, calling `rest` after every `rows_at_once` rows.
    pub(in crate::embedded) fn free_in_batches(self, rows_at_once: usize, mut rest: impl FnMut()) {
        let mut rows = 0;
        let mut gave = |some: usize| {
            rows += some;
            if rows >= rows_at_once {
                rows = 0;
                rest();
            }
        };
        self.slim.drop_each(&mut |table| gave(table.len()));
        self.whole.drop_each(&mut |table| gave(table.len()));
    }
}

/// Adds a request to those that a row remembers.
pub(in crate::embedded) fn remember(
    requests: &mut Vec<(RequestId, u32)>,
    request: RequestId,
    revision: u32,
) {
    if requests.len() >= REQUESTS_REMEMBERED {
        requests.remove(0);
    }
    requests.push((request, revision));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn row(item: u16, revision: u32, epoch: u64, at: i64) -> RowData {
        RowData {
            items: match item % 5 {
                0 => ChosenItems::Many(vec![item, item + 1]),
                _ => ChosenItems::One(item),
            },
            version: RowVersion {
                epoch: Epoch(epoch),
                revision,
            },
            requests: vec![(RequestId(at.unsigned_abs()), revision)],
            at: Timestamp::from_unix_ms(at),
        }
    }

    proptest! {
        #[test]
        fn rows_are_found_as_they_were_put(
            puts in prop::collection::vec(
                (0u64..50, 0u16..1_000, 1u32..3, 0u64..300, prop_oneof![0i64..1_000_000, Just(-5), Just(1 << 41)]),
                1..300,
            )
        ) {
            let mut voters = VoterTable::new(Timestamp::from_unix_ms(0));
            let mut expected = BTreeMap::new();
            for (voter, item, revision, epoch, at) in puts {
                let print = VoterPrint([voter << 56, voter]);
                let row = row(item, revision, epoch, at);
                voters.insert_row(print, row.clone());
                expected.insert(print, row);
            }
            prop_assert_eq!(voters.len(), expected.len());
            for (print, row) in expected {
                prop_assert_eq!(voters.get(&print).map(VoterView::to_row), Some(row));
            }
        }
    }

    #[test]
    fn a_large_poll_keeps_every_voter_when_its_table_becomes_many() {
        let mut voters = VoterTable::new(Timestamp::from_unix_ms(0));
        let print = |n: u64| VoterPrint([n.rotate_right(9), n.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
        let many = 131_072;
        for n in 0..many {
            voters.insert_first(
                print(n),
                (n % 7) as u16,
                RequestId(n),
                Epoch(1),
                Timestamp::from_unix_ms(5),
            );
        }
        assert_eq!(voters.len() as u64, many);
        for n in 0..many {
            let seen = voters.get(&print(n)).unwrap();
            assert_eq!(seen.items(), [(n % 7) as u16]);
        }
    }

    #[test]
    fn a_usual_row_takes_32_bytes() {
        assert_eq!(size_of::<(VoterPrint, PackedRow)>(), 32);
    }
}
