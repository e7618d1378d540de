//! `tenant`: create, list, show, change, move, split, merge, suspend, resume, close.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::tenant::Tenant;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Creation, Fields, Guard, Paging};
use super::body::Versioned;
use super::client::{Reply, Request};
use super::confirm::confirm;
use super::failure::{Failure, Verdict};
use super::migration::begin::MoveArgs;
use super::slicing::{MergeArgs, SplitArgs};
use super::view::{self, tenants};
use super::{Remote, help};

/// What can be done with tenants.
#[derive(Debug, Subcommand)]
#[command(after_help = help::TENANT)]
pub(crate) enum TenantCommand {
    /// Create a tenant and place it on a shard
    #[command(after_help = help::TENANT_CREATE)]
    Create {
        /// Its ID: never changed, never given again
        id: String,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        creation: Creation,
    },
    /// List tenants, in the order of their IDs
    #[command(after_help = help::TENANT_LIST)]
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a tenant
    #[command(after_help = help::TENANT_SHOW)]
    Show {
        /// The tenant
        id: String,
    },
    /// Change a tenant's names, home, residency, zones, limits or origins
    #[command(after_help = help::TENANT_UPDATE)]
    Update {
        /// The tenant
        id: String,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        lifted: Lifted,
        #[command(flatten)]
        guard: Guard,
    },
    /// Move a slice of a tenant to another shard while it is being voted on
    #[command(after_help = help::TENANT_MOVE)]
    Move(MoveArgs),
    /// Divide a tenant into more slices while it is being voted on
    #[command(after_help = help::TENANT_SPLIT)]
    Split(SplitArgs),
    /// Join a tenant's slices, which must be on one shard
    #[command(after_help = help::TENANT_MERGE)]
    Merge(MergeArgs),
    /// Refuse a tenant's keys until it is resumed; its data stays
    #[command(after_help = help::TENANT_SUSPEND)]
    Suspend {
        /// The tenant
        id: String,
        #[command(flatten)]
        guard: Guard,
    },
    /// Serve a suspended tenant again
    #[command(after_help = help::TENANT_RESUME)]
    Resume {
        /// The tenant
        id: String,
        #[command(flatten)]
        guard: Guard,
    },
    /// Close a tenant for ever; its ID is never given again
    #[command(after_help = help::TENANT_CLOSE)]
    Close {
        /// The tenant
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        guard: Guard,
    },
}

/// What can be said of a tenant.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// The organisation it belongs to
    #[arg(long, value_name = "NAME")]
    organisation: Option<String>,
    /// The region its data lives in
    #[arg(long)]
    region: Option<String>,
    /// Where else its data may be, and what happens when its home is away
    #[arg(long, value_name = "POLICY")]
    residency: Option<Policy>,
    /// An approved region besides home (repeatable; means --residency permitted)
    #[arg(long, value_name = "REGION")]
    secondary_region: Vec<String>,
    /// Only shards with one of these zones may hold it (repeatable)
    #[arg(long)]
    zone: Vec<String>,
    /// Votes accepted per second
    #[arg(long, value_name = "N")]
    votes_per_second: Option<u64>,
    /// Queries answered at the same time
    #[arg(long, value_name = "N")]
    concurrent_queries: Option<u64>,
    /// Days that closed polls are kept
    #[arg(long, value_name = "N")]
    retention_days: Option<u64>,
    /// A browser origin that may use its keys (repeatable; * is all)
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
}

/// What can only be said of a tenant that is there, or taken away from it.
#[derive(Debug, Default, Args)]
pub(crate) struct Lifted {
    /// What may be done to it without asking, for a hotspot or by a plan
    #[arg(long)]
    dial: Option<Dial>,
    /// Forget the organisation
    #[arg(long, conflicts_with = "organisation")]
    no_organisation: bool,
    /// Any zone will do
    #[arg(long, conflicts_with = "zone")]
    no_zones: bool,
    /// Lift the limit on votes per second
    #[arg(long, conflicts_with = "votes_per_second")]
    no_votes_per_second: bool,
    /// Lift the limit on concurrent queries
    #[arg(long, conflicts_with = "concurrent_queries")]
    no_concurrent_queries: bool,
    /// Keep closed polls for ever
    #[arg(long, conflicts_with = "retention_days")]
    no_retention_days: bool,
    /// No browser origin may use its keys
    #[arg(long, conflicts_with = "cors_origin")]
    no_cors_origins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Policy {
    /// Home only; down when it is
    Strict,
    /// Also the secondary regions
    Permitted,
    /// Home only; operations wait
    Deferred,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Dial {
    /// Anything that helps
    Active,
    /// Only what must be: it is never moved for the sake of others
    Essential,
    /// Nothing for now; a shard that is drained waits for it
    Pause,
    /// Nothing, whoever asks
    Stop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Active,
    Suspended,
    Closed,
}

/// Which tenants.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those whose ID begins so
    #[arg(long)]
    prefix: Option<String>,
    /// Only those of this status
    #[arg(long)]
    status: Option<Status>,
    /// Only those whose home is this region
    #[arg(long)]
    region: Option<String>,
    /// Only those with a slice on this shard
    #[arg(long)]
    shard: Option<String>,
}

impl Filter {
    fn is_any(&self) -> bool {
        self.status.is_some()
            || [&self.prefix, &self.region, &self.shard]
                .iter()
                .any(|text| text.is_some())
    }
}

impl Settings {
    fn fields(&self, lifted: &Lifted) -> Fields {
        let policy = self
            .residency
            .or((!self.secondary_region.is_empty()).then_some(Policy::Permitted));
        let residency = policy.map(|policy| {
            Fields::default()
                .with("policy", Some(policy))
                .with_list("secondaryRegions", &self.secondary_region)
                .value()
        });
        let limits = Fields::default()
            .with_or_null(
                "votesPerSecond",
                self.votes_per_second,
                lifted.no_votes_per_second,
            )
            .with_or_null(
                "concurrentQueries",
                self.concurrent_queries,
                lifted.no_concurrent_queries,
            )
            .with_or_null(
                "retentionDays",
                self.retention_days,
                lifted.no_retention_days,
            );
        Fields::default()
            .with("name", self.name.as_ref())
            .with_or_null(
                "organisation",
                self.organisation.as_ref(),
                lifted.no_organisation,
            )
            .with("homeRegion", self.region.as_ref())
            .with("residency", residency)
            .with_list_or_none("zones", &self.zone, lifted.no_zones)
            .with("limits", limits.some())
            .with_list_or_none("corsOrigins", &self.cors_origin, lifted.no_cors_origins)
            .with("dial", lifted.dial)
    }
}

impl TenantCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                id,
                settings,
                creation,
            } => {
                let fields = settings
                    .fields(&Lifted::default())
                    .with("tenantID", Some(id));
                let request = Request::post(&["tenants"]).body(fields.value());
                let reply = client.send(request.creating(creation)).await?;
                view::show(screen, &reply, tenants::created)?;
                let next = reply.read::<Value>()?["tenantID"].as_str().map(|id| {
                    format!("next: ballast key create {id}, ballast placement explain {id}")
                });
                screen.hint(&screen.dim(&next.unwrap_or_default()));
            }
            Self::List { filter, paging } => {
                let empty = if filter.is_any() {
                    "no tenants match; without filters: ballast tenant list"
                } else {
                    "no tenants yet; create one: ballast tenant create acme"
                };
                let reply = list(remote, filter, &paging).await?;
                view::list::<Versioned<Tenant>>(screen, &reply, tenants::table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["tenants", &id])).await?;
                view::show(screen, &reply, tenants::facts)?;
            }
            Self::Update {
                id,
                settings,
                lifted,
                guard,
            } => {
                let fields = settings.fields(&lifted);
                view::refuse_nothing(&fields)?;
                let request = Request::patch(&["tenants", &id]).body(fields.value());
                let reply = client.send(request.guarded(guard)).await?;
                view::show(screen, &reply, tenants::facts)?;
            }
            Self::Move(args) => return args.run(remote).await,
            Self::Split(args) => return args.run(remote).await,
            Self::Merge(args) => return args.run(remote).await,
            Self::Suspend { id, guard } => turned(remote, &id, "suspend", guard).await?,
            Self::Resume { id, guard } => turned(remote, &id, "resume", guard).await?,
            Self::Close { id, yes, guard } => {
                confirm(screen, yes, &format!("close tenant {id} for ever"))?;
                turned(remote, &id, "close", guard).await?;
            }
        }
        Ok(Verdict::Done)
    }
}

async fn list(remote: &Remote, filter: Filter, paging: &Paging) -> Result<Reply, Failure> {
    let status = filter
        .status
        .and_then(|status| status.to_possible_value())
        .map(|value| value.get_name().to_owned());
    let request = Request::get(&["tenants"])
        .query("prefix", filter.prefix)
        .query("status", status)
        .query("region", filter.region)
        .query("shard", filter.shard);
    remote.client.list(request, paging, PAGE_ITEMS_MAX).await
}

async fn turned(remote: &Remote, id: &str, verb: &str, guard: Guard) -> Result<(), Failure> {
    let request = Request::post(&["tenants", id, verb])
        .body(json!({}))
        .guarded(guard);
    let reply = remote.client.send(request).await?;
    view::show(&remote.screen, &reply, tenants::status)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn body(args: &[&str]) -> String {
        let cli =
            crate::TestCli::try_parse_from([&["ballast", "tenant", "update", "a"], args].concat());
        let crate::Noun::Tenant(TenantCommand::Update {
            settings, lifted, ..
        }) = cli.unwrap().command
        else {
            panic!("it is an update")
        };
        settings.fields(&lifted).value().to_string()
    }

    #[test]
    fn flags_become_fields() {
        assert_eq!(body(&["--name", "A"]), r#"{"name":"A"}"#);
        assert_eq!(
            body(&["--secondary-region", "us", "--no-votes-per-second"]),
            r#"{"residency":{"policy":"permitted","secondaryRegions":["us"]},"limits":{"votesPerSecond":null}}"#
        );
        assert_eq!(body(&["--no-zones"]), r#"{"zones":[]}"#);
        assert_eq!(body(&["--dial", "pause"]), r#"{"dial":"pause"}"#);
    }
}
