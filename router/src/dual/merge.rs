//! Two copies of rows become one, the newer version of each: the decision,
//! pure.
//!
//! A row that only the previous shard has, or has newer, is *suspect*: it may
//! have come to both sides between two reads, so whoever finds one looks at the
//! owner again. If the owner still lacks it, it is a straggler.

use std::collections::VecDeque;

use ballast_vote_shard::shard::VoterRow;

/// One of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merged<R> {
    /// The owner has it, and nobody has a newer one.
    Sure(R),
    /// The previous shard's; the owner has none or an older one.
    Suspect(R),
}

/// What has a version: the higher one is newer.
pub(crate) trait Versioned {
    type Version: Ord;
    fn version(&self) -> Self::Version;
}

impl Versioned for VoterRow {
    type Version = ballast_vote_shard::shard::Version;
    fn version(&self) -> Self::Version {
        self.version
    }
}

/// The newer of two rows with the same key.
pub(crate) fn newer<R: Versioned>(own: Option<R>, other: Option<R>) -> Option<Merged<R>> {
    match (own, other) {
        (Some(own), Some(other)) if other.version() > own.version() => Some(Merged::Suspect(other)),
        (Some(own), _) => Some(Merged::Sure(own)),
        (None, Some(other)) => Some(Merged::Suspect(other)),
        (None, None) => None,
    }
}

/// Rows of one side in the order of their keys, as far as they have been read.
#[derive(Debug, Clone)]
pub(crate) struct Side<K, R> {
    rows: VecDeque<(K, R)>,
    ended: bool,
}

impl<K, R> Default for Side<K, R> {
    fn default() -> Self {
        Self {
            rows: VecDeque::new(),
            ended: false,
        }
    }
}

impl<K: Ord + Copy, R: Versioned> Side<K, R> {
    /// Whether more must be read before anything can be said.
    pub(crate) fn wants_more(&self) -> bool {
        self.rows.is_empty() && !self.ended
    }

    /// Adds what was read.
    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = (K, R)>) {
        self.rows.extend(rows);
    }

    /// There is no more to come.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// There is no more to come, and what came is not to be used.
    pub(crate) fn give_up(&mut self) {
        self.rows.clear();
        self.ended = true;
    }

    /// Whether everything has been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.rows.is_empty() && self.ended
    }
}

/// Takes from both sides what is sure to come next: up to where the one that
/// was read less far ends. What is left stays for the next time.
pub(crate) fn take<K: Ord + Copy, R: Versioned>(
    own: &mut Side<K, R>,
    other: &mut Side<K, R>,
) -> Vec<(K, Merged<R>)> {
    let mut taken = Vec::with_capacity(own.rows.len());
    while !own.wants_more() && !other.wants_more() {
        let keys = [&own.rows, &other.rows].map(|rows| rows.front().map(|(key, _)| *key));
        let Some(next) = keys.into_iter().flatten().min() else {
            break;
        };
        let front = |side: &mut Side<K, R>| {
            let is_next = side.rows.front().is_some_and(|(key, _)| *key == next);
            is_next.then(|| side.rows.pop_front()).flatten()
        };
        let (own, other) = (front(own), front(other));
        let merged = newer(own.map(|(_, row)| row), other.map(|(_, row)| row));
        taken.extend(merged.map(|merged| (next, merged)));
    }
    taken
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
    fn the_newer_one_stays_and_only_the_other_sides_is_suspect() {
        let row = |version| Some(Row(version));
        assert_eq!(newer::<Row>(None, None), None);
        assert_eq!(newer(row(1), None), Some(Merged::Sure(Row(1))));
        assert_eq!(newer(row(2), row(2)), Some(Merged::Sure(Row(2))));
        assert_eq!(newer(row(3), row(2)), Some(Merged::Sure(Row(3))));
        assert_eq!(newer(row(1), row(2)), Some(Merged::Suspect(Row(2))));
        assert_eq!(newer(None, row(1)), Some(Merged::Suspect(Row(1))));
    }

    type Rows = BTreeMap<u16, u8>;

    /// Reads both sides in pages and merges them as they come.
    fn streamed(
        own: &Rows,
        other: &Rows,
        pages: (usize, usize),
    ) -> (Vec<(u16, Merged<Row>)>, usize) {
        let rows = |rows: &Rows| {
            rows.iter()
                .map(|(k, v)| (*k, Row(*v)))
                .collect::<VecDeque<_>>()
        };
        let (mut own_left, mut other_left) = (rows(own), rows(other));
        let (mut one, mut two) = (Side::default(), Side::default());
        let (mut all, mut kept_max) = (Vec::new(), 0);
        let fill = |side: &mut Side<u16, Row>, left: &mut VecDeque<_>, page: usize| {
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
            all.extend(take(&mut one, &mut two));
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
                expected.extend(newer(row(&own), row(&other)).map(|merged| (*key, merged)));
            }
            let (merged, kept_max) = streamed(&own, &other, pages);
            prop_assert_eq!(merged, expected);
            prop_assert!(kept_max <= pages.0 + pages.1, "memory is bounded");
        }

        #[test]
        fn without_the_other_side_the_owners_rows_stay(
            own in proptest::collection::btree_map(0..40_u16, 0..4_u8, 0..30),
        ) {
            let mut one = Side::default();
            one.add(own.iter().map(|(key, version)| (*key, Row(*version))));
            one.end();
            let mut two = Side::default();
            two.add([(7, Row(9))]);
            two.give_up();
            let merged = take(&mut one, &mut two);
            let expected: Vec<_> = own.iter().map(|(k, v)| (*k, Merged::Sure(Row(*v)))).collect();
            prop_assert_eq!(merged, expected);
        }
    }
}
