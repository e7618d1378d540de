//! A slice goes to another shard while it is being voted on: how long nobody
//! can vote, and what the move costs those beside it.
//!
//! ```text
//!   pause        a running ballast: moves to and fro under 5,000 votes a second,
//!                by the size of the tenant
//!   neighbours   a running ballast: what a move does to others on both shards
//!   window       a running ballast: what a vote takes in a window, and where both
//!                sides acknowledge
//!   copy         two engines in this process: how fast a slice is copied,
//!                beside how fast the same pages are imported
//!   inside       two engines in this process: what the time within the pause
//!                goes to, by what is stored, by polls and by what changed
//! ```
//! `operator` asks for moves over the admin API, `voters` vote at a steady rate
//! and note when they were answered.

mod copy;
mod engines;
mod inside;
mod neighbours;
mod operator;
mod pause;
mod phases;
mod voters;
mod window;

use std::path::Path;

use crate::options::Options;

/// What is too large to be moved unless it is asked for.
const LARGE: u64 = 10_000_000;

/// A tenant of a size, and how often it is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) votes: u64,
    pub(crate) moves: usize,
}

/// Prints the tables.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let directory = options.keep.as_deref().unwrap_or(place.path());
    let wanted = |part: &str| options.part.as_deref().is_none_or(|only| only == part);
    if largest(&options.sizes) < LARGE {
        println!("\nA tenant with 10,000,000 votes is left out: --sizes 10000000:5");
    }
    if wanted("pause") {
        pause::run(directory, &options.sizes).await?;
    }
    if wanted("neighbours") {
        neighbours::run(directory).await?;
    }
    if wanted("window") {
        window::run(directory).await?;
    }
    if wanted("copy") {
        copy::run(directory, largest(&options.sizes)).await?;
    }
    if wanted("inside") {
        inside::run(directory, largest(&options.sizes)).await?;
    }
    Ok(())
}

/// What the parts within this process go up to: tenants of a size that was asked
/// for, and of a million at the least.
fn largest(sizes: &[Size]) -> u64 {
    let sizes = sizes.iter().map(|size| size.votes);
    sizes.max().unwrap_or(0).max(1_000_000)
}

/// A directory in another, removed when it is dropped.
fn room(directory: &Path) -> anyhow::Result<tempfile::TempDir> {
    std::fs::create_dir_all(directory)?;
    Ok(tempfile::tempdir_in(directory)?)
}
