//! `event`: the audit log: what changed, by whom, when and why.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Subcommand, ValueEnum};

use super::args::PagingArgs;
use super::body::EventBody;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::time::TimeArg;
use super::view::{self, events};
use super::{Remote, help};

/// Commands on events.
#[derive(Debug, Subcommand)]
#[command(after_help = help::EVENT)]
pub(crate) enum EventCommand {
    /// List changes, newest first
    #[command(after_help = help::EVENT_LIST)]
    List {
        /// Only events of this kind of record
        #[arg(long)]
        kind: Option<EventKind>,
        /// Only events of the record with this ID; requires --kind
        #[arg(long, requires = "kind")]
        id: Option<String>,
        /// Only at or after this moment: 2h, 2026-11-16 or a full time
        #[arg(long, value_name = "TIME")]
        since: Option<TimeArg>,
        /// Only at or before this moment
        #[arg(long, value_name = "TIME")]
        until: Option<TimeArg>,
        #[command(flatten)]
        paging: PagingArgs,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum EventKind {
    Tenant,
    Shard,
    Key,
    Token,
    Fleet,
    Workflow,
    Execution,
    Migration,
    Hotspot,
    Plan,
    Settings,
    Share,
}

impl EventCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let Self::List {
            kind,
            id,
            since,
            until,
            paging,
        } = self;
        let screen = &remote.screen;
        let kind = kind
            .and_then(|kind| kind.to_possible_value())
            .map(|value| value.get_name().to_owned());
        let request = Request::get(&["events"])
            .query("kind", kind)
            .query("id", id)
            .query("since", since.map(|when| when.past(screen.now)))
            .query("until", until.map(|when| when.past(screen.now)));
        let reply = remote.client.list(request, &paging, PAGE_ITEMS_MAX).await?;
        let empty = "no events match; without filters: ballast event list";
        view::list::<EventBody>(screen, &reply, events::event_table, empty)?;
        Ok(CommandOutcome::Done)
    }
}
