//! The operators' commands: the same nouns and verbs as the admin API.
//!
//! ```text
//!   <noun>.rs   what can be typed, and what is sent
//!   view/       renders a response for a person: pure, text out
//!   client.rs   HTTP to the admin API     output.rs   stdout and stderr
//! ```
//! Data goes to stdout, everything else to stderr. With `--json` the API's own
//! body is the data and its own problem document is the error.
//!
//! This crate runs no server. `ballast` parses the command line, flattens
//! [`OperatorCommand`] into its own commands, and passes in what needs the
//! data directory of a stopped instance.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod body;
mod client;
mod confirm;
mod drain;
mod event;
mod execution;
mod failure;
mod generate;
mod globals;
mod help;
mod help_hotspots;
mod help_migration;
mod hotspot;
mod key;
mod listen;
mod load;
mod migration;
mod now;
mod output;
mod paint;
mod placement;
mod plan;
mod poll;
mod preview;
mod request;
mod rules_file;
mod shard;
mod shard_files;
mod simulate;
mod slicing;
mod sse;
mod stream;
mod table;
mod tenant;
mod time;
mod token;
mod trust;
mod usage;
mod view;
mod workflow;

pub use failure::{CliError, CommandOutcome};
pub use globals::Globals;
pub use output::Screen;
pub use rules_file::read_rules;
pub use table::{Table, format_number};
pub use time::parse_duration;
pub use token::ResetTokenArgs;
pub use usage::report_usage_error;
pub use view::moving::phase_label;

use clap::{ArgMatches, Subcommand};
use client::Client;

// The variants' docs are the lines of `ballast --help`.
#[derive(Debug, Subcommand)]
enum Noun {
    /// Create, list, show, change, move, split, merge, suspend, resume and close tenants
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Create, list, change, rotate, revoke and identify API keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Add, list, show, change, drain and remove shards; inspect and verify their files
    #[command(subcommand)]
    Shard(shard::ShardCommand),
    /// Create, list, read, close and import polls of a tenant, with its API key
    #[command(subcommand)]
    Poll(poll::PollCommand),
    /// Show, explain, pin and preview where tenants are placed
    #[command(subcommand)]
    Placement(placement::PlacementCommand),
    /// List, watch, pause, cancel, reverse and certify migrations of tenants
    #[command(subcommand)]
    Migration(migration::MigrationCommand),
    /// Bring every shard under its limits; shows the plan, runs it with --yes
    #[command(after_help = help::REBALANCE)]
    Rebalance(drain::RebalanceArgs),
    /// List and show hotspots, explain why nothing is done, check and test rules
    #[command(subcommand)]
    Hotspot(hotspot::HotspotCommand),
    /// List, show, approve and reject plans against hotspots
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Predict the effect of a change from recorded load
    #[command(after_help = help::SIMULATE)]
    Simulate(simulate::SimulateArgs),
    /// Show the load of shards and tenants, now and in the past; export recorded load
    #[command(subcommand)]
    Load(load::LoadCommand),
    /// List changes: who, when, why
    #[command(subcommand)]
    Event(event::EventCommand),
    /// Create, list and revoke tokens of the admin API
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Check, draw, test, deploy and list workflow definitions (Amazon States Language)
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Start, list, watch, pause, resume, cancel and signal executions of workflows
    #[command(subcommand)]
    Execution(execution::ExecutionCommand),
}

/// One command as an operator typed it: a noun, a verb, and its arguments.
///
/// It hides the commands' own types. `ballast` adds it to its command line with
/// `#[command(flatten)]`, which is all that it does with them.
#[derive(Debug)]
pub struct OperatorCommand(Noun);

impl clap::FromArgMatches for OperatorCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Noun::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for OperatorCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Noun::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Noun::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Noun::has_subcommand(name)
    }
}

impl OperatorCommand {
    /// Runs the command. `token reset` opens the registry of a stopped
    /// instance, so the caller passes in how: `reset_token`.
    pub async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
        reset_token: impl AsyncFnOnce(ResetTokenArgs) -> Result<CommandOutcome, CliError>,
    ) -> Result<CommandOutcome, CliError> {
        // Commands that need no running instance read no token either.
        let remote = || Remote::new(globals, screen);
        match self.0 {
            Noun::Token(token::TokenCommand::Reset(args)) => reset_token(args).await,
            Noun::Token(token::TokenCommand::Api(command)) => command.run(&remote()?).await,
            Noun::Workflow(command) => command.run(globals, screen).await,
            Noun::Migration(command) => command.run(globals, screen).await,
            Noun::Execution(command) => command.run(&remote()?).await,
            Noun::Tenant(command) => command.run(&remote()?).await,
            Noun::Key(command) => command.run(&remote()?).await,
            Noun::Shard(shard::ShardCommand::Files(command)) => command.run(screen),
            Noun::Shard(shard::ShardCommand::Api(command)) => command.run(&remote()?).await,
            Noun::Poll(command) => command.run(globals, screen).await,
            Noun::Placement(command) => command.run(&remote()?).await,
            Noun::Rebalance(args) => args.run(&remote()?).await,
            Noun::Hotspot(command) => command.run(globals, screen).await,
            Noun::Plan(command) => command.run(&remote()?).await,
            Noun::Simulate(args) => args.run(globals, screen).await,
            Noun::Load(command) => command.run(globals, screen).await,
            Noun::Event(command) => command.run(&remote()?).await,
        }
    }
}

/// A running instance, and the screen to show its responses on.
struct Remote {
    client: Client,
    screen: Screen,
}

impl Remote {
    /// Finds the token and prepares to connect.
    fn new(globals: &Globals, screen: &Screen) -> Result<Self, CliError> {
        Ok(Self {
            client: Client::new(globals)?,
            screen: screen.clone(),
        })
    }
}

/// The command line as the tests of this crate parse it.
#[cfg(test)]
#[derive(Debug, clap::Parser)]
#[command(name = "ballast")]
struct TestCli {
    #[command(flatten)]
    #[allow(dead_code, reason = "its flags are part of every command line")]
    globals: Globals,
    #[command(subcommand)]
    command: Noun,
}
