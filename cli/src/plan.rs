//! `plan`: what is to be done about hotspots, and somebody's word on it.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::Subcommand;

use super::args::Paging;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::view::{self, hotspots};
use super::{Remote, help};

/// What can be done with plans.
#[derive(Debug, Subcommand)]
#[command(after_help = help::PLAN)]
pub(crate) enum PlanCommand {
    /// List plans, the newest first
    #[command(after_help = help::PLAN_LIST)]
    List {
        /// Only those that are not over
        #[arg(long)]
        open: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a plan: what is moved why, at what price, to what effect, and what came of it
    #[command(after_help = help::PLAN_SHOW)]
    Show {
        /// The plan
        id: String,
    },
    /// Approve a plan: it is carried out
    #[command(after_help = help::PLAN_APPROVE)]
    Approve {
        /// The plan
        id: String,
        /// Why: kept with it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Reject a plan: it is not carried out
    #[command(after_help = help::PLAN_REJECT)]
    Reject {
        /// The plan
        id: String,
        /// Why: kept with it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl PlanCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (client, screen) = (&remote.client, &remote.screen);
        match self {
            Self::List { open, paging } => {
                let request = Request::get(&["plans"]).query("open", open.then_some(true));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no plans; ballast rebalance shows what one would do now";
                view::list(screen, &reply, hotspots::plans, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["plans", &id])).await?;
                view::show(screen, &reply, hotspots::plan)?;
            }
            Self::Approve { id, reason } => {
                let request = Request::post(&["plans", &id, "approve"]).query("reason", reason);
                let reply = client.send(request).await?;
                view::show(screen, &reply, hotspots::decided)?;
                let next = format!("see how far it is: ballast plan show {id}");
                screen.hint(&screen.dim(&next));
            }
            Self::Reject { id, reason } => {
                let request = Request::post(&["plans", &id, "reject"]).query("reason", reason);
                let reply = client.send(request).await?;
                view::show(screen, &reply, hotspots::decided)?;
            }
        }
        Ok(Verdict::Done)
    }
}
