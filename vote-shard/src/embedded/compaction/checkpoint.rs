//! Checkpoints: the state of the log up to a position, except for the rows,
//! which are in runs.
//!
//! ```text
//!   checkpoint-<position>.ckp, version 1
//!     8 "BALLASTC" · 4 version · 4 zero · 8 length · 8 checksum
//!     8 length · JSON: position, next poll, runs
//!     a group of records: slices, polls, counters
//! ```
//! A checkpoint is written under a draft name, synced, renamed, and read back
//! before anything that it replaces is removed. Two are kept: if the newer one
//! is damaged, the older one and the log after it contain the same data.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::SliceId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::embedded::core::Core;
use crate::embedded::disk::{Disk, NamedFile, read_all};
use crate::embedded::record::{
    self, Counters, PollNo, PollRecord, Record, RecordError, SliceRecord,
};
use crate::embedded::runs::RunSet;
use crate::embedded::state::EngineState;
use crate::shard::{ArchiveFile, ArchivedRows, PollRow, RowVersion, SliceKey};

const MAGIC: &[u8; 8] = b"BALLASTC";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;
const SEED: u64 = 0x636b_7074;
/// File suffix before the rename.
pub(in crate::embedded) const DRAFT_SUFFIX: &str = ".ckp.new";
/// Number of checkpoints to keep.
pub(in crate::embedded) const CHECKPOINTS_KEPT: usize = 2;

/// The header of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::embedded) struct CheckpointHead {
    /// The last group that it covers.
    pub(in crate::embedded) position: u64,
    pub(in crate::embedded) next_poll: PollNo,
    /// The runs with the rows, oldest first.
    pub(in crate::embedded) runs: Vec<u64>,
}

/// A copy of memory at a position, to be written outside of the lock.
pub(in crate::embedded) struct MemorySnapshot {
    pub(in crate::embedded) position: u64,
    time: Timestamp,
    next_poll: PollNo,
    slices: Vec<SliceRecord>,
    polls: HashMap<PollNo, PollSnapshot>,
}

struct PollSnapshot {
    slice: SliceId,
    key: SliceKey,
    poll: Arc<Poll>,
    version: RowVersion,
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
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A newer program wrote it.
    #[error("{name} has format version {found}; this program supports {known}")]
    Version {
        /// The file.
        name: String,
        /// Its version.
        found: u32,
        /// The supported version.
        known: u32,
    },
    /// It is damaged.
    #[error("{name}: {what}")]
    Corrupt {
        /// The file.
        name: String,
        /// The damage.
        what: String,
    },
}

impl PollSnapshot {
    fn archived(&self) -> Option<Box<ArchivedRows>> {
        let archived = self.archive.as_deref().map(|file| ArchivedRows {
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

impl MemorySnapshot {
    /// Copies memory. The open group must be empty: then memory equals the log
    /// up to the group before it. Runs under the lock, so it only copies;
    /// encoding comes later.
    pub(in crate::embedded) fn new(core: &Core) -> Self {
        let state = &core.state;
        let slices = state.slices.iter().map(|(id, slice)| SliceRecord {
            slice: id.clone(),
            fence: slice.fence.clone(),
            key: slice.key,
            range: slice.range,
        });
        let polls = state.polls.values().map(|poll| {
            let snapshot = PollSnapshot {
                slice: poll.slice.clone(),
                key: poll.key,
                poll: poll.poll.clone(),
                version: poll.version,
                carried: poll.carried.clone(),
                imports: poll.imports.clone(),
                archive: poll.archive.clone(),
                counters: poll.counters(),
            };
            (poll.number, snapshot)
        });
        Self {
            position: core.open.sequence - 1,
            time: Timestamp::from_unix_ms(state.time),
            next_poll: state.next_poll,
            slices: slices.collect(),
            polls: polls.collect(),
        }
    }

    /// The slice key of a poll that has rows in this shard.
    pub(in crate::embedded) fn slice_key(&self, poll: PollNo) -> Option<SliceKey> {
        let poll = self.polls.get(&poll);
        poll.filter(|poll| poll.archive.is_none())
            .map(|poll| poll.key)
    }

    /// The records.
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
    pub(in crate::embedded) fn write(
        &self,
        disk: &dyn Disk,
        runs: &RunSet,
    ) -> Result<(), CheckpointError> {
        let head = CheckpointHead {
            position: self.position,
            next_poll: self.next_poll,
            runs: runs.0.iter().map(|run| run.id()).collect(),
        };
        let bytes = encode(&head, &self.payload());
        let (name, draft) = (file_name(self.position), draft_name(self.position));
        match disk.remove(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove a draft")(error));
            }
            _ => {}
        }
        let mut file = disk
            .create(&draft, 0)
            .map_err(failed("create a checkpoint"))?;
        file.write_at(0, &bytes)
            .and_then(|()| file.sync())
            .map_err(failed("write a checkpoint"))?;
        disk.rename(&draft, &name)
            .and_then(|()| disk.sync_names())
            .map_err(failed("rename a checkpoint"))?;
        let (read, _) = read(disk, self.position)?;
        if read == head {
            return Ok(());
        }
        let what = "reading it back gives different content".to_owned();
        Err(CheckpointError::Corrupt { name, what })
    }
}

fn encode(head: &CheckpointHead, payload: &[u8]) -> Vec<u8> {
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

/// Covers the header before it and everything after it.
fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(SEED);
    hash.update(head);
    hash.update(body);
    hash.digest()
}

pub(in crate::embedded) fn file_name(position: u64) -> String {
    format!("checkpoint-{position:016}.ckp")
}

fn draft_name(position: u64) -> String {
    format!("checkpoint-{position:016}{DRAFT_SUFFIX}")
}

/// The position in a file name.
pub(in crate::embedded) fn position_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("checkpoint-")?.strip_suffix(".ckp")?;
    let position = digits.parse().ok()?;
    (file_name(position) == name).then_some(position)
}

/// The positions of all checkpoints, newest first.
pub(in crate::embedded) fn list(disk: &dyn Disk) -> Result<Vec<u64>, CheckpointError> {
    let names = disk.list().map_err(failed("list checkpoints"))?;
    let mut positions: Vec<u64> = names.iter().filter_map(|name| position_in(name)).collect();
    positions.sort_unstable_by(|one, two| two.cmp(one));
    Ok(positions)
}

/// Opens a checkpoint's file.
pub(in crate::embedded) fn open(
    disk: &dyn Disk,
    position: u64,
) -> Result<NamedFile, CheckpointError> {
    NamedFile::open(disk, file_name(position)).map_err(failed("open a checkpoint"))
}

/// Reads a checkpoint: its header and its records.
pub(in crate::embedded) fn read(
    disk: &dyn Disk,
    position: u64,
) -> Result<(CheckpointHead, Vec<u8>), CheckpointError> {
    let name = file_name(position);
    let corrupt = |what: &str| CheckpointError::Corrupt {
        name: name.clone(),
        what: what.to_owned(),
    };
    let file = disk.open(&name).map_err(failed("open a checkpoint"))?;
    let bytes = read_all(&*file).map_err(failed("read a checkpoint"))?;
    let head = bytes
        .get(..HEAD_BYTES)
        .ok_or_else(|| corrupt("too short"))?;
    if head[..8] != *MAGIC {
        return Err(corrupt("not a checkpoint"));
    }
    let number = |place: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[place..place + 8]);
        u64::from_le_bytes(eight)
    };
    let body = &bytes[HEAD_BYTES..];
    if number(16) != body.len() as u64 || number(24) != checksum(&head[..24], body) {
        return Err(corrupt("checksum mismatch"));
    }
    // Only after the checksum: a damaged version number is not another version.
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version != VERSION {
        return Err(CheckpointError::Version {
            name,
            found: version,
            known: VERSION,
        });
    }
    if body.len() < 8 {
        return Err(corrupt("checksum mismatch"));
    }
    let split = || {
        let length = usize::try_from(number(HEAD_BYTES)).ok()?;
        let end = length.checked_add(8)?;
        Some((body.get(8..end)?, body.get(end..)?))
    };
    let (json, payload) = split().ok_or_else(|| corrupt("checksum mismatch"))?;
    let head = serde_json::from_slice(json).map_err(|error| corrupt(&error.to_string()))?;
    Ok((head, payload.to_vec()))
}

/// The state of a checkpoint, without rows.
pub(in crate::embedded) fn restore(
    head: &CheckpointHead,
    payload: &[u8],
) -> Result<EngineState, RecordError> {
    let mut state = EngineState::default();
    state.replay(head.position, payload)?;
    state.next_poll = state.next_poll.max(head.next_poll);
    Ok(state)
}
