//! `tenant split` and `tenant merge`: a tenant gets more slices, or fewer.

use std::time::Duration;

use ballast_domain::tenant::Tenant;
use clap::Args;
use tokio::time::sleep;

use super::Remote;
use super::args::{Creation, Fields};
use super::body::Versioned;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::view::{self, slicing};

/// How often it is looked whether it is done.
const LOOK: Duration = Duration::from_millis(200);

/// Into how many slices, and how.
#[derive(Debug, Args)]
pub(crate) struct SplitArgs {
    /// The tenant
    tenant: String,
    /// How many slices it is to have in all: 2, 4, 8, … 64
    #[arg(long, value_name = "N")]
    into: u32,
    /// Leave the slices on the shard on which they are cut
    #[arg(long)]
    stay: bool,
    #[command(flatten)]
    manner: Manner,
}

/// What is joined, and how.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The tenant
    tenant: String,
    /// How many slices it is to have in all; 1 when absent
    #[arg(long, value_name = "N")]
    into: Option<u32>,
    #[command(flatten)]
    manner: Manner,
}

/// What both have.
#[derive(Debug, Args)]
struct Manner {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Wait until it is done; exit code 1 unless it is
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    #[command(flatten)]
    creation: Creation,
}

impl SplitArgs {
    fn fields(&self) -> Fields {
        Fields::default()
            .with("into", Some(self.into))
            .with("stay", self.stay.then_some(true))
            .with("dryRun", self.manner.dry_run.then_some(true))
    }

    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let request = Request::post(&["tenants", &self.tenant, "split"]);
        let request = request.body(self.fields().value());
        self.manner.run(remote, &self.tenant, request).await
    }
}

impl MergeArgs {
    fn fields(&self) -> Fields {
        Fields::default()
            .with("into", self.into)
            .with("dryRun", self.manner.dry_run.then_some(true))
    }

    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let request = Request::post(&["tenants", &self.tenant, "merge"]);
        let request = request.body(self.fields().value());
        self.manner.run(remote, &self.tenant, request).await
    }
}

impl Manner {
    async fn run(
        self,
        remote: &Remote,
        tenant: &str,
        request: Request,
    ) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        let mut reply = client.send(request.creating(self.creation)).await?;
        if self.dry_run {
            view::show(screen, &reply, slicing::plan)?;
            return Ok(Verdict::Done);
        }
        let mut now: Versioned<Tenant> = reply.read()?;
        while self.wait && now.value.slicing.is_some() {
            sleep(LOOK).await;
            reply = client.send(Request::get(&["tenants", tenant])).await?;
            now = reply.read()?;
        }
        view::show(screen, &reply, slicing::done)?;
        let given_up = now.value.last_slicing.and_then(|last| last.why).is_some();
        match self.wait && given_up {
            true => Ok(Verdict::Negative),
            false => Ok(Verdict::Done),
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
