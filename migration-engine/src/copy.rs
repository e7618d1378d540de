//! Copying a slice: first what is there, then what has changed since, page by
//! page. Where it stands is a cursor that is written down, so that a crash
//! does not start it over.

use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{Change, Cursor, Order, Page, VoterName};
use ballast_vote_shard::{ShardError, VoteShard};
use serde::{Deserialize, Serialize};

use crate::faults;

/// About how much one page carries: large enough that its way costs little,
/// small enough that a stop is soon.
const PAGE_BYTES: usize = 1 << 20;

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Where it goes on.
    pub cursor: Cursor,
    /// Rows that were carried so far, some of them more than once.
    pub rows: u64,
    /// About how many bytes that was.
    #[serde(default)]
    pub bytes: u64,
    /// How often it began anew, because what it would have gone on from was no
    /// longer kept.
    pub restarts: u32,
}

impl Default for Copied {
    fn default() -> Self {
        Self {
            cursor: Cursor::Start,
            rows: 0,
            bytes: 0,
            restarts: 0,
        }
    }
}

/// What one page came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Rows on it.
    pub rows: u64,
    /// About how many bytes that was.
    pub bytes: u64,
    /// Whether everything that was durable on the source is on its way.
    pub caught_up: bool,
}

/// Which side failed.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The one that is copied from.
    #[error(transparent)]
    Source(ShardError),
    /// The one that is copied to.
    #[error(transparent)]
    Target(ShardError),
}

/// A page that was read while the one before it was taken in. It is only to
/// save time: whoever loses it reads it again.
#[derive(Debug, Default)]
pub struct Ahead(Option<(Cursor, Page)>);

impl Ahead {
    /// The page after a cursor, if that is the one.
    fn take(&mut self, cursor: &Cursor) -> Option<Page> {
        let (after, page) = self.0.take()?;
        (after == *cursor).then_some(page)
    }
}

/// Carries one page from a shard to another.
pub async fn page(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    copied: &mut Copied,
) -> Result<Carried, PageError> {
    let page = read(source, slice, copied).await?;
    take_in(target, slice, order, &page).await?;
    Ok(copied.after(page))
}

/// The same, with the next page read meanwhile.
pub async fn page_ahead(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    copied: &mut Copied,
    ahead: &mut Ahead,
) -> Result<Carried, PageError> {
    let page = match ahead.take(&copied.cursor) {
        Some(page) => page,
        None => read(source, slice, copied).await?,
    };
    let read_next = async {
        // What comes after the last page has not happened yet.
        if page.caught_up {
            return None;
        }
        let next = source.export(slice, &page.next, PAGE_BYTES).await;
        // One that fails is read again, and its failure told then.
        Some((page.next.clone(), next.ok()?))
    };
    let (taken_in, next) = tokio::join!(take_in(target, slice, order, &page), read_next);
    taken_in?;
    ahead.0 = next;
    Ok(copied.after(page))
}

/// The next page; the first one if what follows is no longer kept.
async fn read(
    source: &dyn VoteShard,
    slice: &SliceId,
    copied: &mut Copied,
) -> Result<Page, PageError> {
    let page = match source.export(slice, &copied.cursor, PAGE_BYTES).await {
        Err(ShardError::CursorTooOld) => {
            copied.cursor = Cursor::Start;
            copied.restarts += 1;
            source.export(slice, &copied.cursor, PAGE_BYTES).await
        }
        other => other,
    };
    page.map_err(PageError::Source)
}

async fn take_in(
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    page: &Page,
) -> Result<(), PageError> {
    faults::point("page", &page.next);
    if !page.changes.is_empty() {
        let imported = target.import(slice, order, &page.changes).await;
        imported.map_err(PageError::Target)?;
    }
    faults::point("paged", &page.next);
    Ok(())
}

impl Copied {
    /// A page is durable on the other side, and only now behind.
    fn after(&mut self, page: Page) -> Carried {
        let rows = page.changes.iter().filter(|change| is_row(change)).count() as u64;
        let bytes = page.changes.iter().map(weight).sum();
        self.cursor = page.next;
        self.rows += rows;
        self.bytes += bytes;
        Carried {
            rows,
            bytes,
            caught_up: page.caught_up,
        }
    }
}

fn is_row(change: &Change) -> bool {
    matches!(change, Change::Voter(_))
}

/// About how many bytes a change is.
fn weight(change: &Change) -> u64 {
    match change {
        Change::Poll(row) => {
            let items = row.poll.spec.items.iter().map(|item| item.item_name.len());
            200 + items.sum::<usize>() as u64
        }
        Change::Voter(row) => {
            let name = match &row.voter {
                VoterName::Named(name) => name.as_str().len(),
                VoterName::Erased(_) => 16,
            };
            (40 + name + 2 * row.items.len() + 20 * row.requests.len()) as u64
        }
    }
}
