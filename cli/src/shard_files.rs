//! `shard inspect` and `shard verify`: the files of a shard, read only, for an
//! operator with a broken disk. They need no running instance.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_vote_shard::embedded::disk::{Disk, RealDisk};
use ballast_vote_shard::embedded::inspect::{Inspection, inspect};
use clap::{Args, Subcommand};

use super::failure::{Failure, Verdict};
use super::help;
use super::output::Screen;
use super::view::shard_files;

/// What can be done with a shard's files.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardFileCommand {
    /// List a shard's files and what they hold
    #[command(after_help = help::SHARD_INSPECT)]
    Inspect(Place),
    /// Check every file of a shard, and its counts against its rows
    #[command(after_help = help::SHARD_VERIFY)]
    Verify(Place),
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// A directory, or the ID of a shard under the data directory
    shard: PathBuf,
    /// Where the instance stores its data
    #[arg(long, value_name = "DIR", default_value = "ballast-data")]
    data_dir: PathBuf,
}

impl Place {
    fn directory(&self) -> PathBuf {
        if self.shard.is_dir() {
            return self.shard.clone();
        }
        self.data_dir.join("shards").join(&self.shard)
    }
}

impl ShardFileCommand {
    /// Does it.
    pub(crate) fn run(self, screen: &Screen) -> Result<Verdict, Failure> {
        let (place, deep) = match &self {
            Self::Inspect(place) => (place, false),
            Self::Verify(place) => (place, true),
        };
        let directory = place.directory();
        let seen = look(&directory, deep)?;
        if screen.json {
            let json = serde_json::to_vec_pretty(&seen);
            let json = json.map_err(|error| Failure::local(error.to_string()))?;
            screen.data(&json)?;
        } else {
            let text = shard_files::text(screen, &directory, &seen, deep);
            screen.data(text.as_bytes())?;
        }
        Ok(if seen.problems.is_empty() {
            Verdict::Done
        } else {
            Verdict::Negative
        })
    }
}

fn look(directory: &Path, deep: bool) -> Result<Inspection, Failure> {
    let cannot = |error: std::io::Error| {
        let shown = directory.display();
        Failure::local(format!("{shown} cannot be read: {error}"))
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::read_only(directory).map_err(cannot)?);
    let mut seen = inspect(&disk, deep).map_err(cannot)?;
    // A shard has a log from its first moment on.
    if seen.segments.is_empty() && seen.checkpoints.is_empty() {
        let none = "there are no files of a shard here: they are gone, or it is another directory";
        seen.problems.push(none.to_owned());
    }
    Ok(seen)
}
