//! The rows of a poll, page by page: from the owner, merged with those of the
//! previous shard while a migration's window is open.
//!
//! ```text
//!   owner          ──► page ─┐
//!                            ├─► merged rows up to where both pages reach
//!   previous shard ──► page ─┘   the rest is kept for the next page
//! ```
//! Both shards export rows in the order of their voters' prints, so one page of
//! each is kept in memory. A cursor is valid only at the shard that issued it. When
//! the slice moves during an export, reading continues at the new owner after the
//! last row that was returned.

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, Result};
use ballast_vote_shard::shard::{
    Cursor, ExportPage, ExportedRow, SliceKey, VoterName, VoterPrint, VoterRow,
};
use ballast_vote_shard::{FencedSlice, ShardResult, VoteShard};

use super::merge::{MergeSide, MergedRow, take_merged};
use super::window::DualReadEvent;
use crate::RouterState;
use crate::admit::Access;
use crate::consistent_read::ConsistentReader;
use crate::deliver::{RouteKey, ShardTarget};

/// About how many bytes one page has.
const PAGE_BYTES: usize = 256 * 1024;

/// Reads the rows of a poll.
pub(crate) struct PollRows {
    poll: PollId,
    /// The voter of the last row that was returned.
    last: Option<VoterPrint>,
    reading: Option<RouteRows>,
}

/// The reading state of both shards for one route.
struct RouteRows {
    at: FencedSlice,
    key: SliceKey,
    owner: SideReader,
    previous: SideReader,
}

struct SideReader {
    cursor: Cursor,
    side: MergeSide<VoterPrint, VoterRow>,
}

impl SideReader {
    fn new() -> Self {
        Self {
            cursor: Cursor::Start,
            side: MergeSide::default(),
        }
    }

    /// Adds a page.
    fn add(&mut self, poll: PollId, key: &SliceKey, page: ExportPage) {
        if is_last(poll, &page) {
            self.side.end();
        }
        self.cursor = page.next;
        self.side.add(rows_of_poll(poll, key, page.changes));
    }
}

/// A page of the owner.
struct OwnerPage {
    target: ShardTarget,
    key: SliceKey,
    /// No page when the rows of the last one are not used up.
    page: Option<ExportPage>,
}

impl PollRows {
    /// Reads all rows of a poll.
    pub(crate) fn new(poll: PollId) -> Self {
        Self {
            poll,
            last: None,
            reading: None,
        }
    }

    /// Reads the next rows; also returns whether there are more.
    pub(crate) async fn next(
        &mut self,
        state: &RouterState,
        access: &mut Access,
    ) -> Result<(Vec<VoterRow>, bool)> {
        let route_key = RouteKey::Poll(self.poll);
        let this = &*self;
        let read = state.deliver(access, &route_key, |target| this.read(target));
        let OwnerPage { target, key, page } = read.await?;
        let same = self
            .reading
            .take()
            .filter(|reading| reading.at == target.fenced);
        let mut reading = same.unwrap_or_else(|| RouteRows {
            at: target.fenced.clone(),
            key,
            owner: SideReader::new(),
            previous: SideReader::new(),
        });
        if let Some(page) = page {
            reading.owner.add(self.poll, &reading.key, page);
        }
        self.read_previous_page(state, &target, &mut reading).await;
        let merged = take_merged(&mut reading.owner.side, &mut reading.previous.side);
        let there_is_more = !(reading.owner.side.is_over() && reading.previous.side.is_over());
        self.last = merged.last().map(|(print, _)| *print).or(self.last);
        self.reading = Some(reading);
        let rows = resolve_rows(state, access, &route_key, merged).await?;
        Ok((rows, there_is_more))
    }

    /// The voter of the last row that was returned.
    pub(crate) fn last(&self) -> Option<VoterPrint> {
        self.last
    }

    /// Reads the owner's next page, if one is needed.
    async fn read(&self, target: ShardTarget) -> ShardResult<OwnerPage> {
        let known = self.reading.as_ref();
        let known = known.filter(|reading| reading.at == target.fenced);
        let owner = target.consistent_reader().await?;
        let (key, page) = match known {
            Some(reading) if !reading.owner.side.wants_more() => (reading.key, None),
            Some(reading) => {
                let page = self
                    .page(PageSource::Owner(&owner), &target, &reading.owner.cursor)
                    .await?;
                (reading.key, Some(page))
            }
            None => {
                let key = owner.slice_key(&target.fenced.slice).await?;
                (
                    key,
                    Some(
                        self.page(PageSource::Owner(&owner), &target, &Cursor::Start)
                            .await?,
                    ),
                )
            }
        };
        Ok(OwnerPage { target, key, page })
    }

    /// Reads a page of one shard. `Cursor::Start` continues after the last row that
    /// was returned.
    async fn page(
        &self,
        shard: PageSource<'_>,
        target: &ShardTarget,
        from: &Cursor,
    ) -> ShardResult<ExportPage> {
        let slice = &target.fenced.slice;
        if *from != Cursor::Start {
            return shard.export(slice, from, PAGE_BYTES).await;
        }
        let begin = shard.export(slice, &Cursor::Start, 1).await?;
        let cursor = seek_after(begin.next, self.poll, self.last);
        shard.export(slice, &cursor, PAGE_BYTES).await
    }

    /// Reads the previous shard's next page, if one is needed. If that fails, the
    /// remaining rows come from the owner only.
    async fn read_previous_page(
        &self,
        state: &RouterState,
        target: &ShardTarget,
        reading: &mut RouteRows,
    ) {
        let previous = &mut reading.previous;
        let Some((shard_id, window)) = state.previous_shard(target) else {
            return previous.side.give_up();
        };
        if !previous.side.wants_more() {
            return;
        }
        let cursor = previous.cursor.clone();
        let read = state.read_previous(shard_id, &window, |shard| async move {
            self.page(PageSource::Previous(&*shard), target, &cursor)
                .await
        });
        match read.await {
            Some(Some(page)) => {
                previous.add(self.poll, &reading.key, page);
                state.record(&window, DualReadEvent::Compared);
            }
            Some(None) | None => previous.side.give_up(),
        }
    }
}

/// The shard that pages are read from.
enum PageSource<'a> {
    /// The owner; reads fail when it no longer owns the slice.
    Owner(&'a ConsistentReader<'a>),
    /// The previous shard, whatever the state of its copy.
    Previous(&'a dyn VoteShard),
}

impl PageSource<'_> {
    async fn export(
        &self,
        slice: &SliceId,
        cursor: &Cursor,
        bytes: usize,
    ) -> ShardResult<ExportPage> {
        match self {
            Self::Owner(owner) => owner.export(slice, cursor, bytes).await,
            Self::Previous(shard) => shard.export(slice, cursor, bytes).await,
        }
    }
}

/// Confirms rows: reads the owner again for each row that only the previous shard
/// has, or has newer.
async fn resolve_rows(
    state: &RouterState,
    access: &mut Access,
    route_key: &RouteKey,
    merged: Vec<(VoterPrint, MergedRow<VoterRow>)>,
) -> Result<Vec<VoterRow>> {
    let mut rows = Vec::with_capacity(merged.len());
    for (_, merged) in merged {
        rows.push(match merged {
            MergedRow::Confirmed(row) => row,
            MergedRow::Unconfirmed(row) => {
                let settling = state.deliver(access, route_key, |target| {
                    let row = row.clone();
                    async move { state.resolve_unconfirmed(&target, row).await }
                });
                settling.await?
            }
        });
    }
    Ok(rows)
}

/// The rows of a poll in a page, each with its voter's print.
pub(super) fn rows_of_poll(
    poll: PollId,
    key: &SliceKey,
    changes: Vec<ExportedRow>,
) -> impl Iterator<Item = (VoterPrint, VoterRow)> {
    changes.into_iter().filter_map(move |change| match change {
        ExportedRow::Voter(row) if row.poll == poll => {
            let print = match &row.voter {
                VoterName::Named(voter) => key.voter_print(voter.as_str()),
                VoterName::Erased(print) => *print,
            };
            Some((print, row))
        }
        _ => None,
    })
}

/// Moves a cursor behind the earlier polls and behind the poll's rows up to
/// `last`. Rows are in the order of their polls.
pub(super) fn seek_after(cursor: Cursor, poll: PollId, last: Option<VoterPrint>) -> Cursor {
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

/// The print before this one; `None` for the first.
pub(super) fn previous_print(print: VoterPrint) -> Option<VoterPrint> {
    match print.0 {
        [0, 0] => None,
        [high, 0] => Some(VoterPrint([high - 1, u64::MAX])),
        [high, low] => Some(VoterPrint([high, low - 1])),
    }
}

/// Whether this is the last page with rows of the poll.
fn is_last(poll: PollId, page: &ExportPage) -> bool {
    let beyond = page.changes.iter().any(|change| match change {
        ExportedRow::Poll(row) => row.poll.poll_id > poll,
        ExportedRow::Voter(row) => row.poll > poll,
    });
    beyond || page.caught_up || matches!(page.next, Cursor::Changes { .. })
}
