//! The content of the log: records, in groups. Version 1.
//!
//! ```text
//!   group    1 byte version · 8 bytes time (ms) · records
//!   record   1 byte tag, then
//!     1 slice   JSON          a slice's fence and key
//!     2 poll    number JSON   a new or changed poll
//!     3 vote    number epoch item request time voter       (a voter's first)
//!     4 row     number epoch revision items requests time voter   (any other)
//!     5 gone    number        a poll was removed with its rows
//!     6 counts  number voting digest lanes   (in checkpoints only)
//!     7 archived number JSON  a poll whose rows are in a file; a separate tag, so
//!               that a program without archives stops here
//!     8 part    JSON          a slice with a part of its tenant's polls; a
//!               separate tag, for the same reason
//!     9 recut   JSON          slices were split or merged, with all their polls
//!    10 narrowed number JSON  a poll with fewer lanes than before; a separate tag,
//!               so that a program that only adds lanes stops here and drops no
//!               counts
//! ```
//! Numbers are LEB128, times are relative to the group's, JSON and voters are
//! prefixed with their length. A poll's number is local to the shard and never
//! reused. Rare records are JSON, so that they are readable and extensible; a
//! vote takes 16 bytes and the voter's name. Each vote or row is complete: a
//! voter's last one is the voter's row.

pub(super) mod bytes;

use ballast_domain::Timestamp;
use ballast_domain::poll::RequestId;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use serde::{Deserialize, Serialize};

use self::bytes::{RecordReader, RecordWriter};
use crate::shard::{Digest, Fence, PollRow, RowVersion, SliceKey, VoterPrint};

/// The version that this program reads and writes.
const VERSION: u8 = 1;
const SLICE: u8 = 1;
const POLL: u8 = 2;
const VOTE: u8 = 3;
const ROW: u8 = 4;
const GONE: u8 = 5;
const COUNTERS: u8 = 6;
const ARCHIVED: u8 = 7;
const PART: u8 = 8;
const RECUT: u8 = 9;
const NARROWED: u8 = 10;

/// A poll's number within its shard.
pub(super) type PollNo = u32;

/// One change of the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Slice(SliceRecord),
    Poll(PollNo, Box<PollRecord>),
    Vote(VoteRecord<'a>),
    Row(RowRecord<'a>),
    Gone(PollNo),
    Counters(PollNo, Box<Counters>),
    Recut(Box<RecutRecord>),
}

/// A poll's counts without its rows, in checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counters {
    /// Voters with at least one chosen item.
    pub(super) voting: u64,
    /// Digest of the voters' rows.
    pub(super) digest: Digest,
    /// Votes per item and lane.
    pub(super) lanes: Vec<Vec<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SliceRecord {
    #[serde(flatten)]
    pub(super) slice: SliceId,
    pub(super) fence: Fence,
    pub(super) key: SliceKey,
    #[serde(default, skip_serializing_if = "HashRange::is_whole")]
    pub(super) range: HashRange,
}

/// Slices after a split or merge, the parents first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecutRecord {
    pub(super) parents: Vec<SliceRecord>,
    pub(super) children: Vec<SliceRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PollRecord {
    #[serde(flatten)]
    pub(super) slice: SliceId,
    pub(super) row: PollRow,
    /// Whether it had more lanes before; encoded in the record's tag.
    #[serde(skip)]
    pub(super) fewer_lanes: bool,
}

/// A voter's first vote, for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VoteRecord<'a> {
    pub(super) poll: PollNo,
    pub(super) epoch: Epoch,
    pub(super) item: u16,
    pub(super) request: RequestId,
    pub(super) at: Timestamp,
    pub(super) voter: &'a str,
}

/// A voter's complete row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowRecord<'a> {
    pub(super) poll: PollNo,
    pub(super) version: RowVersion,
    pub(super) items: Vec<u16>,
    pub(super) requests: Vec<(RequestId, u32)>,
    pub(super) at: Timestamp,
    pub(super) voter: RecordVoter<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordVoter<'a> {
    Named(&'a str),
    Erased(VoterPrint),
}

impl RecordVoter<'_> {
    /// The voter's fingerprint under this key.
    pub(super) fn print(&self, key: &SliceKey) -> VoterPrint {
        match self {
            Self::Named(name) => key.voter_print(name),
            Self::Erased(print) => *print,
        }
    }
}

/// A group cannot be decoded although its checksum is right: another version of
/// the program wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode a record of the log: {0}")]
pub struct RecordError(pub(super) String);

/// Begins a group.
pub(super) fn begin(payload: &mut Vec<u8>, now: Timestamp) {
    payload.push(VERSION);
    payload.extend_from_slice(&now.unix_ms().to_le_bytes());
}

/// Adds a record to a group that began at `now`.
pub(super) fn write(payload: &mut Vec<u8>, now: Timestamp, record: &Record<'_>) {
    let mut to = RecordWriter(payload);
    match record {
        Record::Slice(record) => {
            to.byte(match record.range.is_whole() {
                true => SLICE,
                false => PART,
            });
            to.json(record);
        }
        Record::Poll(number, record) => {
            to.byte(match record.row.archived {
                // The record contains the counts, so there are none to spread.
                Some(_) => ARCHIVED,
                None if record.fewer_lanes => NARROWED,
                None => POLL,
            });
            to.number(u64::from(*number));
            to.json(record);
        }
        Record::Vote(vote) => write_vote(&mut to, now, vote),
        Record::Row(row) => write_row(&mut to, now, row),
        Record::Gone(number) => {
            to.byte(GONE);
            to.number(u64::from(*number));
        }
        Record::Counters(number, counters) => {
            to.byte(COUNTERS);
            to.number(u64::from(*number));
            write_counters(&mut to, counters);
        }
        Record::Recut(record) => {
            to.byte(RECUT);
            to.json(record);
        }
    }
}

fn write_counters(to: &mut RecordWriter<'_>, counters: &Counters) {
    to.number(counters.voting);
    to.number(counters.digest.rows);
    for limb in counters.digest.sum {
        to.fixed(limb);
    }
    to.number(counters.lanes.len() as u64);
    to.number(counters.lanes.first().map_or(0, Vec::len) as u64);
    for count in counters.lanes.iter().flatten() {
        to.number(*count);
    }
}

fn write_vote(to: &mut RecordWriter<'_>, now: Timestamp, vote: &VoteRecord<'_>) {
    to.byte(VOTE);
    to.number(u64::from(vote.poll));
    to.number(vote.epoch.0);
    to.number(u64::from(vote.item));
    to.fixed(vote.request.0);
    to.difference(vote.at.unix_ms(), now.unix_ms());
    to.text(vote.voter);
}

fn write_row(to: &mut RecordWriter<'_>, now: Timestamp, row: &RowRecord<'_>) {
    to.byte(ROW);
    to.number(u64::from(row.poll));
    to.number(row.version.epoch.0);
    to.number(u64::from(row.version.revision));
    to.number(row.items.len() as u64);
    for item in &row.items {
        to.number(u64::from(*item));
    }
    to.number(row.requests.len() as u64);
    for (request, revision) in &row.requests {
        to.fixed(request.0);
        to.number(u64::from(*revision));
    }
    to.difference(row.at.unix_ms(), now.unix_ms());
    match row.voter {
        RecordVoter::Named(name) => {
            to.byte(0);
            to.text(name);
        }
        RecordVoter::Erased(print) => {
            to.byte(1);
            to.fixed(print.0[0]);
            to.fixed(print.0[1]);
        }
    }
}

/// Reads a group: its time, and an iterator over its records.
pub(super) fn read(payload: &[u8]) -> Result<(Timestamp, Records<'_>), RecordError> {
    let mut from = RecordReader(payload);
    match from.byte()? {
        VERSION => {}
        other => {
            let what = format!("format version {other}; this program supports {VERSION}");
            return Err(RecordError(what));
        }
    }
    let now = Timestamp::from_unix_ms(from.fixed()? as i64);
    Ok((now, Records { now, from }))
}

/// The records of a group.
pub(super) struct Records<'a> {
    now: Timestamp,
    from: RecordReader<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.0.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.from.0 = &[];
        }
        Some(record)
    }
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Result<Record<'a>, RecordError> {
        let from = &mut self.from;
        match from.byte()? {
            SLICE | PART => Ok(Record::Slice(from.json()?)),
            RECUT => Ok(Record::Recut(Box::new(from.json()?))),
            POLL | ARCHIVED => Ok(Record::Poll(from.number_u32()?, Box::new(from.json()?))),
            NARROWED => {
                let number = from.number_u32()?;
                let record = PollRecord {
                    fewer_lanes: true,
                    ..from.json()?
                };
                Ok(Record::Poll(number, Box::new(record)))
            }
            VOTE => self.vote().map(Record::Vote),
            ROW => self.row().map(Record::Row),
            GONE => Ok(Record::Gone(from.number_u32()?)),
            COUNTERS => {
                let number = from.number_u32()?;
                let counters = self.counters()?;
                Ok(Record::Counters(number, Box::new(counters)))
            }
            other => Err(RecordError(format!("unknown record kind {other}"))),
        }
    }

    fn counters(&mut self) -> Result<Counters, RecordError> {
        let from = &mut self.from;
        let voting = from.number()?;
        let mut digest = Digest {
            rows: from.number()?,
            sum: [0; 4],
        };
        for limb in &mut digest.sum {
            *limb = from.fixed()?;
        }
        let (items, lanes) = (from.number()?, from.number()?);
        let lanes = (0..items)
            .map(|_| (0..lanes).map(|_| from.number()).collect())
            .collect::<Result<_, _>>()?;
        Ok(Counters {
            voting,
            digest,
            lanes,
        })
    }

    fn version(&mut self) -> Result<RowVersion, RecordError> {
        Ok(RowVersion {
            epoch: Epoch(self.from.number()?),
            revision: self.from.number_u32()?,
        })
    }

    fn vote(&mut self) -> Result<VoteRecord<'a>, RecordError> {
        Ok(VoteRecord {
            poll: self.from.number_u32()?,
            epoch: Epoch(self.from.number()?),
            item: self.from.number_u16()?,
            request: RequestId(self.from.fixed()?),
            at: self.from.time(self.now)?,
            voter: self.from.text()?,
        })
    }

    fn row(&mut self) -> Result<RowRecord<'a>, RecordError> {
        let (poll, version) = (self.from.number_u32()?, self.version()?);
        let items = (0..self.from.number()?)
            .map(|_| self.from.number_u16())
            .collect::<Result<_, _>>()?;
        let requests = (0..self.from.number()?)
            .map(|_| Ok((RequestId(self.from.fixed()?), self.from.number_u32()?)))
            .collect::<Result<_, RecordError>>()?;
        let at = self.from.time(self.now)?;
        let voter = match self.from.byte()? {
            0 => RecordVoter::Named(self.from.text()?),
            _ => RecordVoter::Erased(VoterPrint([self.from.fixed()?, self.from.fixed()?])),
        };
        Ok(RowRecord {
            poll,
            version,
            items,
            requests,
            at,
            voter,
        })
    }
}

#[cfg(test)]
mod tests;
