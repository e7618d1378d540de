//! Which rows differ between two copies of a poll, by name.

use std::collections::BTreeMap;

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{
    Change, Cursor, PollRow, Version, VoterName, VoterPrint, VoterRow,
};
use ballast_vote_shard::{ShardResult, VoteShard};

/// Differing rows that are named; of more, their number.
const NAMED_MAX: usize = 10;
const PAGE_BYTES: usize = 1 << 20;

/// What differs in a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) poll: PollId,
    /// What differs, in words.
    pub(super) rows: Vec<String>,
    /// How many rows do.
    pub(super) count: usize,
    /// Whether the second side has something that the first lacks, or newer:
    /// then it is not what merely stayed behind.
    pub(super) ahead: bool,
    /// Whether something is another under the same version: then one of them is
    /// not what was written.
    pub(super) forged: bool,
}

impl Difference {
    /// In one line.
    pub(super) fn told(&self) -> String {
        let more = self.count.saturating_sub(self.rows.len());
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("poll {}: {}{more}", self.poll, self.rows.join(", "))
    }
}

/// Everything a shard has of a poll.
struct Whole {
    poll: Option<PollRow>,
    rows: BTreeMap<String, VoterRow>,
}

/// Says which rows of a poll differ.
pub(super) async fn of(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    poll: PollId,
) -> ShardResult<Difference> {
    let source = whole(source, slice, poll).await?;
    let target = whole(target, slice, poll).await?;
    let (mut found, mut ahead, mut forged) = (Vec::new(), false, false);
    let mut weigh = |one: Option<Version>, two: Option<Version>| {
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
                found.push(format!("voter {name} is another"));
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
    found.extend(strange.map(|name| format!("voter {name} should not be there")));
    ahead |= found.len() > count_before;
    let count = found.len();
    found.truncate(NAMED_MAX);
    Ok(Difference {
        poll,
        rows: found,
        count,
        ahead,
        forged,
    })
}

async fn whole(shard: &dyn VoteShard, slice: &SliceId, poll: PollId) -> ShardResult<Whole> {
    let mut found = Whole {
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
    // A small slice may be there whole. That other polls are told of says nothing: the
    // first page has all of them.
    found.add(poll, begin.changes);
    let mut done = begin.caught_up;
    while !done {
        let page = shard.export(slice, &cursor, PAGE_BYTES).await?;
        let beyond = found.add(poll, page.changes);
        done = beyond || page.caught_up || matches!(page.next, Cursor::Changes { .. });
        cursor = page.next;
    }
    Ok(found)
}

impl Whole {
    /// Takes in what is about a poll; whether something of a later one was there.
    fn add(&mut self, poll: PollId, changes: Vec<Change>) -> bool {
        let mut beyond = false;
        for change in changes {
            match change {
                Change::Poll(row) if row.poll.poll_id == poll => self.poll = Some(row),
                Change::Voter(row) if row.poll == poll => {
                    self.rows.insert(name(&row.voter), row);
                }
                Change::Poll(row) => beyond |= row.poll.poll_id > poll,
                Change::Voter(row) => beyond |= row.poll > poll,
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
