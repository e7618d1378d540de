//! `poll`: create, list, results, lanes, close, import. They call the tenants' API with an API key,
//! as the tenant's programs do.

mod files;
mod import;

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::poll::lanes::ImbalanceCause;
use clap::{Args, Subcommand};

use super::args::{JsonFields, PagingArgs};
use super::client::{Client, Request};
use super::failure::{CliError, CommandOutcome};
use super::globals::Globals;
use super::help;
use super::output::Screen;
use super::time::TimeArg;
use super::view::{self, polls};

/// Commands on a tenant's polls.
#[derive(Debug, Subcommand)]
#[command(after_help = help::POLL)]
pub(crate) enum PollCommand {
    /// Create a poll
    #[command(after_help = help::POLL_CREATE)]
    Create {
        /// Title of the poll
        title: String,
        #[command(flatten)]
        poll: NewPollArgs,
        #[command(flatten)]
        key: KeyFileArgs,
    },
    /// List polls, in the order in which they were created
    #[command(after_help = help::POLL_LIST)]
    List {
        #[command(flatten)]
        paging: PagingArgs,
        #[command(flatten)]
        key: KeyFileArgs,
    },
    /// Show the results of a poll, most votes first
    #[command(after_help = help::POLL_RESULTS)]
    Results {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: KeyFileArgs,
    },
    /// Show how evenly a poll's votes are spread over its lanes
    #[command(after_help = help::POLL_LANES)]
    Lanes {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: KeyFileArgs,
    },
    /// Close a poll now
    #[command(after_help = help::POLL_CLOSE)]
    Close {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: KeyFileArgs,
    },
    /// Import counters and votes from another system
    #[command(after_help = help::POLL_IMPORT)]
    Import {
        #[command(flatten)]
        source: import::ImportArgs,
        #[command(flatten)]
        key: KeyFileArgs,
    },
}

/// The tenant's API key.
#[derive(Debug, Args)]
pub(crate) struct KeyFileArgs {
    /// Read the tenant's API key from this file; BALLAST_KEY when absent
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyFileArgs {
    fn client(&self, globals: &Globals) -> Result<Client, CliError> {
        let next = "set BALLAST_KEY, or pass a file with --key-file";
        let key = match (&self.key_file, std::env::var("BALLAST_KEY").ok()) {
            (Some(file), _) => std::fs::read_to_string(file).map_err(|error| {
                let shown = file.display();
                CliError::usage(
                    format!("the key file {shown} cannot be read: {error}"),
                    next,
                )
            })?,
            (None, Some(key)) => key,
            (None, None) => String::new(),
        };
        match key.trim() {
            "" => Err(CliError::usage("no API key was found", next)),
            key => Client::with_key(globals, key),
        }
    }
}

/// A new poll.
#[derive(Debug, Args)]
pub(crate) struct NewPollArgs {
    /// An item to vote for (repeatable)
    #[arg(long = "item", value_name = "NAME", required = true)]
    items: Vec<String>,
    #[command(flatten)]
    options: PollOptionArgs,
}

/// Options of a new poll.
#[derive(Debug, Clone, Args)]
pub(crate) struct PollOptionArgs {
    /// When voting ends: 2h, 30d or 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<TimeArg>,
    /// When voting starts [default: now]
    #[arg(long, value_name = "TIME")]
    opens: Option<TimeArg>,
    /// Number of items a voter may choose
    #[arg(long, value_name = "N")]
    choices: Option<u16>,
    /// Votes may be changed or withdrawn until closing
    #[arg(long)]
    changeable: bool,
    /// Hide the results until the poll closes
    #[arg(long)]
    hidden: bool,
    /// Number of lanes of each item's counter [default: 10]
    #[arg(long, value_name = "N")]
    lanes: Option<u16>,
    /// Expected number of voters; Ballast prepares for large polls
    #[arg(long, value_name = "N")]
    expected_voters: Option<u64>,
}

impl PollOptionArgs {
    /// The request body for a poll with these items.
    fn body(
        &self,
        title: &str,
        items: &[String],
        screen: &Screen,
    ) -> Result<serde_json::Value, CliError> {
        let Some(expires) = self.expires else {
            let next = "add --expires, such as 2h or 30d";
            return Err(CliError::usage("a poll needs an end", next));
        };
        let mut fields = JsonFields::default()
            .with("title", Some(title))
            .with("items", Some(items))
            .with("expirationTime", Some(expires.future(screen.now)))
            .with(
                "openingTime",
                self.opens.map(|opens| opens.future(screen.now)),
            )
            .with("choicesMax", self.choices)
            .with("lanes", self.lanes)
            .with("expectedVoters", self.expected_voters);
        if self.changeable {
            fields = fields.with("voteChangeable", Some(true));
        }
        if self.hidden {
            fields = fields.with("resultsHiddenUntilClosed", Some(true));
        }
        Ok(fields.value())
    }
}

impl PollCommand {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        match self {
            Self::Create { title, poll, key } => {
                let client = key.client(globals)?;
                let body = poll.options.body(&title, &poll.items, screen)?;
                let reply = client.send(Request::post(&["polls"]).body(body)).await?;
                view::show(screen, &reply, polls::created_id)?;
            }
            Self::List { paging, key } => {
                let request = Request::get(&["polls"]);
                let reply = key
                    .client(globals)?
                    .list(request, &paging, PAGE_ITEMS_MAX)
                    .await?;
                let empty = "no polls yet; create one: ballast poll create TITLE --item …";
                view::list(screen, &reply, polls::poll_table, empty)?;
            }
            Self::Results { poll, key } => {
                let request = Request::get(&["polls", &poll, "votes"]).bypass_cache();
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::results_table)?;
            }
            Self::Lanes { poll, key } => {
                let request = Request::get(&["polls", &poll, "lanes"]);
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::lanes_table)?;
                let report: polls::LanesBody = reply.read()?;
                let odd =
                    |item: &polls::ItemLanes| item.spread.cause == Some(ImbalanceCause::Unknown);
                if report.items.iter().any(odd) {
                    return Ok(CommandOutcome::Negative);
                }
            }
            Self::Close { poll, key } => {
                let request = Request::post(&["polls", &poll, "close"]);
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::describe_closed)?;
            }
            Self::Import { source, key } => {
                return source.run(&key.client(globals)?, screen).await;
            }
        }
        Ok(CommandOutcome::Done)
    }
}
