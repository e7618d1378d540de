//! Merges the rows of two shards, keeping the newer version of each: pure
//! functions.
//!
//! A row that only the previous shard has, or has newer, is *unconfirmed*: it may
//! have reached both shards between the two reads, so the caller reads the owner
//! again. If the owner still lacks it, it is a straggler.

use std::collections::VecDeque;

use ballast_vote_shard::shard::VoterRow;

/// The newer row of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergedRow<R> {
    /// The owner has it, and the previous shard has no newer one.
    Confirmed(R),
    /// Only the previous shard has it; the owner has none or an older one.
    Unconfirmed(R),
}

/// A row with a version. A higher version is newer.
pub(crate) trait Versioned {
    type Version: Ord;
    fn version(&self) -> Self::Version;
}

impl Versioned for VoterRow {
    type Version = ballast_vote_shard::shard::RowVersion;
    fn version(&self) -> Self::Version {
        self.version
    }
}

/// Merges two rows with the same key.
pub(crate) fn merge_rows<R: Versioned>(own: Option<R>, other: Option<R>) -> Option<MergedRow<R>> {
    match (own, other) {
        (Some(own), Some(other)) if other.version() > own.version() => {
            Some(MergedRow::Unconfirmed(other))
        }
        (Some(own), _) => Some(MergedRow::Confirmed(own)),
        (None, Some(other)) => Some(MergedRow::Unconfirmed(other)),
        (None, None) => None,
    }
}

/// The rows of one shard that were read and not merged yet, in the order of their
/// keys.
#[derive(Debug, Clone)]
pub(crate) struct MergeSide<K, R> {
    rows: VecDeque<(K, R)>,
    ended: bool,
}

impl<K, R> Default for MergeSide<K, R> {
    fn default() -> Self {
        Self {
            rows: VecDeque::new(),
            ended: false,
        }
    }
}

impl<K: Ord + Copy, R: Versioned> MergeSide<K, R> {
    /// Whether more rows must be read before the merge can go on.
    pub(crate) fn wants_more(&self) -> bool {
        self.rows.is_empty() && !self.ended
    }

    /// Adds rows that were read.
    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = (K, R)>) {
        self.rows.extend(rows);
    }

    /// Marks that there are no more rows.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Discards the rows, and marks that there are no more.
    pub(crate) fn give_up(&mut self) {
        self.rows.clear();
        self.ended = true;
    }

    /// Whether all rows have been merged.
    pub(crate) fn is_over(&self) -> bool {
        self.rows.is_empty() && self.ended
    }
}

/// Merges the rows of both shards up to where the shorter side ends. The rest stays
/// for the next call.
pub(crate) fn take_merged<K: Ord + Copy, R: Versioned>(
    own: &mut MergeSide<K, R>,
    other: &mut MergeSide<K, R>,
) -> Vec<(K, MergedRow<R>)> {
    let mut merged_rows = Vec::with_capacity(own.rows.len());
    while !own.wants_more() && !other.wants_more() {
        let keys = [&own.rows, &other.rows].map(|rows| rows.front().map(|(key, _)| *key));
        let Some(next) = keys.into_iter().flatten().min() else {
            break;
        };
        let front = |side: &mut MergeSide<K, R>| {
            let is_next = side.rows.front().is_some_and(|(key, _)| *key == next);
            is_next.then(|| side.rows.pop_front()).flatten()
        };
        let (own, other) = (front(own), front(other));
        let merged = merge_rows(own.map(|(_, row)| row), other.map(|(_, row)| row));
        merged_rows.extend(merged.map(|merged| (next, merged)));
    }
    merged_rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Row(u8);
    impl Versioned for Row {
        type Version = u8;
        fn version(&self) -> u8 {
            self.0
        }
    }

    #[test]
    fn the_newer_row_wins_and_only_the_previous_shards_is_unconfirmed() {
        let row = |version| Some(Row(version));
        assert_eq!(merge_rows::<Row>(None, None), None);
        assert_eq!(merge_rows(row(1), None), Some(MergedRow::Confirmed(Row(1))));
        assert_eq!(
            merge_rows(row(2), row(2)),
            Some(MergedRow::Confirmed(Row(2)))
        );
        assert_eq!(
            merge_rows(row(3), row(2)),
            Some(MergedRow::Confirmed(Row(3)))
        );
        assert_eq!(
            merge_rows(row(1), row(2)),
            Some(MergedRow::Unconfirmed(Row(2)))
        );
        assert_eq!(
            merge_rows(None, row(1)),
            Some(MergedRow::Unconfirmed(Row(1)))
        );
    }

    type Rows = BTreeMap<u16, u8>;

    /// Reads both sides in pages and merges them as they come.
    fn streamed(
        own: &Rows,
        other: &Rows,
        pages: (usize, usize),
    ) -> (Vec<(u16, MergedRow<Row>)>, usize) {
        let rows = |rows: &Rows| {
            rows.iter()
                .map(|(k, v)| (*k, Row(*v)))
                .collect::<VecDeque<_>>()
        };
        let (mut own_left, mut other_left) = (rows(own), rows(other));
        let (mut one, mut two) = (MergeSide::default(), MergeSide::default());
        let (mut all, mut kept_max) = (Vec::new(), 0);
        let fill = |side: &mut MergeSide<u16, Row>, left: &mut VecDeque<_>, page: usize| {
            if side.wants_more() {
                let page: Vec<_> = left.drain(..page.min(left.len())).collect();
                side.add(page);
                if left.is_empty() {
                    side.end();
                }
            }
        };
        while !(one.is_over() && two.is_over()) {
            fill(&mut one, &mut own_left, pages.0);
            fill(&mut two, &mut other_left, pages.1);
            kept_max = kept_max.max(one.rows.len() + two.rows.len());
            all.extend(take_merged(&mut one, &mut two));
        }
        (all, kept_max)
    }

    proptest! {
        #[test]
        fn a_merge_in_pages_is_the_merge_of_all(
            own in proptest::collection::btree_map(0..40_u16, 0..4_u8, 0..30),
            other in proptest::collection::btree_map(0..40_u16, 0..4_u8, 0..30),
            pages in (1..7_usize, 1..7_usize),
        ) {
            let mut expected = Vec::new();
            let keys: std::collections::BTreeSet<_> = own.keys().chain(other.keys()).collect();
            for key in keys {
                let row = |rows: &Rows| rows.get(key).map(|version| Row(*version));
                expected.extend(merge_rows(row(&own), row(&other)).map(|merged| (*key, merged)));
            }
            let (merged, kept_max) = streamed(&own, &other, pages);
            prop_assert_eq!(merged, expected);
            prop_assert!(kept_max <= pages.0 + pages.1, "memory is bounded");
        }

        #[test]
        fn without_the_other_side_the_owners_rows_stay(
            own in proptest::collection::btree_map(0..40_u16, 0..4_u8, 0..30),
        ) {
            let mut one = MergeSide::default();
            one.add(own.iter().map(|(key, version)| (*key, Row(*version))));
            one.end();
            let mut two = MergeSide::default();
            two.add([(7, Row(9))]);
            two.give_up();
            let merged = take_merged(&mut one, &mut two);
            let expected: Vec<_> = own.iter().map(|(k, v)| (*k, MergedRow::Confirmed(Row(*v)))).collect();
            prop_assert_eq!(merged, expected);
        }
    }
}
