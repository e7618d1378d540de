//! Durable workflows: steps per second and time per step, compared with one sync of the
//! same disk; long histories compared with short ones; many waiting executions.
//!
//! A step is the answer of a task, the following Choice, and the scheduling of the next
//! task. The tasks answer at once: this measures the engine, its journal and the disk.

mod disk;
mod history;
mod steps;
mod waiting;
mod world;

use anyhow::Context;

use crate::options::Options;

pub(crate) use waiting::reopen;

/// Prints the tables.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("make a directory")?;
    let directory = options.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(directory).context("make a directory")?;
    let wanted = |part: &str| options.part.as_deref().is_none_or(|only| only == part);
    if wanted("steps") {
        steps::run(directory).await?;
    }
    if wanted("history") {
        history::run(directory).await?;
    }
    if wanted("waiting") {
        waiting::run(directory).await?;
    }
    Ok(())
}
