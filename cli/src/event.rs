//! `event`: what was changed, by whom, when and why.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Subcommand, ValueEnum};

use super::args::Paging;
use super::body::Event;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::time::When;
use super::view::{self, events};
use super::{Remote, help};

/// What can be asked about events.
#[derive(Debug, Subcommand)]
#[command(after_help = help::EVENT)]
pub(crate) enum EventCommand {
    /// List what was changed, newest first
    #[command(after_help = help::EVENT_LIST)]
    List {
        /// Only events of this kind of thing
        #[arg(long)]
        kind: Option<Kind>,
        /// Only events of this one; goes with --kind
        #[arg(long, requires = "kind")]
        id: Option<String>,
        /// Only at or after this moment: 2h, 2026-11-16 or a full time
        #[arg(long, value_name = "TIME")]
        since: Option<When>,
        /// Only at or before this moment
        #[arg(long, value_name = "TIME")]
        until: Option<When>,
        #[command(flatten)]
        paging: Paging,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
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
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
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
        view::list::<Event>(screen, &reply, events::table, empty)?;
        Ok(Verdict::Done)
    }
}
