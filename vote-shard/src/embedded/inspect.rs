//! Looking at a shard's directory without changing it.
//!
//! [`inspect`] reads what the files say of themselves. With `deep` it reads
//! every group and every row, compares all checksums, builds the counts anew
//! from the rows, and compares them with those that were kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{PollId, Timestamp};
use serde::Serialize;

use super::checkpoint;
use super::disk::Disk;
use super::log;
use super::open::load_rows;
use super::record::{self, PollNo, Record};
use super::runs::{self, Key, Run, RunSet};
use super::state::State;
use crate::shard::{ArchiveFile, Digest};

/// What is in a shard's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The log's files, oldest first.
    pub segments: Vec<SegmentFile>,
    /// The sorted files.
    pub runs: Vec<RunFile>,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<CheckpointFile>,
    /// The last group that is whole.
    pub last_group: u64,
    /// Slices the shard remembers.
    pub slices: u64,
    /// Its polls.
    pub polls: u64,
    /// Those of them whose rows are in files.
    pub polls_archived: u64,
    /// Bytes of these files.
    pub archive_bytes: u64,
    /// The files, with the polls whose rows they hold.
    #[serde(skip)]
    pub archives: Vec<(PollId, ArchiveFile)>,
    /// Voters in all polls.
    pub voters: u64,
    /// Votes in all polls.
    pub votes: u64,
    /// The time of the last group.
    pub as_of: Option<Timestamp>,
    /// The sum of all polls' digests: equal data, equal digest.
    pub digest: String,
    /// What is wrong; empty when all is well.
    pub problems: Vec<String>,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentFile {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its first group.
    pub first_group: u64,
    /// How many groups it has.
    pub groups: u64,
    /// What is odd and harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A sorted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFile {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// How many rows it has.
    pub rows: u64,
    /// Whether a checkpoint names it; one that none names is litter.
    pub named: bool,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFile {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The last group that is in it.
    pub position: u64,
    /// The sorted files it names, oldest first.
    pub runs: Vec<String>,
}

/// Looks at a directory.
pub fn inspect(disk: &Arc<dyn Disk>, deep: bool) -> std::io::Result<Inspection> {
    let mut seen = Inspection::default();
    let base = checkpoints(&**disk, &mut seen)?;
    let runs = run_files(&**disk, &base.runs, &mut seen)?;
    let mut state = base.state;
    if let Err(error) = load_rows(&mut state, &runs) {
        seen.problems.push(error.to_string());
    }
    let mut since = BTreeMap::new();
    let mut unreadable = Vec::new();
    let mut last = base.position;
    let surveyed = log::survey(&**disk, |sequence, payload| {
        if sequence <= base.position {
            return;
        }
        last = sequence;
        if let Err(error) = state.replay(sequence, payload) {
            unreadable.push(format!("group {sequence}: {error}"));
        }
        if deep {
            rows_in(&state, payload, &mut since);
        }
    })?;
    for segment in surveyed {
        if let Some(problem) = segment.problem {
            seen.problems.push(format!("{}: {problem}", segment.name));
        }
        seen.segments.push(SegmentFile {
            name: segment.name,
            bytes: segment.bytes,
            first_group: segment.first_sequence,
            groups: segment.groups,
            remark: segment.remark,
        });
    }
    check_reach(base.position, &mut seen);
    seen.problems.append(&mut unreadable);
    seen.last_group = last;
    if deep {
        compare(&state, &runs, since, &mut seen);
    }
    seen.slices = state.slices.len() as u64;
    seen.polls = state.polls.len() as u64;
    seen.voters = state.polls.values().map(|poll| poll.voting).sum();
    let files = state.polls.values().filter_map(|poll| {
        let file = poll.archive.as_deref()?;
        Some((poll.poll.poll_id, file.clone()))
    });
    seen.archives = files.collect();
    seen.archives.sort_by_key(|(poll, _)| *poll);
    seen.polls_archived = seen.archives.len() as u64;
    seen.archive_bytes = seen.archives.iter().map(|(_, file)| file.bytes).sum();
    let totals = state.polls.values().map(|poll| poll.lanes.totals());
    seen.votes = totals.flatten().sum();
    seen.as_of = (state.time > 0).then(|| Timestamp::from_unix_ms(state.time));
    let mut all = Digest::default();
    for poll in state.polls.values() {
        all.merge(&poll.full_digest());
    }
    seen.digest = format!("{all:?}");
    Ok(seen)
}

/// The files that say everything: the newest checkpoint that is whole, its
/// sorted files, and the log after it.
pub fn needed(disk: &dyn Disk) -> std::io::Result<Vec<String>> {
    let mut seen = Inspection::default();
    let base = checkpoints(disk, &mut seen)?;
    let mut names = Vec::new();
    if base.position > 0 {
        names.push(checkpoint::name_of(base.position));
        names.extend(base.runs.iter().map(|id| runs::name_of(*id)));
    }
    names.extend(log::files_after(disk, base.position).map_err(std::io::Error::other)?);
    Ok(names)
}

/// The log must go on where the checkpoint ends.
fn check_reach(position: u64, seen: &mut Inspection) {
    let Some(first) = seen.segments.first() else {
        return;
    };
    if first.first_group > position + 1 {
        let (from, to) = (position + 1, first.first_group - 1);
        seen.problems.push(format!(
            "groups {from} to {to} are in neither checkpoint nor log"
        ));
    }
}

struct Base {
    state: State,
    runs: Vec<u64>,
    position: u64,
}

/// Lists the checkpoints, and reads the newest that is whole.
fn checkpoints(disk: &dyn Disk, seen: &mut Inspection) -> std::io::Result<Base> {
    let positions = checkpoint::list(disk).map_err(std::io::Error::other)?;
    let mut base = None;
    for position in positions {
        let name = checkpoint::name_of(position);
        let bytes = disk.open(&name)?.bytes()?;
        let (head, payload) = match checkpoint::read(disk, position) {
            Ok(read) => read,
            Err(error) => {
                seen.problems.push(error.to_string());
                continue;
            }
        };
        seen.checkpoints.push(CheckpointFile {
            name: name.clone(),
            bytes,
            position,
            runs: head.runs.iter().map(|id| runs::name_of(*id)).collect(),
        });
        if base.is_none() {
            match checkpoint::restore(&head, &payload) {
                Ok(state) => {
                    let runs = head.runs;
                    base = Some(Base {
                        state,
                        runs,
                        position,
                    });
                }
                Err(error) => seen.problems.push(format!("{name}: {error}")),
            }
        }
    }
    Ok(base.unwrap_or(Base {
        state: State::default(),
        runs: Vec::new(),
        position: 0,
    }))
}

/// Lists the sorted files, and opens those the newest checkpoint names.
fn run_files(disk: &dyn Disk, named: &[u64], seen: &mut Inspection) -> std::io::Result<RunSet> {
    let mut open = BTreeMap::new();
    for name in disk.list()? {
        let Some(id) = runs::id_in(&name) else {
            continue;
        };
        let bytes = disk.open(&name)?.bytes()?;
        let in_use = seen.checkpoints.iter().any(|one| one.runs.contains(&name));
        match Run::open(disk, id) {
            Ok(run) => {
                let rows = run.rows();
                seen.runs.push(RunFile {
                    name,
                    bytes,
                    rows,
                    named: in_use,
                });
                open.insert(id, Arc::new(run));
            }
            Err(error) if in_use => seen.problems.push(error.to_string()),
            Err(_) => {}
        }
    }
    let mut set = RunSet::default();
    for id in named {
        match open.get(id) {
            Some(run) => set.0.push(run.clone()),
            None => {
                let name = runs::name_of(*id);
                seen.problems.push(format!("{name} is missing or damaged"));
            }
        }
    }
    Ok(set)
}

/// The share of each row in its poll's digest.
type Rows = BTreeMap<Key, crate::shard::Hash>;

/// The rows that a group of the log holds.
fn rows_in(state: &State, payload: &[u8], rows: &mut Rows) {
    let Ok((_, records)) = record::read(payload) else {
        return;
    };
    for record in records.flatten() {
        let (number, voter, items, version) = match &record {
            Record::Vote(vote) => {
                let version = crate::shard::Version {
                    epoch: vote.epoch,
                    revision: 1,
                };
                let voter = record::WrittenVoter::Named(vote.voter);
                (vote.poll, voter, vec![vote.item], version)
            }
            Record::Row(row) => (row.poll, row.voter, row.items.clone(), row.version),
            _ => continue,
        };
        if let Some(poll) = state.polls.get(&number) {
            let print = voter.print(&poll.key);
            let hash = poll.key.row(poll.poll.poll_id, print, &items, version);
            let key = Key {
                poll: number,
                voter: print,
            };
            rows.insert(key, hash);
        }
    }
}

/// Compares what the rows say with what was counted.
fn compare(state: &State, runs: &RunSet, since: Rows, seen: &mut Inspection) {
    let mut digests: BTreeMap<PollNo, Digest> = BTreeMap::new();
    for (key, hash) in &since {
        digests.entry(key.poll).or_default().add(*hash);
    }
    let mut stored = match runs.from(Key::first_of(0), None) {
        Ok(stored) => stored,
        Err(error) => {
            seen.problems.push(error.to_string());
            return;
        }
    };
    loop {
        match stored.next_row() {
            Ok(None) => break,
            Ok(Some(row)) => {
                let Some(poll) = state.polls.get(&row.key.poll) else {
                    continue;
                };
                if !since.contains_key(&row.key) {
                    let voter = match &row.voter {
                        crate::shard::VoterName::Named(name) => poll.key.print(name.as_str()),
                        crate::shard::VoterName::Erased(print) => *print,
                    };
                    let (items, version) = (row.row.items.as_slice(), row.row.version);
                    let hash = poll.key.row(poll.poll.poll_id, voter, items, version);
                    digests.entry(row.key.poll).or_default().add(hash);
                }
            }
            Err(error) => {
                seen.problems.push(error.to_string());
                return;
            }
        }
    }
    let kept = state.polls.values().filter(|poll| poll.archive.is_none());
    for poll in kept {
        let found = digests.get(&poll.number).copied().unwrap_or_default();
        if found != poll.digest {
            let (id, counted) = (poll.poll.poll_id, poll.digest);
            seen.problems.push(format!(
                "{id}: its rows say {found:?}, but counted were {counted:?}"
            ));
        }
    }
}
