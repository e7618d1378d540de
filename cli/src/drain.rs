//! `shard drain` and `rebalance`: many migrations at once. Without `--yes` they only show the plan.

use clap::Args;
use serde_json::Value;

use super::Remote;
use super::args::JsonFields;
use super::client::{Reply, Request};
use super::failure::{CliError, CommandOutcome};
use super::migration::window::Window;
use super::view::{self, drains};

/// How the migrations run.
#[derive(Debug, Args)]
pub(crate) struct BulkMoveArgs {
    /// Run the plan; without this flag it is only shown
    #[arg(long)]
    yes: bool,
    /// Maximum number of concurrent migrations [default: moves.per_shard_max]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    concurrency: Option<u64>,
    /// How long both shards keep the data after each cutover, such as 10min; with `sync` or
    /// `sync:10min` a vote counts only once both have it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    window: Option<Window>,
    /// Begin outside of the maintenance windows, too; needs --reason
    #[arg(long)]
    now: bool,
    /// Reason, recorded with every migration
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl BulkMoveArgs {
    /// The request for the plan on these terms.
    fn preview(&self, path: &[&str]) -> Request {
        Request::get(path)
            .query("concurrency", self.concurrency)
            .query("windowMs", self.window.and_then(Window::milliseconds))
            .query("now", self.now.then_some(true))
    }

    fn request(self, path: &[&str]) -> Request {
        let fields = JsonFields::default()
            .with("concurrency", self.concurrency)
            .with("windowMs", self.window.and_then(Window::milliseconds))
            .with("sync", self.window.and_then(Window::sync))
            .with("now", self.now.then_some(true));
        Request::post(path)
            .body(fields.value())
            .query("reason", self.reason)
    }
}

/// `shard drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The shard
    id: String,
    #[command(flatten)]
    options: BulkMoveArgs,
    /// Cancel the drain: the shard accepts tenants again; running migrations finish
    #[arg(long, conflicts_with_all = ["yes", "concurrency", "window", "now"])]
    cancel: bool,
}

impl DrainArgs {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (client, screen) = (&remote.client, &remote.screen);
        let id = self.id;
        if self.cancel {
            let before: drains::DrainBody = fetch_drain(remote, &id).await?.read()?;
            let request = Request::post(&["shards", &id, "drain", "cancel"]);
            let request = request.query("reason", self.options.reason);
            let reply = client.send(request).await?;
            match before.is_running() {
                true => view::show(screen, &reply, drains::describe_cancelled)?,
                false => view::show(screen, &reply, drains::describe_nothing_to_cancel)?,
            }
            return Ok(CommandOutcome::Done);
        }
        if !self.options.yes {
            let reply = client
                .send(self.options.preview(&["shards", &id, "drain"]))
                .await?;
            view::show(screen, &reply, drains::describe_drain_plan)?;
            screen.hint("dry run: nothing was changed; add --yes to run it");
            return Ok(CommandOutcome::Done);
        }
        let request = self.options.request(&["shards", &id, "drain"]);
        let reply = client.send(request).await?;
        view::show(screen, &reply, drains::describe_draining)?;
        let next = format!(
            "progress: ballast migration list --from {id} --open\ncancel:   ballast shard drain {id} --cancel"
        );
        screen.hint(&screen.dim(&next));
        Ok(CommandOutcome::Done)
    }
}

/// Fetches the drain of a shard.
pub(crate) async fn fetch_drain(remote: &Remote, id: &str) -> Result<Reply, CliError> {
    remote
        .client
        .send(Request::get(&["shards", id, "drain"]))
        .await
}

/// `rebalance`.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    options: BulkMoveArgs,
    /// Only show the plan, as without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl RebalanceArgs {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (client, screen) = (&remote.client, &remote.screen);
        if self.dry_run || !self.options.yes {
            let reply = client.send(self.options.preview(&["rebalance"])).await?;
            view::show(screen, &reply, drains::describe_rebalance_plan)?;
            screen.hint("dry run: nothing was changed; add --yes to run it");
            return Ok(CommandOutcome::Done);
        }
        let reply = client.send(self.options.request(&["rebalance"])).await?;
        view::show(screen, &reply, drains::describe_rebalancing)?;
        let execution = reply.read::<Value>()?["executionID"]
            .as_str()
            .map(str::to_owned);
        if let Some(execution) = execution {
            let next = format!(
                "watch it:   ballast execution watch {execution}\nmigrations: ballast migration list --open"
            );
            screen.hint(&screen.dim(&next));
        }
        Ok(CommandOutcome::Done)
    }
}
