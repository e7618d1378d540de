//! `backup create`, `backup verify`, `backup restore` and `restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::manifest::Manifest;
use super::{create, restore, verify};
use crate::config;
use crate::help;
use ballast_cli::{Screen, Verdict};
use ballast_cli::{Table, number};

/// What can be done with backups.
#[derive(Debug, Subcommand)]
#[command(after_help = help::BACKUP)]
pub(crate) enum BackupCommand {
    /// Copy everything to a new directory, while votes arrive
    #[command(after_help = help::BACKUP_CREATE)]
    Create {
        /// A directory that is empty or does not exist
        destination: PathBuf,
        /// Where the instance stores its data [default: as configured]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Read all of a backup and compare it with its manifest
    #[command(after_help = help::BACKUP_VERIFY)]
    Verify {
        /// The backup
        backup: PathBuf,
    },
    /// Restore a backup into an empty data directory
    #[command(after_help = help::RESTORE)]
    Restore(RestoreArgs),
}

/// What to restore, and where to.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    backup: PathBuf,
    /// The data directory to be: empty, or not there yet [default: as configured]
    #[arg(value_name = "DATA_DIR")]
    target: Option<PathBuf>,
    /// The same, by name
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    data_dir: Option<PathBuf>,
}

impl BackupCommand {
    /// Does it.
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<Verdict> {
        match self {
            Self::Create {
                destination,
                data_dir,
            } => {
                let data_dir = data_dir_or_configured(data_dir)?;
                let manifest = create::create(&data_dir, &destination).await?;
                let told = format!("the backup in {} is whole", destination.display());
                show(screen, &manifest, &told)?;
                Ok(Verdict::Done)
            }
            Self::Verify { backup } => {
                let manifest = Manifest::read(&backup)?;
                let problems = verify::verify(&backup, &manifest).await;
                if screen.json {
                    let body = serde_json::json!({ "manifest": manifest, "problems": problems });
                    tell(screen, &serde_json::to_string_pretty(&body)?)?;
                } else if problems.is_empty() {
                    let told = "everything was read: it is what the manifest says";
                    show(screen, &manifest, told)?;
                } else {
                    tell(screen, &problems.join("\n"))?;
                }
                Ok(match problems.is_empty() {
                    true => Verdict::Done,
                    false => Verdict::Negative,
                })
            }
            Self::Restore(args) => args.run(screen).await,
        }
    }
}

impl RestoreArgs {
    /// Does it.
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<Verdict> {
        let data_dir = data_dir_or_configured(self.target.or(self.data_dir))?;
        let manifest = restore::restore(&self.backup, &data_dir).await?;
        let told = format!(
            "restored to {}; every epoch was raised. Start it: ballast up --data-dir {}",
            data_dir.display(),
            data_dir.display()
        );
        show(screen, &manifest, &told)?;
        Ok(Verdict::Done)
    }
}

fn data_dir_or_configured(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    Ok(match given {
        Some(given) => given,
        None => config::load(None)?.server.data_dir,
    })
}

fn show(screen: &Screen, manifest: &Manifest, told: &str) -> anyhow::Result<()> {
    if screen.json {
        return tell(screen, &serde_json::to_string_pretty(manifest)?);
    }
    let columns = ["shard", "#group", "#polls", "#voters", "#votes", "as of"];
    let mut table = Table::new(screen, &columns);
    for shard in &manifest.shards {
        table.row([
            shard.shard_id.to_string(),
            number(shard.position),
            number(shard.polls),
            number(shard.voters),
            number(shard.votes),
            shard
                .as_of
                .map_or_else(|| "-".to_owned(), |at| at.to_string()),
        ]);
    }
    let registry = &manifest.registry;
    let text = format!(
        "{}\n\nregistry: {} tenants as of revision {}; made at {}\n{told}",
        table.text(),
        number(registry.tenants),
        number(registry.revision),
        manifest.created_at
    );
    tell(screen, &text)
}

fn tell(screen: &Screen, text: &str) -> anyhow::Result<()> {
    let told = screen.data(text.as_bytes());
    told.map_err(|_| anyhow::anyhow!("stdout is closed"))
}
