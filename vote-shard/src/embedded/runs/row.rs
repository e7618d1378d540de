//! The encoding of a voter's row in a run.

use ballast_domain::Timestamp;
use ballast_domain::VoterId;
use ballast_domain::poll::RequestId;
use ballast_domain::poll::judge::ChosenItems;
use ballast_domain::tenant::Epoch;

use super::RowKey;
use crate::embedded::record::bytes::{RecordReader, RecordWriter};
use crate::embedded::record::{RecordError, RecordVoter, RowRecord, VoteRecord};
use crate::embedded::state::RowData;
use crate::shard::{RowVersion, VoterName, VoterPrint};

/// A decoded row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct StoredRow {
    pub(in crate::embedded) key: RowKey,
    pub(in crate::embedded) row: RowData,
    pub(in crate::embedded) voter: VoterName,
}

/// The encoded parts of a row.
pub(super) struct RowParts<'a> {
    version: RowVersion,
    items: &'a [u16],
    requests: &'a [(RequestId, u32)],
    at: Timestamp,
    voter: RecordVoter<'a>,
}

/// Encodes a row of the log.
pub(super) fn write_row(to: &mut Vec<u8>, key: RowKey, row: &RowRecord<'_>) {
    let parts = RowParts {
        version: row.version,
        items: &row.items,
        requests: &row.requests,
        at: row.at,
        voter: row.voter,
    };
    write(to, key, &parts);
}

/// Encodes a first vote as a row.
pub(super) fn write_vote(to: &mut Vec<u8>, key: RowKey, vote: &VoteRecord<'_>) {
    let parts = RowParts {
        version: RowVersion {
            epoch: vote.epoch,
            revision: 1,
        },
        items: &[vote.item],
        requests: &[(vote.request, 1)],
        at: vote.at,
        voter: RecordVoter::Named(vote.voter),
    };
    write(to, key, &parts);
}

/// The length comes first, so that a reader can skip the row.
fn write(to: &mut Vec<u8>, key: RowKey, record: &RowParts<'_>) {
    let start = to.len();
    to.extend_from_slice(&[0; 2]);
    to.extend_from_slice(&key.poll.to_le_bytes());
    to.extend_from_slice(&key.voter.0[0].to_le_bytes());
    to.extend_from_slice(&key.voter.0[1].to_le_bytes());
    let mut writer = RecordWriter(to);
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
        RecordVoter::Named(name) => {
            writer.byte(0);
            writer.text(name);
        }
        RecordVoter::Erased(_) => writer.byte(1),
    }
    // Items, requests and names are bounded, so the length fits.
    let length = u16::try_from(to.len() - start - 2).unwrap_or(u16::MAX);
    to[start..start + 2].copy_from_slice(&length.to_le_bytes());
}

/// The key and length of the row at the start of these bytes.
pub(super) fn peek(bytes: &[u8]) -> Option<(RowKey, usize)> {
    let head = bytes.get(..22)?;
    let length = usize::from(u16::from_le_bytes([head[0], head[1]])) + 2;
    let key = RowKey {
        poll: super::format::read_u32(head, 2),
        voter: VoterPrint([
            super::format::read_u64(head, 6),
            super::format::read_u64(head, 14),
        ]),
    };
    (bytes.len() >= length && length >= 22).then_some((key, length))
}

/// Decodes a row.
pub(super) fn read(bytes: &[u8]) -> Result<StoredRow, RecordError> {
    let (key, row, mut from) = read_nameless(bytes)?;
    let voter = match from.byte()? {
        0 => {
            let name = VoterId::new(from.text()?);
            VoterName::Named(name.map_err(|bad| RecordError(bad.to_string()))?)
        }
        _ => VoterName::Erased(key.voter),
    };
    Ok(StoredRow { key, row, voter })
}

/// Decodes a row up to the voter's name.
pub(super) fn read_nameless(
    bytes: &[u8],
) -> Result<(RowKey, RowData, RecordReader<'_>), RecordError> {
    let (key, length) =
        peek(bytes).ok_or_else(|| RecordError("unexpected end of a row".to_owned()))?;
    let mut from = RecordReader(&bytes[22..length]);
    let version = RowVersion {
        epoch: Epoch(from.number()?),
        revision: from.number_u32()?,
    };
    let items = match from.number()? {
        1 => ChosenItems::One(from.number_u16()?),
        count => ChosenItems::Many(
            (0..count)
                .map(|_| from.number_u16())
                .collect::<Result<Vec<_>, _>>()?,
        ),
    };
    let requests = (0..from.number()?)
        .map(|_| Ok((RequestId(from.fixed()?), from.number_u32()?)))
        .collect::<Result<_, RecordError>>()?;
    let at = from.time(Timestamp::from_unix_ms(0))?;
    let row = RowData {
        items,
        version,
        requests,
        at,
    };
    Ok((key, row, from))
}
