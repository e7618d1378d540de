//! `tenant`: create, list, show, change, move, split, merge, suspend, resume, close.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::tenant::Tenant;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{CreationArgs, GuardArgs, JsonFields, PagingArgs};
use super::body::Versioned;
use super::client::{Reply, Request};
use super::confirm::confirm;
use super::failure::{CliError, CommandOutcome};
use super::migration::begin::MoveArgs;
use super::slicing::{MergeArgs, SplitArgs};
use super::view::{self, tenants};
use super::{Remote, help};

/// Commands on tenants.
#[derive(Debug, Subcommand)]
#[command(after_help = help::TENANT)]
pub(crate) enum TenantCommand {
    /// Create a tenant and place it on a shard
    #[command(after_help = help::TENANT_CREATE)]
    Create {
        /// Its ID; permanent and never reused
        id: String,
        #[command(flatten)]
        settings: TenantSettings,
        #[command(flatten)]
        creation: CreationArgs,
    },
    /// List tenants, in the order of their IDs
    #[command(after_help = help::TENANT_LIST)]
    List {
        #[command(flatten)]
        filter: TenantFilter,
        #[command(flatten)]
        paging: PagingArgs,
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
        settings: TenantSettings,
        #[command(flatten)]
        lifted: ClearedSettings,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Move a tenant to another shard while votes arrive
    #[command(after_help = help::TENANT_MOVE)]
    Move(MoveArgs),
    /// Split a tenant into more slices while votes arrive
    #[command(after_help = help::TENANT_SPLIT)]
    Split(SplitArgs),
    /// Merge a tenant's slices, which must be on one shard
    #[command(after_help = help::TENANT_MERGE)]
    Merge(MergeArgs),
    /// Refuse a tenant's keys until it is resumed; its data stays
    #[command(after_help = help::TENANT_SUSPEND)]
    Suspend {
        /// The tenant
        id: String,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Serve a suspended tenant again
    #[command(after_help = help::TENANT_RESUME)]
    Resume {
        /// The tenant
        id: String,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Close a tenant permanently; its ID is never reused
    #[command(after_help = help::TENANT_CLOSE)]
    Close {
        /// The tenant
        id: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        guard: GuardArgs,
    },
}

/// Settings of a tenant.
#[derive(Debug, Args)]
pub(crate) struct TenantSettings {
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// The organisation it belongs to
    #[arg(long, value_name = "NAME")]
    organisation: Option<String>,
    /// Home region of its data
    #[arg(long)]
    region: Option<String>,
    /// Where else its data may be, and what happens when its home region is down
    #[arg(long, value_name = "POLICY")]
    residency: Option<ResidencyPolicy>,
    /// An approved secondary region (repeatable; implies --residency permitted)
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
    /// Days to keep closed polls
    #[arg(long, value_name = "N")]
    retention_days: Option<u64>,
    /// A browser origin that may use its keys (repeatable; * is all)
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
}

/// Settings that only an existing tenant has, and settings to clear.
#[derive(Debug, Default, Args)]
pub(crate) struct ClearedSettings {
    /// What Ballast may do to it automatically, for a hotspot or a plan
    #[arg(long)]
    dial: Option<Dial>,
    /// Clear the organisation
    #[arg(long, conflicts_with = "organisation")]
    no_organisation: bool,
    /// Clear the zones
    #[arg(long, conflicts_with = "zone")]
    no_zones: bool,
    /// Remove the limit on votes per second
    #[arg(long, conflicts_with = "votes_per_second")]
    no_votes_per_second: bool,
    /// Remove the limit on concurrent queries
    #[arg(long, conflicts_with = "concurrent_queries")]
    no_concurrent_queries: bool,
    /// Keep closed polls indefinitely
    #[arg(long, conflicts_with = "retention_days")]
    no_retention_days: bool,
    /// No browser origin may use its keys
    #[arg(long, conflicts_with = "cors_origin")]
    no_cors_origins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum ResidencyPolicy {
    /// Home region only; unavailable while it is down
    Strict,
    /// Also the secondary regions
    Permitted,
    /// Home region only; operations wait
    Deferred,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Dial {
    /// Any action that helps
    Active,
    /// Only what is necessary: it is never moved to relieve others
    Essential,
    /// Nothing for now; a drain of its shard waits
    Pause,
    /// Nothing, not even on request
    Stop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TenantStatusFilter {
    Active,
    Suspended,
    Closed,
}

/// Which tenants to list.
#[derive(Debug, Args)]
pub(crate) struct TenantFilter {
    /// Only tenants whose ID starts with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only tenants with this status
    #[arg(long)]
    status: Option<TenantStatusFilter>,
    /// Only tenants with this home region
    #[arg(long)]
    region: Option<String>,
    /// Only tenants with data on this shard
    #[arg(long)]
    shard: Option<String>,
}

impl TenantFilter {
    fn is_any(&self) -> bool {
        self.status.is_some()
            || [&self.prefix, &self.region, &self.shard]
                .iter()
                .any(|text| text.is_some())
    }
}

impl TenantSettings {
    fn fields(&self, lifted: &ClearedSettings) -> JsonFields {
        let policy = self
            .residency
            .or((!self.secondary_region.is_empty()).then_some(ResidencyPolicy::Permitted));
        let residency = policy.map(|policy| {
            JsonFields::default()
                .with("policy", Some(policy))
                .with_list("secondaryRegions", &self.secondary_region)
                .value()
        });
        let limits = JsonFields::default()
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
        JsonFields::default()
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
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                id,
                settings,
                creation,
            } => {
                let fields = settings
                    .fields(&ClearedSettings::default())
                    .with("tenantID", Some(id));
                let request = Request::post(&["tenants"]).body(fields.value());
                let reply = client.send(request.with_creation(creation)).await?;
                view::show(screen, &reply, tenants::describe_created)?;
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
                view::list::<Versioned<Tenant>>(screen, &reply, tenants::tenant_table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["tenants", &id])).await?;
                view::show(screen, &reply, tenants::tenant_facts)?;
            }
            Self::Update {
                id,
                settings,
                lifted,
                guard,
            } => {
                let fields = settings.fields(&lifted);
                view::require_change(&fields)?;
                let request = Request::patch(&["tenants", &id]).body(fields.value());
                let reply = client.send(request.with_guard(guard)).await?;
                view::show(screen, &reply, tenants::tenant_facts)?;
            }
            Self::Move(args) => return args.run(remote).await,
            Self::Split(args) => return args.run(remote).await,
            Self::Merge(args) => return args.run(remote).await,
            Self::Suspend { id, guard } => change_status(remote, &id, "suspend", guard).await?,
            Self::Resume { id, guard } => change_status(remote, &id, "resume", guard).await?,
            Self::Close { id, yes, guard } => {
                confirm(screen, yes, &format!("close tenant {id} permanently"))?;
                change_status(remote, &id, "close", guard).await?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}

async fn list(
    remote: &Remote,
    filter: TenantFilter,
    paging: &PagingArgs,
) -> Result<Reply, CliError> {
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

async fn change_status(
    remote: &Remote,
    id: &str,
    verb: &str,
    guard: GuardArgs,
) -> Result<(), CliError> {
    let request = Request::post(&["tenants", id, verb])
        .body(json!({}))
        .with_guard(guard);
    let reply = remote.client.send(request).await?;
    view::show(&remote.screen, &reply, tenants::describe_status)
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
