//! `tenant move`: a slice changes shard while votes arrive.

use std::time::Duration;

use clap::Args;

use super::body::MigrationBody;
use super::watch::MigrationWatch;
use super::window::{Window, whole_milliseconds};
use crate::Remote;
use crate::args::{CreationArgs, JsonFields};
use crate::client::Request;
use crate::execution::ReconnectArgs;
use crate::failure::{CliError, CommandOutcome};
use crate::view::{self, migrations};

/// What to move, and how.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The tenant
    tenant: String,
    /// The target shard
    #[arg(long, value_name = "SHARD")]
    to: String,
    /// Move it only if it is on this shard
    #[arg(long, value_name = "SHARD")]
    from: Option<String>,
    /// The slice to move; only needed if the tenant is split
    #[arg(long, value_name = "N")]
    slice: Option<u32>,
    /// Only show the plan and its cost
    #[arg(long)]
    dry_run: bool,
    /// Maximum write pause at the cutover, such as 50ms
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse_duration)]
    #[arg(allow_hyphen_values = true)]
    max_pause: Option<Duration>,
    /// How long both shards keep the data after the cutover, such as 2h; with `sync` or `sync:2h` a
    /// vote counts only once both have it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    window: Option<Window>,
    /// Begin outside of the maintenance windows, too; needs --reason
    #[arg(long)]
    now: bool,
    /// Wait until it ends; exit code 1 unless it completed
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    #[command(flatten)]
    creation: CreationArgs,
    #[command(flatten)]
    patience: ReconnectArgs,
}

impl MoveArgs {
    fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("toShardID", Some(&self.to))
            .with("fromShardID", self.from.as_ref())
            .with("slice", self.slice)
            .with("windowMs", self.window.and_then(Window::milliseconds))
            .with("sync", self.window.and_then(Window::sync))
            .with("maxPauseMs", self.max_pause.map(whole_milliseconds))
            .with("now", self.now.then_some(true))
            .with("dryRun", self.dry_run.then_some(true))
    }

    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        let request = Request::post(&["tenants", &self.tenant, "move"]).body(self.fields().value());
        let reply = client.send(request.with_creation(self.creation)).await?;
        if self.dry_run {
            view::show(screen, &reply, migrations::describe_plan)?;
            return Ok(CommandOutcome::Done);
        }
        let begun: MigrationBody = reply.read()?;
        let id = begun.id().to_owned();
        if self.wait {
            let following = MigrationWatch {
                id,
                final_only: screen.json,
                patience: self.patience.patience,
                was_reachable: true,
            };
            return following.run(remote).await;
        }
        view::show(screen, &reply, migrations::describe_started)?;
        screen.hint(&screen.dim(&format!("watch it: ballast migration watch {id}")));
        Ok(CommandOutcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::tenant::TenantCommand;

    fn body(args: &[&str]) -> String {
        let typed = ["ballast", "tenant", "move", "acme", "--to", "shard-3"];
        let cli = crate::TestCli::try_parse_from(typed.iter().chain(args));
        let crate::Noun::Tenant(TenantCommand::Move(args)) = cli.unwrap().command else {
            panic!("it is a move")
        };
        args.fields().value().to_string()
    }

    #[test]
    fn a_window_is_a_time_or_sync_or_both() {
        for bad in [
            "",
            "sync:",
            "synchronous",
            "sync2h",
            "2 parsecs",
            "sync:soon",
        ] {
            let typed = [
                "ballast", "tenant", "move", "acme", "--to", "s", "--window", bad,
            ];
            let error = crate::TestCli::try_parse_from(typed)
                .unwrap_err()
                .to_string();
            assert!(error.contains("--window"), "{error}");
        }
    }

    #[test]
    fn flags_become_fields() {
        assert_eq!(body(&[]), r#"{"toShardID":"shard-3"}"#);
        assert_eq!(
            body(&["--window", "2h", "--max-pause", "50ms", "--slice", "1"]),
            r#"{"toShardID":"shard-3","slice":1,"windowMs":7200000,"maxPauseMs":50}"#
        );
        assert_eq!(
            body(&["--from", "shard-1", "--window", "1s", "--dry-run"]),
            r#"{"toShardID":"shard-3","fromShardID":"shard-1","windowMs":1000,"dryRun":true}"#
        );
        assert_eq!(body(&["--now"]), r#"{"toShardID":"shard-3","now":true}"#);
        assert_eq!(
            body(&["--window", "sync"]),
            r#"{"toShardID":"shard-3","sync":true}"#
        );
        assert_eq!(
            body(&["--window", "sync:1h"]),
            r#"{"toShardID":"shard-3","windowMs":3600000,"sync":true}"#
        );
        // A pause below 1 ms is not 0, and a window of 0 is 0.
        assert_eq!(
            body(&["--max-pause", "20us", "--window", "0s"]),
            r#"{"toShardID":"shard-3","windowMs":0,"maxPauseMs":1}"#
        );
    }
}
