//! Finds the rows that differ between two copies of a poll.

use std::collections::BTreeMap;

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{
    Cursor, ExportedRow, PollRow, RowVersion, VoterName, VoterPrint, VoterRow,
};
use ballast_vote_shard::{ShardResult, VoteShard};

/// How many differing rows are named; the rest are counted.
const NAMED_MAX: usize = 10;
const PAGE_BYTES: usize = 1 << 20;

/// The differences between two copies of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PollDifference {
    pub(super) poll: PollId,
    /// Descriptions of the first rows that differ.
    pub(super) rows: Vec<String>,
    /// How many rows differ.
    pub(super) count: usize,
    /// Whether the second copy has rows that the first lacks or has older: then the
    /// second is not merely behind.
    pub(super) ahead: bool,
    /// Whether a row differs although both copies have the same version of it: then
    /// one of them is not what was written.
    pub(super) forged: bool,
}

impl PollDifference {
    /// Formats the differences in one line.
    pub(super) fn to_line(&self) -> String {
        let more = self.count.saturating_sub(self.rows.len());
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("poll {}: {}{more}", self.poll, self.rows.join(", "))
    }
}

/// Everything that a shard has of a poll.
struct PollCopy {
    poll: Option<PollRow>,
    rows: BTreeMap<String, VoterRow>,
}

/// Compares two copies of a poll row by row.
pub(super) async fn compare_poll(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    poll: PollId,
) -> ShardResult<PollDifference> {
    let source = read_poll(source, slice, poll).await?;
    let target = read_poll(target, slice, poll).await?;
    let (mut found, mut ahead, mut forged) = (Vec::new(), false, false);
    let mut weigh = |one: Option<RowVersion>, two: Option<RowVersion>| {
        ahead |= two > one;
        forged |= two == one;
    };
    if source.poll != target.poll {
        found.push("the poll itself".to_owned());
        let version = |poll: &Option<PollRow>| poll.as_ref().map(|row| row.version);
        weigh(version(&source.poll), version(&target.poll));
    }
    for (name, row) in &source.rows {
        match target.rows.get(name) {
            None => found.push(format!("voter {name} is missing")),
            Some(other) if other != row => {
                found.push(format!("voter {name} differs"));
                weigh(Some(row.version), Some(other.version));
            }
            Some(_) => {}
        }
    }
    let count_before = found.len();
    let strange = target
        .rows
        .keys()
        .filter(|name| !source.rows.contains_key(*name));
    found.extend(strange.map(|name| format!("voter {name} is unexpected")));
    ahead |= found.len() > count_before;
    let count = found.len();
    found.truncate(NAMED_MAX);
    Ok(PollDifference {
        poll,
        rows: found,
        count,
        ahead,
        forged,
    })
}

async fn read_poll(shard: &dyn VoteShard, slice: &SliceId, poll: PollId) -> ShardResult<PollCopy> {
    let mut copy = PollCopy {
        poll: None,
        rows: BTreeMap::new(),
    };
    let begin = shard.export(slice, &Cursor::Start, 1).await?;
    let mut cursor = match (begin.next, poll.number().checked_sub(1)) {
        (Cursor::Snapshot { position, .. }, Some(before)) => Cursor::Snapshot {
            position,
            after: Some((PollId::from_number(before), VoterPrint([u64::MAX; 2]))),
        },
        (cursor, _) => cursor,
    };
    // The first page can already contain the whole slice, if it is small. It lists
    // every poll, so a later poll on it does not mean that this one is complete.
    copy.add_changes(poll, begin.changes);
    let mut done = begin.caught_up;
    while !done {
        let page = shard.export(slice, &cursor, PAGE_BYTES).await?;
        let beyond = copy.add_changes(poll, page.changes);
        done = beyond || page.caught_up || matches!(page.next, Cursor::Changes { .. });
        cursor = page.next;
    }
    Ok(copy)
}

impl PollCopy {
    /// Adds the changes of this poll, and returns whether there was one of a later poll.
    fn add_changes(&mut self, poll: PollId, changes: Vec<ExportedRow>) -> bool {
        let mut beyond = false;
        for change in changes {
            match change {
                ExportedRow::Poll(row) if row.poll.poll_id == poll => self.poll = Some(row),
                ExportedRow::Voter(row) if row.poll == poll => {
                    self.rows.insert(name(&row.voter), row);
                }
                ExportedRow::Poll(row) => beyond |= row.poll.poll_id > poll,
                ExportedRow::Voter(row) => beyond |= row.poll > poll,
            }
        }
        beyond
    }
}

fn name(voter: &VoterName) -> String {
    match voter {
        VoterName::Named(name) => format!("{:?}", name.as_str()),
        VoterName::Erased(print) => format!("{print:?}"),
    }
}
