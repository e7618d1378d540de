//! Copying a slice: first what is there, then what has changed since, page by
//! page. Where it stands is a cursor that is written down, so that a crash
//! does not start it over.

use ballast_domain::Timestamp;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::archive::Report;
use ballast_vote_shard::shard::{Change, Cursor, Order, Page, VoterName};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};
use serde::{Deserialize, Serialize};

use crate::faults;

/// About how much one page carries: large enough that its way costs little,
/// small enough that a stop is soon, and that whoever lets go of its rows does
/// not keep voters waiting.
const PAGE_BYTES: usize = 256 << 10;

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Where it goes on.
    pub cursor: Cursor,
    /// Rows that were carried so far, some of them more than once; with those in
    /// files.
    pub rows: u64,
    /// About how many bytes that was.
    #[serde(default)]
    pub bytes: u64,
    /// Files that were brought.
    #[serde(default)]
    pub files: u64,
    /// How often it began anew, because what it would have gone on from was no
    /// longer kept.
    pub restarts: u32,
    /// Everything that the source had acknowledged before this moment is there:
    /// known in the window, in which changes are streamed back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_before: Option<Timestamp>,
}

impl Default for Copied {
    fn default() -> Self {
        Self {
            cursor: Cursor::Start,
            rows: 0,
            bytes: 0,
            files: 0,
            restarts: 0,
            complete_before: None,
        }
    }
}

impl Copied {
    /// These files were brought, too.
    pub fn add(&mut self, files: &Report) {
        self.files += files.polls;
        self.rows += files.rows;
        self.bytes += files.bytes;
    }
}

impl Copied {
    /// How far the source's changes were copied, once it is changes.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        match self.cursor {
            Cursor::Changes { position } => Some(position),
            Cursor::Start | Cursor::Snapshot { .. } => None,
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

/// A page that was read while the one before it was taken in. It is only to
/// save time: whoever loses it reads it again.
#[derive(Debug, Default)]
pub struct Ahead(Option<(Cursor, Page)>);

impl Ahead {
    /// The page after a cursor, if that is the one.
    pub(crate) fn take(&mut self, cursor: &Cursor) -> Option<Page> {
        let (after, page) = self.0.take()?;
        (after == *cursor).then_some(page)
    }

    /// Reads the page after a cursor. One that cannot be read is read again when
    /// its turn has come, and its failure told then.
    pub(crate) async fn read(&mut self, source: &dyn VoteShard, slice: &SliceId, after: Cursor) {
        let page = source.export(slice, &after, PAGE_BYTES).await;
        self.0 = page.ok().map(|page| (after, page));
    }
}

/// Reads the next page of a shard.
pub async fn read(
    source: &dyn VoteShard,
    slice: &SliceId,
    copied: &mut Copied,
) -> ShardResult<Page> {
    let page = match source.export(slice, &copied.cursor, PAGE_BYTES).await {
        Err(ShardError::CursorTooOld) => {
            copied.cursor = Cursor::Start;
            copied.restarts += 1;
            source.export(slice, &copied.cursor, PAGE_BYTES).await?
        }
        other => other?,
    };
    faults::point("page", &page.next);
    Ok(page)
}

/// Writes a page to the other.
pub async fn write(
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    page: Page,
    copied: &mut Copied,
) -> ShardResult<Carried> {
    let Page {
        changes,
        next,
        caught_up,
    } = page;
    if !changes.is_empty() {
        target.import(slice, order, &changes).await?;
    }
    faults::point("paged", &next);
    // Only now: what is on the page is durable on the other side.
    copied.cursor = next;
    let rows = changes.iter().filter(|change| is_row(change)).count() as u64;
    let bytes = changes.iter().map(weight).sum();
    copied.rows += rows;
    copied.bytes += bytes;
    Ok(Carried {
        rows,
        bytes,
        caught_up,
    })
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
