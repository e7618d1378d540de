//! Copies a slice page by page: first a snapshot, then the changes since. The cursor
//! is saved, so that a copy resumes after a crash.

use ballast_domain::Timestamp;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::archive::ArchiveProgress;
use ballast_vote_shard::shard::{Cursor, ExportPage, ExportedRow, MigrationToken, VoterName};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};
use serde::{Deserialize, Serialize};

use crate::faults;

/// The approximate size of a page: large enough to make the round trip cheap, small
/// enough to stop soon and to free its rows without delaying voters.
const PAGE_BYTES: usize = 256 << 10;

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyProgress {
    /// Where it continues.
    pub cursor: Cursor,
    /// Rows copied so far, including those in files. Rows that changed count again.
    pub rows: u64,
    /// Approximately how many bytes that was.
    #[serde(default)]
    pub bytes: u64,
    /// Files copied.
    #[serde(default)]
    pub files: u64,
    /// How often it restarted because the source no longer had the changes after its
    /// cursor.
    pub restarts: u32,
    /// The target has everything that the source had acknowledged before this moment.
    /// Only known for the stream back during the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_before: Option<Timestamp>,
}

impl Default for CopyProgress {
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

impl CopyProgress {
    /// Adds copied files to the figures.
    pub fn add_files(&mut self, files: &ArchiveProgress) {
        self.files += files.polls;
        self.rows += files.rows;
        self.bytes += files.bytes;
    }
}

impl CopyProgress {
    /// The position in the source's changes, once the snapshot is copied.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        match self.cursor {
            Cursor::Changes { position } => Some(position),
            Cursor::Start | Cursor::Snapshot { .. } => None,
        }
    }
}

/// The size of a copied page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedPage {
    /// Its rows.
    pub rows: u64,
    /// Approximately how many bytes it had.
    pub bytes: u64,
    /// Whether it contained the last change that was durable on the source.
    pub caught_up: bool,
}

/// A page that was read while the one before it was written. It only saves time: if
/// it is lost, it is read again.
#[derive(Debug, Default)]
pub struct PrefetchedPage(Option<(Cursor, ExportPage)>);

impl PrefetchedPage {
    /// Takes the page, if it is the one after this cursor.
    pub(crate) fn take_page(&mut self, cursor: &Cursor) -> Option<ExportPage> {
        let (after, page) = self.0.take()?;
        (after == *cursor).then_some(page)
    }

    /// Reads the page after a cursor. If that fails, the page is read again, and the
    /// error reported, when it is needed.
    pub(crate) async fn read_next(
        &mut self,
        source: &dyn VoteShard,
        slice: &SliceId,
        after: Cursor,
    ) {
        let page = source.export(slice, &after, PAGE_BYTES).await;
        self.0 = page.ok().map(|page| (after, page));
    }
}

/// Reads the next page from the source.
pub async fn read_page(
    source: &dyn VoteShard,
    slice: &SliceId,
    copied: &mut CopyProgress,
) -> ShardResult<ExportPage> {
    let page = match source.export(slice, &copied.cursor, PAGE_BYTES).await {
        Err(ShardError::CursorTooOld) => {
            copied.cursor = Cursor::Start;
            copied.restarts += 1;
            source.export(slice, &copied.cursor, PAGE_BYTES).await?
        }
        other => other?,
    };
    faults::crash_point("page", &page.next);
    Ok(page)
}

/// Writes a page to the target, and advances the cursor.
pub async fn write_page(
    target: &dyn VoteShard,
    slice: &SliceId,
    order: &MigrationToken,
    page: ExportPage,
    copied: &mut CopyProgress,
) -> ShardResult<CopiedPage> {
    let ExportPage {
        changes,
        next,
        caught_up,
    } = page;
    if !changes.is_empty() {
        target.import(slice, order, &changes).await?;
    }
    faults::crash_point("paged", &next);
    // Only now, because the page is durable on the target.
    copied.cursor = next;
    let rows = changes.iter().filter(|change| is_row(change)).count() as u64;
    let bytes = changes.iter().map(estimate_bytes).sum();
    copied.rows += rows;
    copied.bytes += bytes;
    Ok(CopiedPage {
        rows,
        bytes,
        caught_up,
    })
}

fn is_row(change: &ExportedRow) -> bool {
    matches!(change, ExportedRow::Voter(_))
}

/// Returns the approximate size of a change.
fn estimate_bytes(change: &ExportedRow) -> u64 {
    match change {
        ExportedRow::Poll(row) => {
            let items = row.poll.spec.items.iter().map(|item| item.item_name.len());
            200 + items.sum::<usize>() as u64
        }
        ExportedRow::Voter(row) => {
            let name = match &row.voter {
                VoterName::Named(name) => name.as_str().len(),
                VoterName::Erased(_) => 16,
            };
            (40 + name + 2 * row.items.len() + 20 * row.requests.len()) as u64
        }
    }
}
