//! `shard`: add, list, show, weight, zones, state, drain, update, remove; and, on the
//! files of a shard, inspect and verify.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::shard::ShardState;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{CreationArgs, GuardArgs, JsonFields, PagingArgs, parse_weight};
use super::body::ShardBody;
use super::client::Request;
use super::confirm::confirm;
use super::drain::{DrainArgs, fetch_drain};
use super::failure::{CliError, CommandOutcome};
use super::shard_files::ShardFileCommand;
use super::view::{self, drains, shards};
use super::{Remote, help};

/// Commands on shards.
#[derive(Debug, Subcommand)]
#[command(after_help = help::SHARD)]
pub(crate) enum ShardCommand {
    #[command(flatten)]
    Api(ShardApiCommand),
    #[command(flatten)]
    Files(ShardFileCommand),
}

/// Commands that need a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardApiCommand {
    /// Add a shard; no tenant moves yet (see placement preview)
    #[command(after_help = help::SHARD_ADD)]
    Add {
        #[command(flatten)]
        shard: NewShardArgs,
        /// URL of its data [default: embedded, in the data directory]
        #[arg(long = "data-url", value_name = "URL")]
        data_url: Option<String>,
        #[command(flatten)]
        creation: CreationArgs,
    },
    /// List shards with the number of slices on each
    #[command(after_help = help::SHARD_LIST)]
    List {
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show a shard
    #[command(after_help = help::SHARD_SHOW)]
    Show {
        /// The shard
        id: String,
    },
    /// Set a shard's capacity weight
    #[command(after_help = help::SHARD_WEIGHT)]
    Weight {
        /// The shard
        id: String,
        /// Its capacity relative to the other shards
        #[arg(value_parser = parse_weight, allow_negative_numbers = true)]
        weight: f64,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Set a shard's zones; without zones, clear them
    #[command(after_help = help::SHARD_ZONES)]
    Zones {
        /// The shard
        id: String,
        /// The new zones
        #[arg(value_name = "ZONE")]
        zones: Vec<String>,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Set a shard's state
    #[command(after_help = help::SHARD_STATE)]
    State {
        /// The shard
        id: String,
        /// The new state
        state: ShardStateArg,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Move everything off a shard; shows the plan, runs it with --yes
    #[command(after_help = help::SHARD_DRAIN)]
    Drain(DrainArgs),
    /// Change several settings of a shard at once
    #[command(after_help = help::SHARD_UPDATE)]
    Update {
        /// The shard
        id: String,
        #[command(flatten)]
        patch: ShardPatchArgs,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Remove an empty shard from the fleet
    #[command(after_help = help::SHARD_REMOVE)]
    Remove {
        /// The shard
        id: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        guard: GuardArgs,
    },
}

/// A new shard.
#[derive(Debug, Args)]
pub(crate) struct NewShardArgs {
    /// Its ID
    id: String,
    /// Its region [default: the default region]
    #[arg(long)]
    region: Option<String>,
    /// A zone of the shard (repeatable)
    #[arg(long)]
    zone: Vec<String>,
    /// Its capacity relative to the other shards [default: 1]
    #[arg(long, value_parser = parse_weight, allow_negative_numbers = true)]
    weight: Option<f64>,
    /// Maximum number of slices
    #[arg(long, value_name = "N")]
    max_slices: Option<u64>,
}

impl NewShardArgs {
    pub(crate) fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("shardID", Some(&self.id))
            .with("region", self.region.as_ref())
            .with_list("zones", &self.zone)
            .with("weight", self.weight)
            .with("maxSlices", self.max_slices)
    }
}

/// Settings of a shard to change.
#[derive(Debug, Args)]
pub(crate) struct ShardPatchArgs {
    /// Its capacity relative to the other shards
    #[arg(long, value_parser = parse_weight, allow_negative_numbers = true)]
    weight: Option<f64>,
    /// Its zones, such as a,b
    #[arg(long, value_delimiter = ',', value_name = "ZONES")]
    zones: Vec<String>,
    /// Clear its zones
    #[arg(long, conflicts_with = "zones")]
    no_zones: bool,
    /// Maximum number of slices
    #[arg(long, value_name = "N")]
    max_slices: Option<u64>,
    /// Its state
    #[arg(long)]
    state: Option<ShardStateArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ShardStateArg {
    /// Serves and accepts new tenants
    Active,
    /// Serves its slices, accepts none, is being emptied
    Draining,
    /// Serves nothing
    Down,
}

impl ShardApiCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Add {
                shard,
                data_url,
                creation,
            } => {
                let body = shard.fields().with("url", data_url).value();
                let request = Request::post(&["shards"])
                    .body(body)
                    .with_creation(creation);
                let reply = client.send(request).await?;
                view::show(screen, &reply, shards::describe_added)?;
                screen.hint(
                    &screen.dim("no tenant has moved; list those due: ballast placement drift"),
                );
            }
            Self::List { paging } => {
                let request = Request::get(&["shards"]);
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no shards yet; add one: ballast shard add shard-1";
                view::list::<ShardBody>(screen, &reply, shards::shard_table, empty)?;
            }
            Self::Show { id } => show_shard(remote, &id).await?,
            Self::Weight { id, weight, guard } => {
                patch_shard(remote, &id, json!({ "weight": weight }), guard).await?;
            }
            Self::Zones { id, zones, guard } => {
                patch_shard(remote, &id, json!({ "zones": zones }), guard).await?;
            }
            Self::State { id, state, guard } => {
                patch_shard(remote, &id, json!({ "state": state }), guard).await?;
            }
            Self::Drain(args) => return args.run(remote).await,
            Self::Update { id, patch, guard } => {
                let fields = JsonFields::default()
                    .with("weight", patch.weight)
                    .with_list_or_none("zones", &patch.zones, patch.no_zones)
                    .with("maxSlices", patch.max_slices)
                    .with("state", patch.state);
                view::require_change(&fields)?;
                patch_shard(remote, &id, fields.value(), guard).await?;
            }
            Self::Remove { id, yes, guard } => {
                confirm(screen, yes, &format!("remove shard {id} from the fleet"))?;
                let reply = client
                    .send(Request::delete(&["shards", &id]).with_guard(guard))
                    .await?;
                view::show::<Value>(screen, &reply, |_, _| {
                    format!("removed shard {id} from the fleet")
                })?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}

/// Shows a shard, with its drain if one is running.
async fn show_shard(remote: &Remote, id: &str) -> Result<(), CliError> {
    let (screen, client) = (&remote.screen, &remote.client);
    let mut reply = client.send(Request::get(&["shards", id])).await?;
    let shown: ShardBody = reply.read()?;
    let drain = match shown.shard.state {
        ShardState::Draining => Some(fetch_drain(remote, id).await?),
        _ => None,
    };
    if let (Some(drain), true) = (&drain, screen.json) {
        reply.bytes = merge_drain(reply.read()?, drain.read()?);
    }
    view::show(screen, &reply, shards::shard_facts)?;
    if let (Some(drain), false) = (&drain, screen.json) {
        let progress_line = format!(
            "draining  {}",
            drains::describe_progress(screen, &drain.read()?)
        );
        screen.data(progress_line.as_bytes())?;
    }
    Ok(())
}

/// Merges the drain's state into a shard's document, without the plan.
fn merge_drain(mut shard: Value, mut drain: Value) -> Vec<u8> {
    if let Some(drain) = drain.as_object_mut() {
        drain.remove("plan");
        drain.remove("shardID");
    }
    shard["drain"] = drain;
    shard.to_string().into_bytes()
}

async fn patch_shard(
    remote: &Remote,
    id: &str,
    body: Value,
    guard: GuardArgs,
) -> Result<(), CliError> {
    let request = Request::patch(&["shards", id]).body(body).with_guard(guard);
    let reply = remote.client.send(request).await?;
    view::show(&remote.screen, &reply, shards::shard_facts)
}
