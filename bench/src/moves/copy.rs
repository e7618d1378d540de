//! How fast a slice is copied from one shard to another by a migration, compared with the
//! engine's own limit: the same pages imported from memory.

use std::path::Path;

use ballast_migration_engine::copy::CopyProgress;
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::{Cursor, ExportedRow};

use super::engines::{Moving, slice};
use super::room;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, ratio, thousands};
use crate::votes;

/// The size of a page, as in a migration.
const PAGE_BYTES: usize = 1 << 20;
/// Pages are kept in memory, so the size is limited.
const VOTES_MAX: u64 = 2_000_000;
/// Each is measured this often, by turns; the median counts.
const ROUNDS: usize = 3;

/// Prints the table.
pub(super) async fn run(directory: &Path, largest: u64) -> anyhow::Result<()> {
    let heads = [
        "votes",
        "polls",
        "copied /s",
        "imported from memory /s",
        "share",
        "exported and dropped /s",
    ];
    let mut table = Table::new(&heads);
    let most = largest.min(VOTES_MAX);
    for (votes, polls) in [(most, 1), (most, 1_000)] {
        let (mut copies, mut imports, mut exports) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let place = room(directory)?;
            let moving = Moving::new(place.path(), polls, votes).await?;
            let watch = Stopwatch::start();
            moving.copy(&mut CopyProgress::default()).await?;
            copies.push(votes as f64 / watch.elapsed().as_secs_f64());
            let watch = Stopwatch::start();
            let pages = exported(&moving).await?;
            exports.push(votes as f64 / watch.elapsed().as_secs_f64());
            let other = votes::shard(&place.path().join("other"))?;
            moving.prepare(&other).await?;
            let watch = Stopwatch::start();
            for page in &pages {
                other.import(&slice()?, &moving.order, page).await?;
            }
            imports.push(votes as f64 / watch.elapsed().as_secs_f64());
        }
        let [copied, imported, exported] = [copies, imports, exports].map(middle);
        table.row([
            thousands(votes),
            thousands(polls),
            thousands(copied as u64),
            thousands(imported as u64),
            ratio(copied, imported),
            thousands(exported as u64),
        ]);
    }
    table.print("Copying a slice, compared with importing the same pages from memory");
    Ok(())
}

/// All pages of a slice, in memory.
async fn exported(moving: &Moving) -> anyhow::Result<Vec<Vec<ExportedRow>>> {
    let (mut pages, mut cursor) = (Vec::new(), Cursor::Start);
    loop {
        let page = moving
            .sides
            .from
            .1
            .export(&slice()?, &cursor, PAGE_BYTES)
            .await?;
        pages.push(page.changes);
        cursor = page.next;
        if page.caught_up {
            return Ok(pages);
        }
    }
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
