//! `backup create`, `backup verify`, `backup restore` and `restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::manifest::Manifest;
use super::{create, restore, verify};
use crate::config;
use crate::help;
use ballast_cli::{CommandOutcome, Screen};
use ballast_cli::{Table, format_number};

/// Commands on backups.
#[derive(Debug, Subcommand)]
#[command(after_help = help::BACKUP)]
pub(crate) enum BackupCommand {
    /// Back up to a new directory, while votes arrive
    #[command(after_help = help::BACKUP_CREATE)]
    Create {
        /// A directory that is empty or does not exist
        destination: PathBuf,
        /// Data directory of the instance [default: as configured]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Read a backup and compare it with its manifest
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
    /// The new data directory: empty or missing [default: as configured]
    #[arg(value_name = "DATA_DIR")]
    target: Option<PathBuf>,
    /// The same, as a flag
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    data_dir: Option<PathBuf>,
}

impl BackupCommand {
    /// Runs the command.
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<CommandOutcome> {
        match self {
            Self::Create {
                destination,
                data_dir,
            } => {
                let data_dir = data_dir_or_configured(data_dir)?;
                let manifest = create::create(&data_dir, &destination).await?;
                let message = format!("the backup in {} is complete", destination.display());
                print_manifest(screen, &manifest, &message)?;
                Ok(CommandOutcome::Done)
            }
            Self::Verify { backup } => {
                let manifest = Manifest::read(&backup)?;
                let problems = verify::verify(&backup, &manifest).await;
                if screen.json {
                    let body = serde_json::json!({ "manifest": manifest, "problems": problems });
                    print_text(screen, &serde_json::to_string_pretty(&body)?)?;
                } else if problems.is_empty() {
                    let message = "verified: all files match the manifest";
                    print_manifest(screen, &manifest, message)?;
                } else {
                    print_text(screen, &problems.join("\n"))?;
                }
                Ok(match problems.is_empty() {
                    true => CommandOutcome::Done,
                    false => CommandOutcome::Negative,
                })
            }
            Self::Restore(args) => args.run(screen).await,
        }
    }
}

impl RestoreArgs {
    /// Runs the command.
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<CommandOutcome> {
        let data_dir = data_dir_or_configured(self.target.or(self.data_dir))?;
        let manifest = restore::restore(&self.backup, &data_dir).await?;
        let message = format!(
            "restored to {}; every epoch was raised. Start it with: ballast up --data-dir {}",
            data_dir.display(),
            data_dir.display()
        );
        print_manifest(screen, &manifest, &message)?;
        Ok(CommandOutcome::Done)
    }
}

fn data_dir_or_configured(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    Ok(match given {
        Some(given) => given,
        None => config::load(None)?.server.data_dir,
    })
}

fn print_manifest(screen: &Screen, manifest: &Manifest, message: &str) -> anyhow::Result<()> {
    if screen.json {
        return print_text(screen, &serde_json::to_string_pretty(manifest)?);
    }
    let columns = ["shard", "#group", "#polls", "#voters", "#votes", "as of"];
    let mut table = Table::new(screen, &columns);
    for shard in &manifest.shards {
        table.add_row([
            shard.shard_id.to_string(),
            format_number(shard.position),
            format_number(shard.polls),
            format_number(shard.voters),
            format_number(shard.votes),
            shard
                .as_of
                .map_or_else(|| "-".to_owned(), |at| at.to_string()),
        ]);
    }
    let registry = &manifest.registry;
    let noun = match registry.tenants {
        1 => "tenant",
        _ => "tenants",
    };
    let text = format!(
        "{}\n\nregistry: {} {noun} as of revision {}; made at {}\n{message}",
        table.render(),
        format_number(registry.tenants),
        format_number(registry.revision),
        manifest.created_at
    );
    print_text(screen, &text)
}

fn print_text(screen: &Screen, text: &str) -> anyhow::Result<()> {
    let written = screen.data(text.as_bytes());
    written.map_err(|_| anyhow::anyhow!("stdout is closed"))
}
