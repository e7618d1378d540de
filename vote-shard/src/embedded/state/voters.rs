//! A poll's voters in memory: 32 bytes each for the usual row.
//!
//! ```text
//!   print 16 │ request 8 │ time since the poll's creation 5 · epoch 1 · item 2
//! ```
//! The usual row has one item, was written once, and its epoch is one of the
//! first 255 the poll has seen. Any other row is whole in tables beside: in a
//! poll whose voters change their minds these are soon as many.

use ballast_domain::Timestamp;
use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::poll::RequestId;
use ballast_domain::poll::judge::Chosen;
use ballast_domain::tenant::Epoch;

use super::tables::Tables;
use crate::embedded::record::RowRecord;
use crate::shard::{Version, VoterPrint};

/// The item of a row that is in the tables beside.
const WHOLE: u16 = u16::MAX;
const TIME_BITS: u32 = 40;

/// A row as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct Row {
    pub(in crate::embedded) items: Chosen,
    pub(in crate::embedded) version: Version,
    pub(in crate::embedded) requests: Vec<(RequestId, u32)>,
    pub(in crate::embedded) at: Timestamp,
}

impl Row {
    pub(in crate::embedded) fn of(record: &RowRecord<'_>) -> Self {
        Self {
            items: match record.items[..] {
                [one] => Chosen::One(one),
                _ => Chosen::Many(record.items.clone()),
            },
            version: record.version,
            requests: record.requests.clone(),
            at: record.at,
        }
    }
}

/// A usual row.
#[derive(Debug, Clone, Copy)]
struct Slim {
    request: u64,
    packed: u64,
}

/// What is known of a voter, cheap to look at.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) enum Seen<'a> {
    /// One item, one request.
    Slim {
        item: u16,
        request: RequestId,
        version: Version,
        at: Timestamp,
    },
    /// Anything else.
    Whole(&'a Row),
}

impl Seen<'_> {
    pub(in crate::embedded) fn version(&self) -> Version {
        match self {
            Self::Slim { version, .. } => *version,
            Self::Whole(row) => row.version,
        }
    }

    pub(in crate::embedded) fn items(&self) -> &[u16] {
        match self {
            Self::Slim { item, .. } => std::slice::from_ref(item),
            Self::Whole(row) => row.items.as_slice(),
        }
    }

    pub(in crate::embedded) fn to_row(self) -> Row {
        match self {
            Self::Slim {
                item,
                request,
                version,
                at,
            } => Row {
                items: Chosen::One(item),
                version,
                requests: vec![(request, version.revision)],
                at,
            },
            Self::Whole(row) => row.clone(),
        }
    }
}

/// A poll's voters.
#[derive(Debug)]
pub(in crate::embedded) struct Voters {
    /// What times are relative to.
    since: Timestamp,
    epochs: Vec<Epoch>,
    slim: Tables<Slim>,
    whole: Tables<Row>,
    count: usize,
}

impl Voters {
    pub(in crate::embedded) fn new(since: Timestamp) -> Self {
        Self {
            since,
            epochs: Vec::new(),
            slim: Tables::default(),
            whole: Tables::default(),
            count: 0,
        }
    }

    /// How many there are.
    pub(in crate::embedded) fn len(&self) -> usize {
        self.count
    }

    pub(in crate::embedded) fn get(&self, print: &VoterPrint) -> Option<Seen<'_>> {
        let slim = self.slim.get(print)?;
        let item = slim.packed as u16;
        if item == WHOLE {
            return self.whole.get(print).map(Seen::Whole);
        }
        let epoch = self.epochs[(slim.packed >> 16) as u8 as usize];
        let ms = (slim.packed >> 24) as i64;
        Some(Seen::Slim {
            item,
            request: RequestId(slim.request),
            version: Version { epoch, revision: 1 },
            at: Timestamp::from_unix_ms(self.since.unix_ms() + ms),
        })
    }

    /// Brings what is known of these voters near: in a large poll each look-up
    /// waits for memory, and here the waits overlap.
    pub(in crate::embedded) fn touch(&self, prints: &[VoterPrint]) {
        let known = prints.iter().filter(|print| self.slim.contains(print));
        std::hint::black_box(known.count());
    }

    /// Puts a row in place of the one that is there.
    pub(in crate::embedded) fn put(&mut self, print: VoterPrint, row: Row) {
        let slim = match (&row.items, &row.requests[..]) {
            (Chosen::One(item), [(request, 1)]) if row.version.revision == 1 => {
                self.slim(*item, *request, row.version.epoch, row.at)
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
                let packed = u64::from(WHOLE);
                self.insert(print, Slim { request: 0, packed });
            }
        }
    }

    /// Puts a first vote, the usual case.
    pub(in crate::embedded) fn put_first(
        &mut self,
        print: VoterPrint,
        item: u16,
        request: RequestId,
        epoch: Epoch,
        at: Timestamp,
    ) {
        if let Some(slim) = self.slim(item, request, epoch, at) {
            self.insert(print, slim);
            return;
        }
        let row = Row {
            items: Chosen::One(item),
            version: Version { epoch, revision: 1 },
            requests: vec![(request, 1)],
            at,
        };
        self.put(print, row);
    }

    fn slim(&mut self, item: u16, request: RequestId, epoch: Epoch, at: Timestamp) -> Option<Slim> {
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
        Some(Slim {
            request: request.0,
            packed,
        })
    }

    /// Says whether there was one before.
    fn insert(&mut self, print: VoterPrint, slim: Slim) -> bool {
        let replaced = self.slim.insert(print, slim).is_some();
        self.count += usize::from(!replaced);
        replaced
    }

    /// Gives back the memory of all rows, with a rest after each so many.
    pub(in crate::embedded) fn give_back(self, rows_at_once: usize, mut rest: impl FnMut()) {
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

/// Adds a request to those a row remembers.
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

    fn row(item: u16, revision: u32, epoch: u64, at: i64) -> Row {
        Row {
            items: match item % 5 {
                0 => Chosen::Many(vec![item, item + 1]),
                _ => Chosen::One(item),
            },
            version: Version {
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
            let mut voters = Voters::new(Timestamp::from_unix_ms(0));
            let mut expected = BTreeMap::new();
            for (voter, item, revision, epoch, at) in puts {
                let print = VoterPrint([voter << 56, voter]);
                let row = row(item, revision, epoch, at);
                voters.put(print, row.clone());
                expected.insert(print, row);
            }
            prop_assert_eq!(voters.len(), expected.len());
            for (print, row) in expected {
                prop_assert_eq!(voters.get(&print).map(Seen::to_row), Some(row));
            }
        }
    }

    #[test]
    fn a_large_poll_keeps_every_voter_when_its_table_becomes_many() {
        let mut voters = Voters::new(Timestamp::from_unix_ms(0));
        let print = |n: u64| VoterPrint([n.rotate_right(9), n.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
        let many = 131_072;
        for n in 0..many {
            voters.put_first(
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
        assert_eq!(size_of::<(VoterPrint, Slim)>(), 32);
    }
}
