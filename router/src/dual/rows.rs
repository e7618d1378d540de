//! The rows of a poll, page by page: by the owner, and while a move's window is
//! open by the previous shard too, merged.
//!
//! ```text
//!   owner ──► page ─┐
//!                   ├─► what both are sure of ──► rows
//!   beside ─► page ─┘         the rest waits for the next page
//! ```
//! Both sides hand rows out in the order of their voters' prints, so a page of
//! each is all that is kept. A cursor is good at the shard that gave it only:
//! when the slice moves meanwhile, reading goes on at the new owner after the
//! last row that was handed out.

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, Result};
use ballast_vote_shard::shard::{Change, Cursor, Page, SliceKey, VoterName, VoterPrint, VoterRow};
use ballast_vote_shard::{At, ShardResult, VoteShard};

use super::merge::{Merged, Side, take};
use super::window::What;
use crate::State;
use crate::admit::Access;
use crate::deliver::{Place, Target};
use crate::truth::Truth;

/// How much is read of a shard at once.
const PAGE_BYTES: usize = 256 * 1024;

/// The rows of a poll, as far as they have been read.
pub(crate) struct Rows {
    poll: PollId,
    /// The last one that was handed out.
    last: Option<VoterPrint>,
    reading: Option<Reading>,
}

/// Reading by one route.
struct Reading {
    at: At,
    key: SliceKey,
    own: OneSide,
    other: OneSide,
}

struct OneSide {
    cursor: Cursor,
    side: Side<VoterPrint, VoterRow>,
}

impl OneSide {
    fn new() -> Self {
        Self {
            cursor: Cursor::Start,
            side: Side::default(),
        }
    }

    /// Takes a page in.
    fn add(&mut self, poll: PollId, key: &SliceKey, page: Page) {
        if is_last(poll, &page) {
            self.side.end();
        }
        self.cursor = page.next;
        self.side.add(of_poll(poll, key, page.changes));
    }
}

/// What the owner was asked for.
struct Read {
    place: Place,
    key: SliceKey,
    /// Nothing when what was read before is enough.
    page: Option<Page>,
}

impl Rows {
    /// All rows of a poll.
    pub(crate) fn of(poll: PollId) -> Self {
        Self {
            poll,
            last: None,
            reading: None,
        }
    }

    /// The next rows, and whether there are more.
    pub(crate) async fn next(
        &mut self,
        state: &State,
        access: &Access,
    ) -> Result<(Vec<VoterRow>, bool)> {
        let target = Target::Poll(self.poll);
        let this = &*self;
        let read = state.deliver(access, &target, |place| this.read(place));
        let Read { place, key, page } = read.await?;
        let same = self.reading.take().filter(|reading| reading.at == place.at);
        let mut reading = same.unwrap_or_else(|| Reading {
            at: place.at.clone(),
            key,
            own: OneSide::new(),
            other: OneSide::new(),
        });
        if let Some(page) = page {
            reading.own.add(self.poll, &reading.key, page);
        }
        self.read_beside(state, &place, &mut reading).await;
        let merged = take(&mut reading.own.side, &mut reading.other.side);
        let there_is_more = !(reading.own.side.is_over() && reading.other.side.is_over());
        self.last = merged.last().map(|(print, _)| *print).or(self.last);
        self.reading = Some(reading);
        let rows = settled(state, access, &target, merged).await?;
        Ok((rows, there_is_more))
    }

    /// The voter whose row was handed out last.
    pub(crate) fn last(&self) -> Option<VoterPrint> {
        self.last
    }

    /// The owner's next page, if one is needed.
    async fn read(&self, place: Place) -> ShardResult<Read> {
        let known = self.reading.as_ref();
        let known = known.filter(|reading| reading.at == place.at);
        let owner = place.read().await?;
        let (key, page) = match known {
            Some(reading) if !reading.own.side.wants_more() => (reading.key, None),
            Some(reading) => {
                let page = self
                    .page(Source::Owner(&owner), &place, &reading.own.cursor)
                    .await?;
                (reading.key, Some(page))
            }
            None => {
                let key = owner.slice_key(&place.at.slice).await?;
                (
                    key,
                    Some(
                        self.page(Source::Owner(&owner), &place, &Cursor::Start)
                            .await?,
                    ),
                )
            }
        };
        Ok(Read { place, key, page })
    }

    /// A page of a side; from the start, the first one after what was handed
    /// out already.
    async fn page(&self, shard: Source<'_>, place: &Place, from: &Cursor) -> ShardResult<Page> {
        let slice = &place.at.slice;
        if *from != Cursor::Start {
            return shard.export(slice, from, PAGE_BYTES).await;
        }
        let begin = shard.export(slice, &Cursor::Start, 1).await?;
        let cursor = after(begin.next, self.poll, self.last);
        shard.export(slice, &cursor, PAGE_BYTES).await
    }

    /// The previous shard's next page, if one is needed and it can be read. If
    /// not, the rest is the owner's alone.
    async fn read_beside(&self, state: &State, place: &Place, reading: &mut Reading) {
        let other = &mut reading.other;
        let Some((beside, window)) = state.beside(place) else {
            return other.side.give_up();
        };
        if !other.side.wants_more() {
            return;
        }
        let cursor = other.cursor.clone();
        let asked = state.ask_beside(beside, &window, |shard| async move {
            self.page(Source::Beside(&*shard), place, &cursor).await
        });
        match asked.await {
            Some(Some(page)) => {
                other.add(self.poll, &reading.key, page);
                state.note(&window, What::Compared);
            }
            Some(None) | None => other.side.give_up(),
        }
    }
}

/// What rows are read from, page by page.
enum Source<'a> {
    /// The owner, as long as it is.
    Owner(&'a Truth<'a>),
    /// The copy beside it, whatever it is by now.
    Beside(&'a dyn VoteShard),
}

impl Source<'_> {
    async fn export(&self, slice: &SliceId, cursor: &Cursor, bytes: usize) -> ShardResult<Page> {
        match self {
            Self::Owner(owner) => owner.export(slice, cursor, bytes).await,
            Self::Beside(shard) => shard.export(slice, cursor, bytes).await,
        }
    }
}

/// Rows without doubt: for each that is suspect the owner is asked again.
async fn settled(
    state: &State,
    access: &Access,
    target: &Target,
    merged: Vec<(VoterPrint, Merged<VoterRow>)>,
) -> Result<Vec<VoterRow>> {
    let mut rows = Vec::with_capacity(merged.len());
    for (_, merged) in merged {
        rows.push(match merged {
            Merged::Sure(row) => row,
            Merged::Suspect(row) => {
                let settling = state.deliver(access, target, |place| {
                    let row = row.clone();
                    async move { state.settled(&place, row).await }
                });
                settling.await?
            }
        });
    }
    Ok(rows)
}

/// A poll's rows of a page, each with its voter's print.
pub(super) fn of_poll(
    poll: PollId,
    key: &SliceKey,
    changes: Vec<Change>,
) -> impl Iterator<Item = (VoterPrint, VoterRow)> {
    changes.into_iter().filter_map(move |change| match change {
        Change::Voter(row) if row.poll == poll => {
            let print = match &row.voter {
                VoterName::Named(voter) => key.print(voter.as_str()),
                VoterName::Erased(print) => *print,
            };
            Some((print, row))
        }
        _ => None,
    })
}

/// Skips the polls before this one, and its rows up to a print: rows are in
/// the order of their polls.
pub(super) fn after(cursor: Cursor, poll: PollId, last: Option<VoterPrint>) -> Cursor {
    let before = || {
        let before = poll.number().checked_sub(1)?;
        Some((PollId::from_number(before), VoterPrint([u64::MAX; 2])))
    };
    match cursor {
        Cursor::Snapshot { position, .. } => Cursor::Snapshot {
            position,
            after: last.map(|last| (poll, last)).or_else(before),
        },
        cursor => cursor,
    }
}

/// The print before another one; nothing before the first.
pub(super) fn before(print: VoterPrint) -> Option<VoterPrint> {
    match print.0 {
        [0, 0] => None,
        [high, 0] => Some(VoterPrint([high - 1, u64::MAX])),
        [high, low] => Some(VoterPrint([high, low - 1])),
    }
}

/// Whether all rows of the poll that were there have been handed out.
fn is_last(poll: PollId, page: &Page) -> bool {
    let beyond = page.changes.iter().any(|change| match change {
        Change::Poll(row) => row.poll.poll_id > poll,
        Change::Voter(row) => row.poll > poll,
    });
    beyond || page.caught_up || matches!(page.next, Cursor::Changes { .. })
}
