//! `tenant split` and `tenant merge`: change the number of a tenant's slices.

use std::time::Duration;

use ballast_domain::tenant::Tenant;
use clap::Args;
use tokio::time::sleep;

use super::Remote;
use super::args::{CreationArgs, JsonFields};
use super::body::Versioned;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::view::{self, slicing};

/// How often to poll for the end.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `tenant split`.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// The tenant
    tenant: String,
    /// Total number of slices: 2, 4, 8, … 64
    #[arg(long, value_name = "N")]
    into: u32,
    /// Keep all slices on their current shard
    #[arg(long)]
    stay: bool,
    #[command(flatten)]
    options: RecutArgs,
}

/// Arguments of `tenant merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The tenant
    tenant: String,
    /// Total number of slices [default: 1]
    #[arg(long, value_name = "N")]
    into: Option<u32>,
    #[command(flatten)]
    options: RecutArgs,
}

/// Flags of both commands.
#[derive(Debug, Args)]
struct RecutArgs {
    /// Only show the plan
    #[arg(long)]
    dry_run: bool,
    /// Wait until it is done; exit code 1 if it fails
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    #[command(flatten)]
    creation: CreationArgs,
}

impl SplitArgs {
    fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("into", Some(self.into))
            .with("stay", self.stay.then_some(true))
            .with("dryRun", self.options.dry_run.then_some(true))
    }

    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let request = Request::post(&["tenants", &self.tenant, "split"]);
        let request = request.body(self.fields().value());
        self.options.run(remote, &self.tenant, request).await
    }
}

impl MergeArgs {
    fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("into", self.into)
            .with("dryRun", self.options.dry_run.then_some(true))
    }

    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let request = Request::post(&["tenants", &self.tenant, "merge"]);
        let request = request.body(self.fields().value());
        self.options.run(remote, &self.tenant, request).await
    }
}

impl RecutArgs {
    async fn run(
        self,
        remote: &Remote,
        tenant: &str,
        request: Request,
    ) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        let mut reply = client.send(request.with_creation(self.creation)).await?;
        if self.dry_run {
            view::show(screen, &reply, slicing::describe_plan)?;
            return Ok(CommandOutcome::Done);
        }
        let mut now: Versioned<Tenant> = reply.read()?;
        while self.wait && now.value.slicing.is_some() {
            sleep(LOOK).await;
            reply = client.send(Request::get(&["tenants", tenant])).await?;
            now = reply.read()?;
        }
        view::show(screen, &reply, slicing::describe_slicing)?;
        let given_up = now.value.last_slicing.and_then(|last| last.why).is_some();
        match self.wait && given_up {
            true => Ok(CommandOutcome::Negative),
            false => Ok(CommandOutcome::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::tenant::TenantCommand;

    #[test]
    fn flags_become_fields() {
        let split = ["ballast", "tenant", "split", "acme", "--into", "4"];
        let body = |more: &[&str]| {
            let cli = crate::TestCli::try_parse_from(split.iter().chain(more));
            let crate::Noun::Tenant(TenantCommand::Split(args)) = cli.unwrap().command else {
                panic!("it is a split")
            };
            args.fields().value().to_string()
        };
        assert_eq!(body(&[]), r#"{"into":4}"#);
        assert_eq!(
            body(&["--stay", "--dry-run"]),
            r#"{"into":4,"stay":true,"dryRun":true}"#
        );
        let merge = crate::TestCli::try_parse_from(["ballast", "tenant", "merge", "acme"]);
        let crate::Noun::Tenant(TenantCommand::Merge(args)) = merge.unwrap().command else {
            panic!("it is a merge")
        };
        assert_eq!(args.fields().value().to_string(), "{}");
    }
}
