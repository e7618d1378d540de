//! `ballast`, the one binary: what the operator types.
//!
//! ```text
//!   main ──► Command ──► up: everything in one process
//!                   └──► cli/<noun> ──► client ──► the admin API
//! ```
//! A further command is one variant of [`Command`] and one arm of
//! [`Command::run`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod backup;
mod cli;
mod config;
mod demo;
mod machine;
mod up;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use cli::failure::{Failure, Verdict};
use cli::globals::Globals;
use cli::output::Screen;

/// A request makes and drops dozens of small things; the system's allocator
/// took a sixth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Says where every tenant is, and why.
///
/// Ballast keeps many tenants on a fleet of shards. `ballast up` runs it; the
/// other commands talk to the admin API of a running instance.
#[derive(Debug, Parser)]
#[command(name = "ballast", version)]
#[command(max_term_width = 100, after_help = cli::help::TOP)]
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
    #[command(after_help = cli::help::UP)]
    Up(up::UpArgs),
    /// Show a flash crowd, a move under fire and a kill -9, on a fleet of its own
    #[command(after_help = cli::help::DEMO)]
    Demo(demo::DemoArgs),
    /// Create, list, show, change, move, split, merge, suspend, resume and close tenants
    #[command(subcommand)]
    Tenant(cli::tenant::Verb),
    /// Create, list, change, rotate, revoke and identify API keys
    #[command(subcommand)]
    Key(cli::key::Verb),
    /// Add, list, show, change, drain and remove shards; inspect and verify their files
    #[command(subcommand)]
    Shard(cli::shard::Verb),
    /// Create, list, read, close and import polls of a tenant, with its API key
    #[command(subcommand)]
    Poll(cli::poll::Verb),
    /// Show, explain, pin and preview where tenants are placed
    #[command(subcommand)]
    Placement(cli::placement::Verb),
    /// List, watch, pause, cancel, reverse and certify moves of tenants between shards
    #[command(subcommand)]
    Migration(cli::migration::Verb),
    /// Bring every shard under its limits; shows the plan, and does it with --yes
    #[command(after_help = cli::help::REBALANCE)]
    Rebalance(cli::drain::RebalanceArgs),
    /// List and show hotspots, say why nothing is done, check and test rules
    #[command(subcommand)]
    Hotspot(cli::hotspot::Verb),
    /// List, show, approve and reject plans against hotspots
    #[command(subcommand)]
    Plan(cli::plan::Verb),
    /// Say what would come of a change, on recorded load
    #[command(after_help = cli::help::SIMULATE)]
    Simulate(cli::simulate::SimulateArgs),
    /// Show what shards and tenants use, now and in the past; export recorded load
    #[command(subcommand)]
    Load(cli::load::Verb),
    /// List what was changed: who, when, why
    #[command(subcommand)]
    Event(cli::event::Verb),
    /// Create, list and revoke tokens of the admin API
    #[command(subcommand)]
    Token(cli::token::Verb),
    /// Check, draw, test, deploy and list workflow definitions (Amazon States Language)
    #[command(subcommand)]
    Workflow(cli::workflow::Verb),
    /// Start, list, watch, pause, resume, cancel and signal executions of workflows
    #[command(subcommand)]
    Execution(cli::execution::Verb),
    /// Make, verify and restore backups
    #[command(subcommand)]
    Backup(backup::Verb),
    /// Restore a backup into an empty data directory
    #[command(after_help = cli::help::RESTORE)]
    Restore(backup::RestoreArgs),
    /// Check, show and describe the configuration file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Write a completion script for a shell
    Completions(cli::completions::Args),
}

impl Command {
    async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        // The commands that need no running instance come first.
        let remote = || cli::Remote::new(globals, screen);
        match self {
            Self::Up(args) => up::run(&args, screen).await.map_err(local),
            Self::Demo(args) => demo::run(&args, screen).await.map_err(local),
            Self::Backup(verb) => verb.run(screen).await.map_err(local),
            Self::Restore(args) => args.run(screen).await.map_err(local),
            Self::Config(command) => config::run(&command, screen).map_err(local),
            Self::Token(cli::token::Verb::Reset { data_dir, file }) => {
                up::reset_token(data_dir.as_deref(), file.as_deref(), screen)
                    .await
                    .map_err(local)
            }
            Self::Workflow(verb) => verb.run(globals, screen).await,
            Self::Migration(verb) => verb.run(globals, screen).await,
            Self::Completions(args) => args.run(Cli::command(), screen),
            Self::Execution(verb) => verb.run(&remote()?).await,
            Self::Tenant(verb) => verb.run(&remote()?).await,
            Self::Key(verb) => verb.run(&remote()?).await,
            Self::Shard(cli::shard::Verb::Files(verb)) => verb.run(screen),
            Self::Shard(cli::shard::Verb::Running(verb)) => verb.run(&remote()?).await,
            Self::Poll(verb) => verb.run(globals, screen).await,
            Self::Placement(verb) => verb.run(&remote()?).await,
            Self::Rebalance(args) => args.run(&remote()?).await,
            Self::Hotspot(verb) => verb.run(globals, screen).await,
            Self::Plan(verb) => verb.run(&remote()?).await,
            Self::Simulate(args) => args.run(globals, screen).await,
            Self::Load(verb) => verb.run(globals, screen).await,
            Self::Event(verb) => verb.run(&remote()?).await,
            Self::Token(cli::token::Verb::Running(verb)) => verb.run(&remote()?).await,
        }
    }
}

/// Something failed on this machine; the causes are told in one line.
fn local(error: anyhow::Error) -> Failure {
    Failure::local(format!("{error:#}"))
}

fn main() -> ExitCode {
    // The only provider in the build; a second call would be the only way to fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage::told(error, Cli::command()),
    };
    let screen = Screen::detect(&cli.globals);
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::local(format!("the runtime did not start: {error}")))
        .and_then(|runtime| runtime.block_on(cli.command.run(&cli.globals, &screen)));
    match done {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => failure.tell(&screen),
    }
}
