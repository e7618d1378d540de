//! `plan`: plans against hotspots, and their approval.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::Subcommand;

use super::args::PagingArgs;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::view::{self, hotspots};
use super::{Remote, help};

/// Commands on plans.
#[derive(Debug, Subcommand)]
#[command(after_help = help::PLAN)]
pub(crate) enum PlanCommand {
    /// List plans, the newest first
    #[command(after_help = help::PLAN_LIST)]
    List {
        /// Only open plans
        #[arg(long)]
        open: bool,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show a plan: its moves, reasons, cost, predicted and measured effect
    #[command(after_help = help::PLAN_SHOW)]
    Show {
        /// The plan
        id: String,
    },
    /// Approve a plan, which starts it
    #[command(after_help = help::PLAN_APPROVE)]
    Approve {
        /// The plan
        id: String,
        /// Reason, recorded with the plan
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Reject a plan
    #[command(after_help = help::PLAN_REJECT)]
    Reject {
        /// The plan
        id: String,
        /// Reason, recorded with the plan
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl PlanCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (client, screen) = (&remote.client, &remote.screen);
        match self {
            Self::List { open, paging } => {
                let request = Request::get(&["plans"]).query("open", open.then_some(true));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no plans; ballast rebalance shows what one would do now";
                view::list(screen, &reply, hotspots::plan_table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["plans", &id])).await?;
                view::show(screen, &reply, hotspots::describe_plan)?;
            }
            Self::Approve { id, reason } => {
                let request = Request::post(&["plans", &id, "approve"]).query("reason", reason);
                let reply = client.send(request).await?;
                view::show(screen, &reply, hotspots::describe_decision)?;
                let next = format!("see how far it is: ballast plan show {id}");
                screen.hint(&screen.dim(&next));
            }
            Self::Reject { id, reason } => {
                let request = Request::post(&["plans", &id, "reject"]).query("reason", reason);
                let reply = client.send(request).await?;
                view::show(screen, &reply, hotspots::describe_decision)?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}
