//! Which commits of a group happen, decided purely.
//!
//! The writer reads what the group mentions into a [`View`]; each commit is
//! checked against it in turn and, if it happens, changes the view for those
//! that follow it and adds its rows to the [`Batch`] that is then written.

use std::collections::{BTreeMap, HashMap, HashSet};

use ballast_domain::Timestamp;
use ballast_domain::registry::{
    ABSENT, Commit, CommitError, Expect, Kind, RecordKey, Reply, Write,
};

/// What is known of a record that the group mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The version it has, or had when it was removed.
    pub(super) version: u64,
    pub(super) live: bool,
    pub(super) sequence: u64,
    pub(super) terms: Vec<String>,
    pub(super) tallies: Vec<String>,
}

/// What the store holds of all that a group mentions.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) records: HashMap<RecordKey, Known>,
    pub(super) tallies: HashMap<(Kind, String), u64>,
    pub(super) replies: HashSet<String>,
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
pub(super) struct CommitRow {
    pub(super) revision: u64,
    pub(super) at: Timestamp,
    pub(super) commit: Commit,
    pub(super) first_sequence: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventRow {
    pub(super) sequence: u64,
    pub(super) revision: u64,
    pub(super) key: RecordKey,
    pub(super) version: u64,
    pub(super) previous: Option<u64>,
    pub(super) body: Option<String>,
}

/// The rows a group writes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) commits: Vec<CommitRow>,
    pub(super) events: Vec<EventRow>,
    pub(super) records: BTreeMap<RecordKey, Known>,
    /// Whether the record has the term after the group.
    pub(super) terms: BTreeMap<(Kind, String, String), bool>,
    pub(super) tallies: BTreeMap<(Kind, String), u64>,
    pub(super) tally_history: BTreeMap<(Kind, String, u64), u64>,
    pub(super) replies: Vec<Reply>,
}

/// The next numbers to give out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counters {
    pub(super) revision: u64,
    pub(super) sequence: u64,
}

impl Batch {
    /// Takes a commit in if everything it expects holds. Refused, it leaves
    /// view, batch and counters as they were.
    pub(super) fn take(
        &mut self,
        view: &mut View,
        counters: &mut Counters,
        at: Timestamp,
        mut commit: Commit,
    ) -> Result<u64, CommitError> {
        check(view, &commit)?;
        counters.revision += 1;
        let revision = counters.revision;
        let first_sequence = counters.sequence + 1;
        for write in std::mem::take(&mut commit.writes) {
            counters.sequence += 1;
            self.write(view, revision, counters.sequence, write);
        }
        if let Some(reply) = commit.reply.take() {
            view.replies.insert(reply.id.clone());
            self.replies.push(reply);
        }
        self.commits.push(CommitRow {
            revision,
            at,
            commit,
            first_sequence,
        });
        Ok(revision)
    }

    fn write(&mut self, view: &mut View, revision: u64, sequence: u64, write: Write) {
        let Write {
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
            (true, None) => (old_terms.clone(), old_tallies.clone()),
        };
        let known = Known {
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
        kind: Kind,
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

fn check(view: &View, commit: &Commit) -> Result<(), CommitError> {
    if let Some(reply) = &commit.reply
        && view.replies.contains(&reply.id)
    {
        return Err(CommitError::AlreadyAnswered);
    }
    let expected = commit
        .writes
        .iter()
        .map(|write| (&write.key, write.expected))
        .chain(commit.expects.iter().filter_map(|expect| match expect {
            Expect::Version(key, version) => Some((key, *version)),
            Expect::TallyBelow(..) => None,
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
        if let Expect::TallyBelow(kind, tally, limit) = expect {
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
