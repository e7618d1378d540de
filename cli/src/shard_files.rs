//! `shard inspect` and `shard verify`: read-only checks of a shard's files, for an operator with a
//! broken disk. They need no running instance.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_vote_shard::embedded::disk::{Disk, RealDisk};
use ballast_vote_shard::embedded::inspect::{Inspection, inspect};
use clap::{Args, Subcommand};

use super::failure::{CliError, CommandOutcome};
use super::help;
use super::output::Screen;
use super::view::shard_files;

/// Commands on a shard's files.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardFileCommand {
    /// List a shard's files and what they hold
    #[command(after_help = help::SHARD_INSPECT)]
    Inspect(ShardFilesArgs),
    /// Check every file of a shard, and its counts against its rows
    #[command(after_help = help::SHARD_VERIFY)]
    Verify(ShardFilesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ShardFilesArgs {
    /// A directory, or the ID of a shard under the data directory
    shard: PathBuf,
    /// Data directory of the instance
    #[arg(long, value_name = "DIR", default_value = "ballast-data")]
    data_dir: PathBuf,
}

impl ShardFilesArgs {
    fn directory(&self) -> PathBuf {
        if self.shard.is_dir() {
            return self.shard.clone();
        }
        self.data_dir.join("shards").join(&self.shard)
    }
}

impl ShardFileCommand {
    /// Runs the command.
    pub(crate) fn run(self, screen: &Screen) -> Result<CommandOutcome, CliError> {
        let (place, deep) = match &self {
            Self::Inspect(place) => (place, false),
            Self::Verify(place) => (place, true),
        };
        let directory = place.directory();
        let seen = inspect_files(&directory, deep)?;
        if screen.json {
            let json = serde_json::to_vec_pretty(&seen);
            let json = json.map_err(|error| CliError::local(error.to_string()))?;
            screen.data(&json)?;
        } else {
            let text = shard_files::shard_files_text(screen, &directory, &seen, deep);
            screen.data(text.as_bytes())?;
        }
        Ok(if seen.problems.is_empty() {
            CommandOutcome::Done
        } else {
            CommandOutcome::Negative
        })
    }
}

fn inspect_files(directory: &Path, deep: bool) -> Result<Inspection, CliError> {
    let cannot = |error: std::io::Error| {
        let shown = directory.display();
        CliError::local(format!("{shown} cannot be read: {error}"))
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::read_only(directory).map_err(cannot)?);
    let mut seen = inspect(&disk, deep).map_err(cannot)?;
    // A shard always has a log.
    if seen.segments.is_empty() && seen.checkpoints.is_empty() {
        let none = "no shard files here: they are missing, or this is another directory";
        seen.problems.push(none.to_owned());
    }
    Ok(seen)
}
