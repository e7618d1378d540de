//! `shard drain` and `rebalance`: many moves at once. Without `--yes` they only
//! show what they would do.

use clap::Args;
use serde_json::Value;

use super::Remote;
use super::args::Fields;
use super::client::{Reply, Request};
use super::failure::{Failure, Verdict};
use super::migration::window::Window;
use super::view::{self, drains};

/// How many moves are made.
#[derive(Debug, Args)]
pub(crate) struct Manner {
    /// Do it; without this only what would be done is shown
    #[arg(long)]
    yes: bool,
    /// How many moves at the same time; moves.per_shard_max when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    concurrency: Option<u64>,
    /// How long both sides are kept after each cutover, such as 10min; with `sync` or
    /// `sync:10min` a vote counts only when both have it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    window: Option<Window>,
    /// Why: kept with every move
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Manner {
    fn request(self, path: &[&str]) -> Request {
        let fields = Fields::default()
            .with("concurrency", self.concurrency)
            .with("windowMs", self.window.and_then(Window::ms))
            .with("sync", self.window.and_then(Window::sync));
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
    manner: Manner,
    /// Call it off: the shard takes slices again; moves under way go on to their end
    #[arg(long, conflicts_with_all = ["yes", "concurrency", "window"])]
    cancel: bool,
}

impl DrainArgs {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (client, screen) = (&remote.client, &remote.screen);
        let id = self.id;
        if self.cancel {
            let before: drains::Drain = drain_of(remote, &id).await?.read()?;
            let request = Request::post(&["shards", &id, "drain", "cancel"]);
            let request = request.query("reason", self.manner.reason);
            let reply = client.send(request).await?;
            match before.is_on() {
                true => view::show(screen, &reply, drains::cancelled)?,
                false => view::show(screen, &reply, drains::nothing_to_cancel)?,
            }
            return Ok(Verdict::Done);
        }
        if !self.manner.yes {
            let reply = drain_of(remote, &id).await?;
            view::show(screen, &reply, drains::drain_plan)?;
            screen.hint("nothing was done; with --yes it is");
            return Ok(Verdict::Done);
        }
        let request = self.manner.request(&["shards", &id, "drain"]);
        let reply = client.send(request).await?;
        view::show(screen, &reply, drains::draining)?;
        let next = format!(
            "see how far it is: ballast shard show {id}, ballast migration list --from {id} --open; call it off: ballast shard drain {id} --cancel"
        );
        screen.hint(&screen.dim(&next));
        Ok(Verdict::Done)
    }
}

/// How the emptying of a shard stands.
pub(crate) async fn drain_of(remote: &Remote, id: &str) -> Result<Reply, Failure> {
    remote
        .client
        .send(Request::get(&["shards", id, "drain"]))
        .await
}

/// `rebalance`.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    manner: Manner,
    /// Only show what would be done, which is also what happens without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl RebalanceArgs {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (client, screen) = (&remote.client, &remote.screen);
        if self.dry_run || !self.manner.yes {
            let reply = client.send(Request::get(&["rebalance"])).await?;
            view::show(screen, &reply, drains::rebalance_plan)?;
            screen.hint("nothing was done; with --yes it is");
            return Ok(Verdict::Done);
        }
        let reply = client.send(self.manner.request(&["rebalance"])).await?;
        view::show(screen, &reply, drains::rebalancing)?;
        let execution = reply.read::<Value>()?["executionID"]
            .as_str()
            .map(str::to_owned);
        if let Some(execution) = execution {
            let next = format!(
                "watch it: ballast execution watch {execution}; the moves: ballast migration list --open"
            );
            screen.hint(&screen.dim(&next));
        }
        Ok(Verdict::Done)
    }
}
