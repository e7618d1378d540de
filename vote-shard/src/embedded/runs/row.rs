//! One voter's row as it is stored in a run.

use ballast_domain::Timestamp;
use ballast_domain::VoterId;
use ballast_domain::poll::RequestId;
use ballast_domain::poll::judge::Chosen;
use ballast_domain::tenant::Epoch;

use super::Key;
use crate::embedded::record::bytes::{Reader, Writer};
use crate::embedded::record::{RowRecord, Unreadable, VoteRecord, WrittenVoter};
use crate::embedded::state::Row;
use crate::shard::{Version, VoterName, VoterPrint};

/// A row that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct StoredRow {
    pub(in crate::embedded) key: Key,
    pub(in crate::embedded) row: Row,
    pub(in crate::embedded) voter: VoterName,
}

/// What is written of a row.
pub(super) struct Parts<'a> {
    version: Version,
    items: &'a [u16],
    requests: &'a [(RequestId, u32)],
    at: Timestamp,
    voter: WrittenVoter<'a>,
}

/// Writes a row as the log has it.
pub(super) fn write_row(to: &mut Vec<u8>, key: Key, row: &RowRecord<'_>) {
    let parts = Parts {
        version: row.version,
        items: &row.items,
        requests: &row.requests,
        at: row.at,
        voter: row.voter,
    };
    write(to, key, &parts);
}

/// Writes a first vote as a row.
pub(super) fn write_vote(to: &mut Vec<u8>, key: Key, vote: &VoteRecord<'_>) {
    let parts = Parts {
        version: Version {
            epoch: vote.epoch,
            revision: 1,
        },
        items: &[vote.item],
        requests: &[(vote.request, 1)],
        at: vote.at,
        voter: WrittenVoter::Named(vote.voter),
    };
    write(to, key, &parts);
}

/// Its length comes first, so that it can be passed over.
fn write(to: &mut Vec<u8>, key: Key, record: &Parts<'_>) {
    let start = to.len();
    to.extend_from_slice(&[0; 2]);
    to.extend_from_slice(&key.poll.to_le_bytes());
    to.extend_from_slice(&key.voter.0[0].to_le_bytes());
    to.extend_from_slice(&key.voter.0[1].to_le_bytes());
    let mut writer = Writer(to);
    writer.number(record.version.epoch.0);
    writer.number(u64::from(record.version.revision));
    writer.number(record.items.len() as u64);
    for item in record.items {
        writer.number(u64::from(*item));
    }
    writer.number(record.requests.len() as u64);
    for (request, revision) in record.requests {
        writer.fixed(request.0);
        writer.number(u64::from(*revision));
    }
    writer.difference(record.at.unix_ms(), 0);
    match record.voter {
        WrittenVoter::Named(name) => {
            writer.byte(0);
            writer.text(name);
        }
        WrittenVoter::Erased(_) => writer.byte(1),
    }
    // Items, requests and a name are bounded: it fits.
    let length = u16::try_from(to.len() - start - 2).unwrap_or(u16::MAX);
    to[start..start + 2].copy_from_slice(&length.to_le_bytes());
}

/// The key of the row that begins these bytes, and the row's length.
pub(super) fn peek(bytes: &[u8]) -> Option<(Key, usize)> {
    let head = bytes.get(..22)?;
    let length = usize::from(u16::from_le_bytes([head[0], head[1]])) + 2;
    let key = Key {
        poll: super::format::four(head, 2),
        voter: VoterPrint([
            super::format::eight(head, 6),
            super::format::eight(head, 14),
        ]),
    };
    (bytes.len() >= length && length >= 22).then_some((key, length))
}

/// Reads a row.
pub(super) fn read(bytes: &[u8]) -> Result<StoredRow, Unreadable> {
    let (key, row, mut from) = read_nameless(bytes)?;
    let voter = match from.byte()? {
        0 => {
            let name = VoterId::new(from.text()?);
            VoterName::Named(name.map_err(|bad| Unreadable(bad.to_string()))?)
        }
        _ => VoterName::Erased(key.voter),
    };
    Ok(StoredRow { key, row, voter })
}

/// Reads a row up to the voter's name, which follows.
pub(super) fn read_nameless(bytes: &[u8]) -> Result<(Key, Row, Reader<'_>), Unreadable> {
    let (key, length) =
        peek(bytes).ok_or_else(|| Unreadable("a row ends in the middle".to_owned()))?;
    let mut from = Reader(&bytes[22..length]);
    let version = Version {
        epoch: Epoch(from.number()?),
        revision: from.short()?,
    };
    let items = match from.number()? {
        1 => Chosen::One(from.tiny()?),
        count => Chosen::Many(
            (0..count)
                .map(|_| from.tiny())
                .collect::<Result<Vec<_>, _>>()?,
        ),
    };
    let requests = (0..from.number()?)
        .map(|_| Ok((RequestId(from.fixed()?), from.short()?)))
        .collect::<Result<_, Unreadable>>()?;
    let at = from.time(Timestamp::from_unix_ms(0))?;
    let row = Row {
        items,
        version,
        requests,
        at,
    };
    Ok((key, row, from))
}
