//! `poll`: create, list, results, lanes, close, import. They speak to the
//! tenants' API with an API key, as the tenant's own programs do.

mod files;
mod import;

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::poll::lanes::Cause;
use clap::{Args, Subcommand};

use super::args::{Fields, Paging};
use super::client::{Client, Request};
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::help;
use super::output::Screen;
use super::time::When;
use super::view::{self, polls};

/// What can be done with a tenant's polls.
#[derive(Debug, Subcommand)]
#[command(after_help = help::POLL)]
pub(crate) enum PollCommand {
    /// Create a poll
    #[command(after_help = help::POLL_CREATE)]
    Create {
        /// What people call it
        title: String,
        #[command(flatten)]
        poll: NewPoll,
        #[command(flatten)]
        key: Key,
    },
    /// List polls, in the order in which they were created
    #[command(after_help = help::POLL_LIST)]
    List {
        #[command(flatten)]
        paging: Paging,
        #[command(flatten)]
        key: Key,
    },
    /// Show how a poll stands, most votes first
    #[command(after_help = help::POLL_RESULTS)]
    Results {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: Key,
    },
    /// Show how evenly a poll's votes lie on its lanes
    #[command(after_help = help::POLL_LANES)]
    Lanes {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: Key,
    },
    /// Close a poll now
    #[command(after_help = help::POLL_CLOSE)]
    Close {
        /// The poll
        poll: String,
        #[command(flatten)]
        key: Key,
    },
    /// Take over counters and votes from elsewhere
    #[command(after_help = help::POLL_IMPORT)]
    Import {
        #[command(flatten)]
        source: import::Source,
        #[command(flatten)]
        key: Key,
    },
}

/// Whose polls.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// Read the tenant's API key from this file; BALLAST_KEY when absent
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Key {
    fn client(&self, globals: &Globals) -> Result<Client, Failure> {
        let next = "set BALLAST_KEY, or name a file that holds the key with --key-file";
        let key = match (&self.key_file, std::env::var("BALLAST_KEY").ok()) {
            (Some(file), _) => std::fs::read_to_string(file).map_err(|error| {
                let shown = file.display();
                Failure::usage(
                    format!("the key file {shown} cannot be read: {error}"),
                    next,
                )
            })?,
            (None, Some(key)) => key,
            (None, None) => String::new(),
        };
        match key.trim() {
            "" => Err(Failure::usage(
                "there is no API key to show to the server",
                next,
            )),
            key => Client::with_key(globals, key),
        }
    }
}

/// What a poll is to be.
#[derive(Debug, Args)]
pub(crate) struct NewPoll {
    /// Something that can be voted for (repeatable)
    #[arg(long = "item", value_name = "NAME", required = true)]
    items: Vec<String>,
    #[command(flatten)]
    options: NewOptions,
}

/// How a poll is to take votes.
#[derive(Debug, Clone, Args)]
pub(crate) struct NewOptions {
    /// When it ceases to take votes: 2h, 30d or 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<When>,
    /// When it begins to take votes; at once when absent
    #[arg(long, value_name = "TIME")]
    opens: Option<When>,
    /// How many items one voter may choose
    #[arg(long, value_name = "N")]
    choices: Option<u16>,
    /// Votes may be changed or withdrawn until closing
    #[arg(long)]
    changeable: bool,
    /// Results are shown only when it has closed
    #[arg(long)]
    hidden: bool,
    /// How many lanes each item's counter is spread over; 10 when absent
    #[arg(long, value_name = "N")]
    lanes: Option<u16>,
    /// How many people are expected to vote: many are prepared for
    #[arg(long, value_name = "N")]
    expected_voters: Option<u64>,
}

impl NewOptions {
    /// The body that asks for a poll with these items.
    fn body(
        &self,
        title: &str,
        items: &[String],
        screen: &Screen,
    ) -> Result<serde_json::Value, Failure> {
        let Some(expires) = self.expires else {
            let next = "say when it ends with --expires, such as 2h or 30d";
            return Err(Failure::usage("a poll ends at some time", next));
        };
        let mut fields = Fields::default()
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
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        match self {
            Self::Create { title, poll, key } => {
                let client = key.client(globals)?;
                let body = poll.options.body(&title, &poll.items, screen)?;
                let reply = client.send(Request::post(&["polls"]).body(body)).await?;
                view::show(screen, &reply, polls::created)?;
            }
            Self::List { paging, key } => {
                let request = Request::get(&["polls"]);
                let reply = key
                    .client(globals)?
                    .list(request, &paging, PAGE_ITEMS_MAX)
                    .await?;
                let empty = "no polls yet; create one: ballast poll create TITLE --item …";
                view::list(screen, &reply, polls::table, empty)?;
            }
            Self::Results { poll, key } => {
                let request = Request::get(&["polls", &poll, "votes"]).fresh();
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::results)?;
            }
            Self::Lanes { poll, key } => {
                let request = Request::get(&["polls", &poll, "lanes"]);
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::lanes)?;
                let report: polls::Lanes = reply.read()?;
                let odd = |item: &polls::ItemLanes| item.spread.cause == Some(Cause::Unknown);
                if report.items.iter().any(odd) {
                    return Ok(Verdict::Negative);
                }
            }
            Self::Close { poll, key } => {
                let request = Request::post(&["polls", &poll, "close"]);
                let reply = key.client(globals)?.send(request).await?;
                view::show(screen, &reply, polls::closed)?;
            }
            Self::Import { source, key } => {
                return source.run(&key.client(globals)?, screen).await;
            }
        }
        Ok(Verdict::Done)
    }
}
