//! Inspects a shard's directory without changing it.
//!
//! [`inspect`] reads what the files say about themselves. With `deep` it reads
//! every group and row, verifies all checksums, recomputes the counts from the
//! rows, and compares them with the stored ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{PollId, Timestamp};
use serde::Serialize;

use crate::embedded::compaction::checkpoint;
use crate::embedded::disk::Disk;
use crate::embedded::engine::open::load_rows;
use crate::embedded::log;
use crate::embedded::record::{self, PollNo, Record};
use crate::embedded::runs::{self, RowKey, Run, RunSet};
use crate::embedded::state::EngineState;
use crate::shard::{ArchiveFile, Digest};

/// The content of a shard's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The log's files, oldest first.
    pub segments: Vec<SegmentFile>,
    /// The runs.
    pub runs: Vec<RunFile>,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<CheckpointFile>,
    /// The last whole group.
    pub last_group: u64,
    /// Slices in the shard's records.
    pub slices: u64,
    /// Polls.
    pub polls: u64,
    /// Archived polls.
    pub polls_archived: u64,
    /// Bytes of the archive files.
    pub archive_bytes: u64,
    /// The archive files and their polls.
    #[serde(skip)]
    pub archives: Vec<(PollId, ArchiveFile)>,
    /// Voters in all polls.
    pub voters: u64,
    /// Votes in all polls.
    pub votes: u64,
    /// The time of the last group.
    pub as_of: Option<Timestamp>,
    /// The sum of all polls' digests: equal data has an equal digest.
    pub digest: String,
    /// Problems; empty when all is well.
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
    /// Number of groups.
    pub groups: u64,
    /// A harmless irregularity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFile {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
    /// Whether a checkpoint refers to it; if not, it is garbage.
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
    /// The last group that it covers.
    pub position: u64,
    /// The runs it refers to, oldest first.
    pub runs: Vec<String>,
}

/// Inspects a directory.
pub fn inspect(disk: &Arc<dyn Disk>, deep: bool) -> std::io::Result<Inspection> {
    let mut report = Inspection::default();
    let base = list_checkpoints(&**disk, &mut report)?;
    let runs = list_runs(&**disk, &base.runs, &mut report)?;
    let mut state = base.state;
    if let Err(error) = load_rows(&mut state, &runs) {
        report.problems.push(error.to_string());
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
            collect_rows(&state, payload, &mut since);
        }
    })?;
    for segment in surveyed {
        if let Some(problem) = segment.problem {
            report.problems.push(format!("{}: {problem}", segment.name));
        }
        report.segments.push(SegmentFile {
            name: segment.name,
            bytes: segment.bytes,
            first_group: segment.first_sequence,
            groups: segment.groups,
            remark: segment.remark,
        });
    }
    check_gap(base.position, &mut report);
    report.problems.append(&mut unreadable);
    report.last_group = last;
    if deep {
        compare_digests(&state, &runs, since, &mut report);
    }
    report.slices = state.slices.len() as u64;
    report.polls = state.polls.len() as u64;
    report.voters = state.polls.values().map(|poll| poll.voting).sum();
    let files = state.polls.values().filter_map(|poll| {
        let file = poll.archive.as_deref()?;
        Some((poll.poll.poll_id, file.clone()))
    });
    report.archives = files.collect();
    report.archives.sort_by_key(|(poll, _)| *poll);
    report.polls_archived = report.archives.len() as u64;
    report.archive_bytes = report.archives.iter().map(|(_, file)| file.bytes).sum();
    let totals = state.polls.values().map(|poll| poll.lanes.totals());
    report.votes = totals.flatten().sum();
    report.as_of = (state.time > 0).then(|| Timestamp::from_unix_ms(state.time));
    let mut all = Digest::default();
    for poll in state.polls.values() {
        all.merge(&poll.full_digest());
    }
    report.digest = format!("{all:?}");
    Ok(report)
}

/// Lists the files that contain all data: the newest whole checkpoint, its
/// runs, and the log after it.
pub fn list_required_files(disk: &dyn Disk) -> std::io::Result<Vec<String>> {
    let mut report = Inspection::default();
    let base = list_checkpoints(disk, &mut report)?;
    let mut names = Vec::new();
    if base.position > 0 {
        names.push(checkpoint::file_name(base.position));
        names.extend(base.runs.iter().map(|id| runs::file_name(*id)));
    }
    names.extend(log::files_after(disk, base.position).map_err(std::io::Error::other)?);
    Ok(names)
}

/// Reports a gap between the checkpoint and the log.
fn check_gap(position: u64, report: &mut Inspection) {
    let Some(first) = report.segments.first() else {
        return;
    };
    if first.first_group > position + 1 {
        let (from, to) = (position + 1, first.first_group - 1);
        report.problems.push(format!(
            "groups {from} to {to} are missing from both checkpoint and log"
        ));
    }
}

struct InspectedBase {
    state: EngineState,
    runs: Vec<u64>,
    position: u64,
}

/// Lists the checkpoints, and reads the newest whole one.
fn list_checkpoints(disk: &dyn Disk, report: &mut Inspection) -> std::io::Result<InspectedBase> {
    let positions = checkpoint::list(disk).map_err(std::io::Error::other)?;
    let mut base = None;
    for position in positions {
        let name = checkpoint::file_name(position);
        let bytes = disk.open(&name)?.bytes()?;
        let (head, payload) = match checkpoint::read(disk, position) {
            Ok(read) => read,
            Err(error) => {
                report.problems.push(error.to_string());
                continue;
            }
        };
        report.checkpoints.push(CheckpointFile {
            name: name.clone(),
            bytes,
            position,
            runs: head.runs.iter().map(|id| runs::file_name(*id)).collect(),
        });
        if base.is_none() {
            match checkpoint::restore(&head, &payload) {
                Ok(state) => {
                    let runs = head.runs;
                    base = Some(InspectedBase {
                        state,
                        runs,
                        position,
                    });
                }
                Err(error) => report.problems.push(format!("{name}: {error}")),
            }
        }
    }
    Ok(base.unwrap_or(InspectedBase {
        state: EngineState::default(),
        runs: Vec::new(),
        position: 0,
    }))
}

/// Lists the runs, and opens those that the newest checkpoint refers to.
fn list_runs(disk: &dyn Disk, named: &[u64], report: &mut Inspection) -> std::io::Result<RunSet> {
    let mut open = BTreeMap::new();
    for name in disk.list()? {
        let Some(id) = runs::id_in(&name) else {
            continue;
        };
        let bytes = disk.open(&name)?.bytes()?;
        let in_use = report
            .checkpoints
            .iter()
            .any(|one| one.runs.contains(&name));
        match Run::open(disk, id) {
            Ok(run) => {
                let rows = run.rows();
                report.runs.push(RunFile {
                    name,
                    bytes,
                    rows,
                    named: in_use,
                });
                open.insert(id, Arc::new(run));
            }
            Err(error) if in_use => report.problems.push(error.to_string()),
            Err(_) => {}
        }
    }
    let mut set = RunSet::default();
    for id in named {
        match open.get(id) {
            Some(run) => set.0.push(run.clone()),
            None => {
                let name = runs::file_name(*id);
                report
                    .problems
                    .push(format!("{name} is missing or damaged"));
            }
        }
    }
    Ok(set)
}

/// The hash of each row.
type RowHashes = BTreeMap<RowKey, crate::shard::RowHash>;

/// Collects the rows of a group.
fn collect_rows(state: &EngineState, payload: &[u8], rows: &mut RowHashes) {
    let Ok((_, records)) = record::read(payload) else {
        return;
    };
    for record in records.flatten() {
        let (number, voter, items, version) = match &record {
            Record::Vote(vote) => {
                let version = crate::shard::RowVersion {
                    epoch: vote.epoch,
                    revision: 1,
                };
                let voter = record::RecordVoter::Named(vote.voter);
                (vote.poll, voter, vec![vote.item], version)
            }
            Record::Row(row) => (row.poll, row.voter, row.items.clone(), row.version),
            _ => continue,
        };
        if let Some(poll) = state.polls.get(&number) {
            let print = voter.print(&poll.key);
            let hash = poll.key.hash_row(poll.poll.poll_id, print, &items, version);
            let key = RowKey {
                poll: number,
                voter: print,
            };
            rows.insert(key, hash);
        }
    }
}

/// Compares the digests of the rows with the stored digests.
fn compare_digests(state: &EngineState, runs: &RunSet, since: RowHashes, report: &mut Inspection) {
    let mut digests: BTreeMap<PollNo, Digest> = BTreeMap::new();
    for (key, hash) in &since {
        digests.entry(key.poll).or_default().add(*hash);
    }
    let mut stored = match runs.from(RowKey::start_of_poll(0), None) {
        Ok(stored) => stored,
        Err(error) => {
            report.problems.push(error.to_string());
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
                        crate::shard::VoterName::Named(name) => poll.key.voter_print(name.as_str()),
                        crate::shard::VoterName::Erased(print) => *print,
                    };
                    let (items, version) = (row.row.items.as_slice(), row.row.version);
                    let hash = poll.key.hash_row(poll.poll.poll_id, voter, items, version);
                    digests.entry(row.key.poll).or_default().add(hash);
                }
            }
            Err(error) => {
                report.problems.push(error.to_string());
                return;
            }
        }
    }
    let unarchived = state.polls.values().filter(|poll| poll.archive.is_none());
    for poll in unarchived {
        let found = digests.get(&poll.number).copied().unwrap_or_default();
        if found != poll.digest {
            let (id, counted) = (poll.poll.poll_id, poll.digest);
            report.problems.push(format!(
                "{id}: its rows have digest {found:?}, but the stored digest is {counted:?}"
            ));
        }
    }
}
