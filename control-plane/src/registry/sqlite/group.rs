//! Decides, purely, which commits of a group succeed.
//!
//! The writer reads everything the group refers to into a [`View`]. Each commit is
//! checked against it in turn. A successful commit updates the view for the following
//! ones and adds its rows to the [`Batch`], which is then written.

use std::collections::{BTreeMap, HashMap, HashSet};

use ballast_domain::Timestamp;
use ballast_domain::bounds::COMMIT_WRITES_MAX;
use ballast_domain::registry::{
    ABSENT, CommitError, Precondition, RecordKey, RecordKind, RecordWrite, RegistryCommit,
    RegistryError, RememberedReply,
};

/// The state of a record that the group refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::registry) struct RecordState {
    /// Its version, or the version at which it was removed.
    pub(in crate::registry) version: u64,
    pub(in crate::registry) live: bool,
    pub(in crate::registry) sequence: u64,
    pub(in crate::registry) terms: Vec<String>,
    pub(in crate::registry) tallies: Vec<String>,
}

/// The stored state that a group refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::registry) struct View {
    pub(in crate::registry) records: HashMap<RecordKey, RecordState>,
    pub(in crate::registry) tallies: HashMap<(RecordKind, String), u64>,
    pub(in crate::registry) replies: HashSet<String>,
}

impl View {
    fn version(&self, key: &RecordKey) -> u64 {
        match self.records.get(key) {
            Some(known) if known.live => known.version,
            _ => ABSENT,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::registry) struct CommitRow {
    pub(in crate::registry) revision: u64,
    pub(in crate::registry) at: Timestamp,
    pub(in crate::registry) commit: RegistryCommit,
    pub(in crate::registry) first_sequence: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::registry) struct EventRow {
    pub(in crate::registry) sequence: u64,
    pub(in crate::registry) revision: u64,
    pub(in crate::registry) key: RecordKey,
    pub(in crate::registry) version: u64,
    pub(in crate::registry) previous: Option<u64>,
    pub(in crate::registry) body: Option<String>,
}

/// The rows that a group writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::registry) struct Batch {
    pub(in crate::registry) commits: Vec<CommitRow>,
    pub(in crate::registry) events: Vec<EventRow>,
    pub(in crate::registry) records: BTreeMap<RecordKey, RecordState>,
    /// Whether the record has the term after the group.
    pub(in crate::registry) terms: BTreeMap<(RecordKind, String, String), bool>,
    pub(in crate::registry) tallies: BTreeMap<(RecordKind, String), u64>,
    pub(in crate::registry) tally_history: BTreeMap<(RecordKind, String, u64), u64>,
    pub(in crate::registry) replies: Vec<RememberedReply>,
}

/// The last assigned numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::registry) struct Counters {
    pub(in crate::registry) revision: u64,
    pub(in crate::registry) sequence: u64,
}

impl Batch {
    /// Adds a commit if everything it expects holds. A rejected commit leaves view,
    /// batch and counters unchanged.
    pub(in crate::registry) fn take(
        &mut self,
        view: &mut View,
        counters: &mut Counters,
        at: Timestamp,
        mut commit: RegistryCommit,
    ) -> Result<u64, CommitError> {
        check(view, &commit)?;
        if let Some(reply) = commit.reply.take() {
            view.replies.insert(reply.id.clone());
            self.replies.push(reply);
        }
        if commit.writes.is_empty() {
            // Nothing to publish in the change feed.
            return Ok(counters.revision);
        }
        counters.revision += 1;
        let revision = counters.revision;
        let first_sequence = counters.sequence + 1;
        for write in std::mem::take(&mut commit.writes) {
            counters.sequence += 1;
            self.write(view, revision, counters.sequence, write);
        }
        self.commits.push(CommitRow {
            revision,
            at,
            commit,
            first_sequence,
        });
        Ok(revision)
    }

    fn write(&mut self, view: &mut View, revision: u64, sequence: u64, write: RecordWrite) {
        let RecordWrite {
            key,
            body,
            terms,
            tallies,
            ..
        } = write;
        let old = view.records.get(&key).cloned();
        let live = body.is_some();
        let (old_terms, old_tallies) = match &old {
            Some(old) if old.live => (old.terms.clone(), old.tallies.clone()),
            _ => Default::default(),
        };
        let (terms, tallies) = match (live, terms) {
            (false, _) => Default::default(),
            (true, Some(terms)) => (terms, tallies),
            (true, None) => (old_terms.clone(), tallies),
        };
        let known = RecordState {
            version: old.as_ref().map_or(0, |old| old.version) + 1,
            live,
            sequence,
            terms,
            tallies,
        };
        let id = |term: &String| (key.kind, term.clone(), key.id.clone());
        for term in old_terms.iter().chain(&old_tallies) {
            self.terms.insert(id(term), false);
        }
        for term in known.terms.iter().chain(&known.tallies) {
            self.terms.insert(id(term), true);
        }
        if old_tallies != known.tallies {
            self.count(view, key.kind, revision, &old_tallies, &known.tallies);
        }
        self.events.push(EventRow {
            sequence,
            revision,
            key: key.clone(),
            version: known.version,
            previous: old.map(|old| old.sequence),
            body,
        });
        self.records.insert(key.clone(), known.clone());
        view.records.insert(key, known);
    }

    fn count(
        &mut self,
        view: &mut View,
        kind: RecordKind,
        revision: u64,
        less: &[String],
        more: &[String],
    ) {
        let changes = less
            .iter()
            .map(|tally| (tally, -1))
            .chain(more.iter().map(|tally| (tally, 1)));
        for (tally, change) in changes {
            let count = view.tallies.entry((kind, tally.clone())).or_default();
            *count = count.saturating_add_signed(change);
            self.tallies.insert((kind, tally.clone()), *count);
            self.tally_history
                .insert((kind, tally.clone(), revision), *count);
        }
    }
}

fn check(view: &View, commit: &RegistryCommit) -> Result<(), CommitError> {
    if let Some(reply) = &commit.reply
        && view.replies.contains(&reply.id)
    {
        return Err(CommitError::AlreadyAnswered);
    }
    if commit.writes.len() > COMMIT_WRITES_MAX {
        return Err(RegistryError::new("commit to the registry", "too many records").into());
    }
    let mut written = HashSet::with_capacity(commit.writes.len());
    if !commit.writes.iter().all(|write| written.insert(&write.key)) {
        return Err(
            RegistryError::new("commit to the registry", "a record is written twice").into(),
        );
    }
    let expected = commit
        .writes
        .iter()
        .map(|write| (&write.key, write.expected))
        .chain(commit.expects.iter().filter_map(|expect| match expect {
            Precondition::Version(key, version) => Some((key, *version)),
            Precondition::TallyBelow(..) => None,
        }));
    for (key, expected) in expected {
        let found = view.version(key);
        if found != expected {
            return Err(CommitError::Conflict {
                key: key.clone(),
                expected,
                found,
            });
        }
    }
    for expect in &commit.expects {
        if let Precondition::TallyBelow(kind, tally, limit) = expect {
            let count = view
                .tallies
                .get(&(*kind, tally.clone()))
                .copied()
                .unwrap_or(0);
            if count >= *limit {
                return Err(CommitError::LimitReached {
                    tally: tally.clone(),
                    limit: *limit,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::Actor;

    const AT: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

    /// A group in progress.
    #[derive(Debug, PartialEq, Eq)]
    struct Group {
        view: View,
        batch: Batch,
        counters: Counters,
    }

    impl Group {
        /// A group after revision 10, with 20 events, and `acme` at version 3 on shard 1.
        fn new() -> Self {
            let acme = RecordState {
                version: 3,
                live: true,
                sequence: 20,
                terms: texts(&["region:eu"]),
                tallies: texts(&["shard:1"]),
            };
            let mut view = View::default();
            view.records.insert(key("acme"), acme);
            view.tallies
                .insert((RecordKind::Tenant, "shard:1".into()), 5);
            view.replies.insert("answered".into());
            let counters = Counters {
                revision: 10,
                sequence: 20,
            };
            Self {
                view,
                batch: Batch::default(),
                counters,
            }
        }

        fn take(&mut self, commit: RegistryCommit) -> Result<u64, CommitError> {
            self.batch
                .take(&mut self.view, &mut self.counters, AT, commit)
        }

        fn count(&self, tally: &str) -> Option<u64> {
            let count = self
                .batch
                .tallies
                .get(&(RecordKind::Tenant, tally.to_owned()));
            count.copied()
        }

        fn has_term(&self, term: &str, id: &str) -> Option<bool> {
            let term = (RecordKind::Tenant, term.to_owned(), id.to_owned());
            self.batch.terms.get(&term).copied()
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn key(id: &str) -> RecordKey {
        RecordKey::new(RecordKind::Tenant, id)
    }

    fn put(id: &str, expected: u64, terms: &[&str], tallies: &[&str]) -> RecordWrite {
        RecordWrite {
            key: key(id),
            expected,
            body: Some("{}".to_owned()),
            terms: Some(texts(terms)),
            tallies: texts(tallies),
        }
    }

    fn remove(id: &str, expected: u64) -> RecordWrite {
        RecordWrite {
            body: None,
            ..put(id, expected, &[], &[])
        }
    }

    fn commit(writes: Vec<RecordWrite>) -> RegistryCommit {
        RegistryCommit {
            actor: Actor::ballast("test"),
            action: "tenant.change",
            reason: None,
            expects: Vec::new(),
            writes,
            reply: None,
        }
    }

    fn answering(request: &str, writes: Vec<RecordWrite>) -> RegistryCommit {
        RegistryCommit {
            reply: Some(RememberedReply {
                id: request.to_owned(),
                sealed: Vec::new(),
                expires_at: AT,
            }),
            ..commit(writes)
        }
    }

    fn expecting(expect: Precondition) -> RegistryCommit {
        RegistryCommit {
            expects: vec![expect],
            ..answering("new", vec![put("b", ABSENT, &["t"], &["shard:1"])])
        }
    }

    #[test]
    fn a_refused_commit_leaves_everything_as_it_was() {
        let tally = |limit| Precondition::TallyBelow(RecordKind::Tenant, "shard:1".into(), limit);
        let good = || put("b", ABSENT, &["t"], &["shard:1"]);
        let too_many = (0..=COMMIT_WRITES_MAX).map(|n| put(&n.to_string(), ABSENT, &[], &[]));
        let refused = [
            commit(vec![good(), put("acme", 2, &[], &[])]),
            commit(vec![good(), remove("nobody", 1)]),
            commit(vec![good(), good()]),
            commit(too_many.collect()),
            answering("answered", vec![good()]),
            answering("new", vec![good(), put("acme", ABSENT, &[], &[])]),
            expecting(Precondition::Version(key("acme"), 2)),
            expecting(Precondition::Version(key("nobody"), 1)),
            expecting(tally(5)),
            expecting(tally(0)),
        ];
        let mut group = Group::new();
        group
            .take(commit(vec![put("c", ABSENT, &[], &[])]))
            .unwrap();
        let mut untouched = Group::new();
        let first = commit(vec![put("c", ABSENT, &[], &[])]);
        untouched.take(first).unwrap();
        for commit in refused {
            let summary = format!("{:?} {:?}", commit.expects, commit.reply);
            assert!(group.take(commit).is_err(), "{summary}");
            assert_eq!(group, untouched, "{summary}");
        }
        // The next commit gets the next numbers.
        assert_eq!(group.take(expecting(tally(6))).unwrap(), 12);
        assert_eq!(group.batch.events[1].sequence, 22);
    }

    #[test]
    fn a_commit_sees_those_before_it_in_its_group() {
        let mut group = Group::new();
        let change = |version| commit(vec![put("acme", version, &["region:eu"], &["shard:1"])]);
        assert_eq!(group.take(change(3)).unwrap(), 11);
        assert!(group.take(change(3)).is_err());
        assert_eq!(group.take(change(4)).unwrap(), 12);
        // Two events, linked to each other, but one record row.
        let summary: Vec<_> = group
            .batch
            .events
            .iter()
            .map(|event| (event.sequence, event.version, event.previous))
            .collect();
        assert_eq!(summary, [(21, 4, Some(20)), (22, 5, Some(21))]);
        assert_eq!(group.batch.records.len(), 1);
        let record = &group.batch.records[&key("acme")];
        assert_eq!((record.version, record.sequence), (5, 22));
        // An unchanged tally is not written.
        assert_eq!(group.count("shard:1"), None);
        assert!(group.batch.tally_history.is_empty());
        // A reply within the group counts.
        group.take(answering("new", vec![])).unwrap();
        let again = group.take(answering("new", vec![put("z", ABSENT, &[], &[])]));
        assert!(matches!(again, Err(CommitError::AlreadyAnswered)));
    }

    #[test]
    fn a_record_that_moves_twice_is_counted_where_it_ends() {
        let mut group = Group::new();
        let on = |version, tallies: &[&str]| commit(vec![put("acme", version, &[], tallies)]);
        group.take(on(3, &["shard:2", "shard:2"])).unwrap();
        group.take(on(4, &["shard:2", "shard:3"])).unwrap();
        assert_eq!(group.count("shard:1"), Some(4));
        assert_eq!(group.count("shard:2"), Some(1));
        assert_eq!(group.count("shard:3"), Some(1));
        assert_eq!(group.has_term("region:eu", "acme"), Some(false));
        assert_eq!(group.has_term("shard:1", "acme"), Some(false));
        assert_eq!(group.has_term("shard:2", "acme"), Some(true));
        // The history has the last count of each revision.
        let history: Vec<_> = group
            .batch
            .tally_history
            .iter()
            .map(|((_, tally, revision), count)| (tally.as_str(), *revision, *count))
            .collect();
        let expected = [
            ("shard:1", 11, 4),
            ("shard:2", 11, 2),
            ("shard:2", 12, 1),
            ("shard:3", 12, 1),
        ];
        assert_eq!(history, expected);
    }

    #[test]
    fn a_record_created_and_removed_in_one_group_leaves_its_events() {
        let mut group = Group::new();
        let made = put("b", ABSENT, &["t"], &["shard:1"]);
        group.take(commit(vec![made.clone()])).unwrap();
        group.take(commit(vec![remove("b", 1)])).unwrap();
        assert_eq!(group.batch.events.len(), 2);
        assert_eq!(group.has_term("t", "b"), Some(false));
        assert_eq!(group.count("shard:1"), Some(5));
        let record = &group.batch.records[&key("b")];
        assert_eq!((record.version, record.live), (2, false));
        assert!(group.take(commit(vec![remove("b", 2)])).is_err());
        // It can be created again, one version later.
        group.take(commit(vec![made])).unwrap();
        assert_eq!(group.batch.records[&key("b")].version, 3);
        assert_eq!(group.has_term("t", "b"), Some(true));
        assert_eq!(group.count("shard:1"), Some(6));
    }

    #[test]
    fn a_write_without_terms_keeps_the_stored_ones() {
        let mut group = Group::new();
        let kept = RecordWrite {
            terms: None,
            ..put("acme", 3, &[], &["shard:9"])
        };
        group.take(commit(vec![kept])).unwrap();
        let record = &group.batch.records[&key("acme")];
        assert_eq!(record.terms, ["region:eu"]);
        assert_eq!(record.tallies, ["shard:9"]);
        assert_eq!(group.has_term("region:eu", "acme"), Some(true));
        assert_eq!(group.has_term("shard:1", "acme"), Some(false));
        assert_eq!(group.count("shard:9"), Some(1));
    }

    #[test]
    fn a_commit_without_writes_uses_no_revision() {
        let mut group = Group::new();
        assert_eq!(group.take(answering("new", vec![])).unwrap(), 10);
        assert_eq!(group.counters, Group::new().counters);
        assert!(group.batch.commits.is_empty());
        assert_eq!(group.batch.replies.len(), 1);
    }
}
