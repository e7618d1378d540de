//! Checkpoints: all that the log said up to a position, but for the rows,
//! which are in runs.
//!
//! ```text
//!   checkpoint-<position>.ckp, version 1
//!     8 "BALLASTC" · 4 version · 4 zero · 8 length · 8 checksum
//!     8 length · JSON: position, next poll, runs
//!     a group of records: slices, polls, counters
//! ```
//! It is written under another name, synced, renamed, and read back before
//! anything that it replaces is removed. Two are kept: should the newer one
//! be damaged, the older one and the log after it say the same.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::SliceId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::core::Core;
use super::disk::{Disk, read_all};
use super::record::{self, Counters, PollNo, PollRecord, Record, SliceRecord, Unreadable};
use super::runs::RunSet;
use super::state::State;
use crate::shard::{ArchiveFile, Archived, PollRow, SliceKey, Version};

const MAGIC: &[u8; 8] = b"BALLASTC";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;
const SEED: u64 = 0x636b_7074;
/// What a checkpoint is called before it is on disk.
pub(super) const DRAFT_SUFFIX: &str = ".ckp.new";
/// Checkpoints that are kept.
pub(super) const KEPT: usize = 2;

/// What a checkpoint says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    /// The last group that is in it.
    pub(super) position: u64,
    pub(super) next_poll: PollNo,
    /// The runs that hold the rows, oldest first.
    pub(super) runs: Vec<u64>,
}

/// What was in memory at a position, to be written at leisure.
pub(super) struct Captured {
    pub(super) position: u64,
    time: Timestamp,
    next_poll: PollNo,
    slices: Vec<SliceRecord>,
    polls: HashMap<PollNo, CapturedPoll>,
}

struct CapturedPoll {
    slice: SliceId,
    key: SliceKey,
    poll: Arc<Poll>,
    version: Version,
    carried: Vec<u64>,
    imports: Vec<RequestId>,
    archive: Option<Arc<ArchiveFile>>,
    counters: Counters,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk failed.
    #[error("{doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A newer program wrote it.
    #[error("{name} has format {found}; this program knows {known}")]
    Version {
        /// Which file.
        name: String,
        /// What it has.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// It is not what was written.
    #[error("{name}: {what}")]
    Corrupt {
        /// Which file.
        name: String,
        /// What is wrong.
        what: String,
    },
}

impl CapturedPoll {
    fn archived(&self) -> Option<Box<Archived>> {
        let archived = self.archive.as_deref().map(|file| Archived {
            file: file.clone(),
            voting: self.counters.voting,
            lanes: self.counters.lanes.clone(),
        });
        archived.map(Box::new)
    }
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::Disk { doing, source }
}

impl Captured {
    /// Copies what is in memory. The open group must be empty: memory is what
    /// the log says up to the group before it. Under the lock, so it only
    /// copies; encoding comes later.
    pub(super) fn new(core: &Core) -> Self {
        let state = &core.state;
        let slices = state.slices.iter().map(|(id, slice)| SliceRecord {
            slice: id.clone(),
            fence: slice.fence.clone(),
            key: slice.key,
            range: slice.range,
        });
        let polls = state.polls.values().map(|poll| {
            let captured = CapturedPoll {
                slice: poll.slice.clone(),
                key: poll.key,
                poll: poll.poll.clone(),
                version: poll.version,
                carried: poll.carried.clone(),
                imports: poll.imports.clone(),
                archive: poll.archive.clone(),
                counters: poll.counters(),
            };
            (poll.number, captured)
        });
        Self {
            position: core.open.sequence - 1,
            time: Timestamp::from_unix_ms(state.time),
            next_poll: state.next_poll,
            slices: slices.collect(),
            polls: polls.collect(),
        }
    }

    /// The key of a poll that was there and had rows here.
    pub(super) fn key_of(&self, poll: PollNo) -> Option<SliceKey> {
        let poll = self.polls.get(&poll);
        poll.filter(|poll| poll.archive.is_none())
            .map(|poll| poll.key)
    }

    /// The records, as they are read back.
    fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        record::begin(&mut payload, self.time);
        let mut put = |record: &Record<'_>| record::write(&mut payload, self.time, record);
        for slice in &self.slices {
            put(&Record::Slice(slice.clone()));
        }
        for (number, poll) in &self.polls {
            let record = PollRecord {
                slice: poll.slice.clone(),
                row: PollRow {
                    poll: Poll::clone(&poll.poll),
                    version: poll.version,
                    carried: poll.carried.clone(),
                    imports: poll.imports.clone(),
                    archived: poll.archived(),
                },
                fewer_lanes: false,
            };
            put(&Record::Poll(*number, Box::new(record)));
            put(&Record::Counters(*number, Box::new(poll.counters.clone())));
        }
        payload
    }

    /// Writes the checkpoint and reads it back.
    pub(super) fn write(&self, disk: &dyn Disk, runs: &RunSet) -> Result<(), CheckpointError> {
        let head = Head {
            position: self.position,
            next_poll: self.next_poll,
            runs: runs.0.iter().map(|run| run.id()).collect(),
        };
        let bytes = encode(&head, &self.payload());
        let (name, draft) = (name_of(self.position), draft_of(self.position));
        match disk.remove(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove a draft")(error));
            }
            _ => {}
        }
        let mut file = disk
            .create(&draft, 0)
            .map_err(failed("make a checkpoint"))?;
        file.write_at(0, &bytes)
            .and_then(|()| file.sync())
            .map_err(failed("write a checkpoint"))?;
        disk.rename(&draft, &name)
            .and_then(|()| disk.sync_names())
            .map_err(failed("name a checkpoint"))?;
        let (read, _) = read(disk, self.position)?;
        if read == head {
            return Ok(());
        }
        let what = "it reads otherwise than it was written".to_owned();
        Err(CheckpointError::Corrupt { name, what })
    }
}

fn encode(head: &Head, payload: &[u8]) -> Vec<u8> {
    let json = serde_json::to_vec(head).unwrap_or_default();
    let mut body = (json.len() as u64).to_le_bytes().to_vec();
    body.extend_from_slice(&json);
    body.extend_from_slice(payload);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    let sum = checksum(&bytes, &body);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.append(&mut body);
    bytes
}

/// Over the head before it and everything after it.
fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(SEED);
    hash.update(head);
    hash.update(body);
    hash.digest()
}

pub(super) fn name_of(position: u64) -> String {
    format!("checkpoint-{position:016}.ckp")
}

fn draft_of(position: u64) -> String {
    format!("checkpoint-{position:016}{DRAFT_SUFFIX}")
}

/// The position in a checkpoint's name.
pub(super) fn position_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("checkpoint-")?.strip_suffix(".ckp")?;
    let position = digits.parse().ok()?;
    (name_of(position) == name).then_some(position)
}

/// The positions of all checkpoints, newest first.
pub(super) fn list(disk: &dyn Disk) -> Result<Vec<u64>, CheckpointError> {
    let names = disk.list().map_err(failed("list checkpoints"))?;
    let mut positions: Vec<u64> = names.iter().filter_map(|name| position_in(name)).collect();
    positions.sort_unstable_by(|one, two| two.cmp(one));
    Ok(positions)
}

/// Reads a checkpoint: what it says of itself, and its records.
pub(super) fn read(disk: &dyn Disk, position: u64) -> Result<(Head, Vec<u8>), CheckpointError> {
    let name = name_of(position);
    let corrupt = |what: &str| CheckpointError::Corrupt {
        name: name.clone(),
        what: what.to_owned(),
    };
    let file = disk.open(&name).map_err(failed("open a checkpoint"))?;
    let bytes = read_all(&*file).map_err(failed("read a checkpoint"))?;
    let head = bytes
        .get(..HEAD_BYTES)
        .ok_or_else(|| corrupt("it is too short"))?;
    if head[..8] != *MAGIC {
        return Err(corrupt("it is no checkpoint"));
    }
    let number = |place: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[place..place + 8]);
        u64::from_le_bytes(eight)
    };
    let body = &bytes[HEAD_BYTES..];
    if number(16) != body.len() as u64 || number(24) != checksum(&head[..24], body) {
        return Err(corrupt("it is damaged"));
    }
    // Only now: what rotted is damage, not another version.
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version != VERSION {
        return Err(CheckpointError::Version {
            name,
            found: version,
            known: VERSION,
        });
    }
    if body.len() < 8 {
        return Err(corrupt("it is damaged"));
    }
    let split = || {
        let length = usize::try_from(number(HEAD_BYTES)).ok()?;
        let end = length.checked_add(8)?;
        Some((body.get(8..end)?, body.get(end..)?))
    };
    let (json, payload) = split().ok_or_else(|| corrupt("it is damaged"))?;
    let head = serde_json::from_slice(json).map_err(|error| corrupt(&error.to_string()))?;
    Ok((head, payload.to_vec()))
}

/// Memory as a checkpoint says, without rows.
pub(super) fn restore(head: &Head, payload: &[u8]) -> Result<State, Unreadable> {
    let mut state = State::default();
    state.replay(head.position, payload)?;
    state.next_poll = state.next_poll.max(head.next_poll);
    Ok(state)
}
