//! A slice moves to another shard during votes: how long is the write pause, and what
//! does the migration cost its neighbours.
//!
//! ```text
//!   pause        a running ballast: migrations back and forth at 5,000 votes a second,
//!                by the size of the tenant
//!   neighbours   a running ballast: what a migration costs other tenants on both shards
//!   window       a running ballast: vote latency in a window, asynchronous and synchronous
//!   copy         two engines in this process: how fast a slice is copied,
//!                compared with importing the same pages
//!   inside       two engines in this process: where the time of the write
//!                pause goes, by stored rows, by polls and by changes
//! ```
//! `operator` starts migrations over the admin API; `voters` vote at a steady rate and
//! record when they were answered.

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

/// Tenants above this size are only moved on request.
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

/// The largest tenant for the benchmarks in this process: the requested sizes, and at
/// least a million.
fn largest(sizes: &[Size]) -> u64 {
    let sizes = sizes.iter().map(|size| size.votes);
    sizes.max().unwrap_or(0).max(1_000_000)
}

/// A subdirectory that is removed when it is dropped.
fn room(directory: &Path) -> anyhow::Result<tempfile::TempDir> {
    std::fs::create_dir_all(directory)?;
    Ok(tempfile::tempdir_in(directory)?)
}
