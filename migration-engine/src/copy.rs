//! Copying a slice: first what is there, then what has changed since, page by
//! page. Where it stands is a cursor that is written down, so that a crash
//! does not start it over.

use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{Change, Cursor, Order, Page};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};
use serde::{Deserialize, Serialize};

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
    /// How often it began anew, because what it would have gone on from was no
    /// longer kept.
    pub restarts: u32,
}

impl Default for Copied {
    fn default() -> Self {
        Self {
            cursor: Cursor::Start,
            rows: 0,
            restarts: 0,
        }
    }
}

/// What one page came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Rows on it.
    pub rows: u64,
    /// Whether everything that was durable on the source is on its way.
    pub caught_up: bool,
}

/// Carries one page from a shard to another.
pub async fn page(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    copied: &mut Copied,
) -> ShardResult<Carried> {
    let page = match source.export(slice, &copied.cursor, PAGE_BYTES).await {
        Err(ShardError::CursorTooOld) => {
            copied.cursor = Cursor::Start;
            copied.restarts += 1;
            source.export(slice, &copied.cursor, PAGE_BYTES).await?
        }
        other => other?,
    };
    let Page {
        changes,
        next,
        caught_up,
    } = page;
    if !changes.is_empty() {
        target.import(slice, order, &changes).await?;
    }
    // Only now: what is on the page is durable on the other side.
    copied.cursor = next;
    let rows = changes.iter().filter(|change| is_row(change)).count() as u64;
    copied.rows += rows;
    Ok(Carried { rows, caught_up })
}

fn is_row(change: &Change) -> bool {
    matches!(change, Change::Voter(_))
}

/// Carries pages until everything that is durable on the source is on the
/// target too.
pub async fn rest(
    source: &dyn VoteShard,
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &Order,
    copied: &mut Copied,
) -> ShardResult<()> {
    while !page(source, target, slice, order, copied).await?.caught_up {}
    Ok(())
}
