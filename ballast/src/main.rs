//! `ballast`, the one binary: what the operator types.
//!
//! ```text
//!   main ──► Command ──► up: everything in one process
//!                   └──► ballast-cli: <noun> ──► client ──► the admin API
//! ```
//! This package is the only composition root: it runs what needs the whole
//! instance or its data directory. Commands against a running instance are in
//! the crate `ballast-cli`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod backup;
mod completions;
mod config;
mod demo;
mod doctor;
mod help;
#[cfg(test)]
mod help_tests;
mod machine;
mod up;

use std::process::ExitCode;

use ballast_cli::{CliError, CommandOutcome, Globals, OperatorCommand, ResetTokenArgs, Screen};
use clap::{CommandFactory, Parser, Subcommand};

/// Each request allocates dozens of small objects; the system allocator took a sixth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Says where every tenant is, and why.
///
/// Ballast keeps many tenants on a fleet of shards. `ballast up` runs it; the
/// other commands talk to the admin API of a running instance.
#[derive(Debug, Parser)]
#[command(name = "ballast", version)]
#[command(max_term_width = 100, after_help = help::TOP)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run Ballast: router, admin API and embedded shards in one process
    #[command(after_help = help::UP)]
    Up(up::UpArgs),
    /// Show a flash crowd, a migration under load and a kill -9, on a temporary fleet
    #[command(after_help = help::DEMO)]
    Demo(demo::DemoArgs),
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Make, verify and restore backups
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Restore a backup into an empty data directory
    #[command(after_help = help::RESTORE)]
    Restore(backup::RestoreArgs),
    #[command(after_help = help::DOCTOR)]
    Doctor(doctor::DoctorArgs),
    /// Check, show and describe the configuration file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Write a completion script for a shell
    Completions(completions::CompletionsArgs),
}

impl Command {
    async fn run(self, globals: &Globals, screen: &Screen) -> Result<CommandOutcome, CliError> {
        match self {
            Self::Up(args) => up::run(&args, screen).await.map_err(local),
            Self::Demo(args) => demo::run(&args, screen).await.map_err(local),
            Self::Backup(command) => command.run(screen).await.map_err(local),
            Self::Restore(args) => args.run(screen).await.map_err(local),
            Self::Doctor(args) => args.run(screen).await.map_err(local),
            Self::Config(command) => config::run(&command, screen).map_err(local),
            Self::Completions(args) => args.run(Cli::command(), screen),
            Self::Operator(command) => {
                let reset_token = async |args: ResetTokenArgs| {
                    up::reset_token(args.data_dir.as_deref(), args.file.as_deref(), screen)
                        .await
                        .map_err(local)
                };
                command.run(globals, screen, reset_token).await
            }
        }
    }
}

/// Local error; one line lists its causes.
fn local(error: anyhow::Error) -> CliError {
    CliError::local(format!("{error:#}"))
}

fn main() -> ExitCode {
    // The build has one provider; only a second call could fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ballast_cli::report_usage_error(error, Cli::command()),
    };
    let screen = Screen::detect(&cli.globals);
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::local(format!("the runtime did not start: {error}")))
        .and_then(|runtime| runtime.block_on(cli.command.run(&cli.globals, &screen)));
    match done {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => failure.print(&screen),
    }
}
