//! `shard`: add, list, show, weight, zones, state, drain, update, remove; and, on the
//! files of a shard, inspect and verify.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::shard::ShardState;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Creation, Fields, Guard, Paging, weight};
use super::body::ShardBody;
use super::client::Request;
use super::confirm::confirm;
use super::drain::{DrainArgs, drain_of};
use super::failure::{Failure, Verdict};
use super::shard_files::ShardFileCommand;
use super::view::{self, drains, shards};
use super::{Remote, help};

/// What can be done with shards.
#[derive(Debug, Subcommand)]
#[command(after_help = help::SHARD)]
pub(crate) enum ShardCommand {
    #[command(flatten)]
    Api(ShardApiCommand),
    #[command(flatten)]
    Files(ShardFileCommand),
}

/// What is asked of a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardApiCommand {
    /// Add a shard; nobody moves (placement preview says who would)
    #[command(after_help = help::SHARD_ADD)]
    Add {
        #[command(flatten)]
        shard: NewShard,
        /// Where its data is; embedded under the data directory when absent
        #[arg(long = "data-url", value_name = "URL")]
        data_url: Option<String>,
        #[command(flatten)]
        creation: Creation,
    },
    /// List shards with the number of slices on each
    #[command(after_help = help::SHARD_LIST)]
    List {
        #[command(flatten)]
        paging: Paging,
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
        /// Its capacity beside that of the others
        #[arg(value_parser = weight, allow_negative_numbers = true)]
        weight: f64,
        #[command(flatten)]
        guard: Guard,
    },
    /// Set a shard's zones; none when none is named
    #[command(after_help = help::SHARD_ZONES)]
    Zones {
        /// The shard
        id: String,
        /// Its zones from now on
        #[arg(value_name = "ZONE")]
        zones: Vec<String>,
        #[command(flatten)]
        guard: Guard,
    },
    /// Set a shard's state
    #[command(after_help = help::SHARD_STATE)]
    State {
        /// The shard
        id: String,
        /// Its state from now on
        state: State,
        #[command(flatten)]
        guard: Guard,
    },
    /// Move everything off a shard; shows the plan, and does it with --yes
    #[command(after_help = help::SHARD_DRAIN)]
    Drain(DrainArgs),
    /// Change several things about a shard at once
    #[command(after_help = help::SHARD_UPDATE)]
    Update {
        /// The shard
        id: String,
        #[command(flatten)]
        patch: Patch,
        #[command(flatten)]
        guard: Guard,
    },
    /// Take an empty shard out of the fleet
    #[command(after_help = help::SHARD_REMOVE)]
    Remove {
        /// The shard
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        guard: Guard,
    },
}

/// A shard that is, or would be, added.
#[derive(Debug, Args)]
pub(crate) struct NewShard {
    /// Its ID
    id: String,
    /// The region it stands in; the default region when absent
    #[arg(long)]
    region: Option<String>,
    /// A zone it carries (repeatable)
    #[arg(long)]
    zone: Vec<String>,
    /// Its capacity beside that of the others; 1 when absent
    #[arg(long, value_parser = weight, allow_negative_numbers = true)]
    weight: Option<f64>,
    /// The most slices it may hold
    #[arg(long, value_name = "N")]
    max_slices: Option<u64>,
}

impl NewShard {
    pub(crate) fn fields(&self) -> Fields {
        Fields::default()
            .with("shardID", Some(&self.id))
            .with("region", self.region.as_ref())
            .with_list("zones", &self.zone)
            .with("weight", self.weight)
            .with("maxSlices", self.max_slices)
    }
}

/// What can be changed about a shard.
#[derive(Debug, Args)]
pub(crate) struct Patch {
    /// Its capacity beside that of the others
    #[arg(long, value_parser = weight, allow_negative_numbers = true)]
    weight: Option<f64>,
    /// Its zones: a list such as a,b
    #[arg(long, value_delimiter = ',', value_name = "ZONES")]
    zones: Vec<String>,
    /// It carries no zones
    #[arg(long, conflicts_with = "zones")]
    no_zones: bool,
    /// The most slices it may hold
    #[arg(long, value_name = "N")]
    max_slices: Option<u64>,
    /// Whether it takes slices
    #[arg(long)]
    state: Option<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// Serves and takes new slices
    Active,
    /// Serves what it holds, takes nothing, is to be emptied
    Draining,
    /// Serves nothing
    Down,
}

impl ShardApiCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Add {
                shard,
                data_url,
                creation,
            } => {
                let body = shard.fields().with("url", data_url).value();
                let request = Request::post(&["shards"]).body(body).creating(creation);
                let reply = client.send(request).await?;
                view::show(screen, &reply, shards::added)?;
                screen
                    .hint(&screen.dim("nobody has moved; who is due to: ballast placement drift"));
            }
            Self::List { paging } => {
                let request = Request::get(&["shards"]);
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no shards yet; add one: ballast shard add shard-1";
                view::list::<ShardBody>(screen, &reply, shards::table, empty)?;
            }
            Self::Show { id } => {
                let mut reply = client.send(Request::get(&["shards", &id])).await?;
                let shown: ShardBody = reply.read()?;
                let drain = match shown.shard.state {
                    ShardState::Draining => Some(drain_of(remote, &id).await?),
                    _ => None,
                };
                if let (Some(drain), true) = (&drain, screen.json) {
                    reply.bytes = with_drain(reply.read()?, drain.read()?);
                }
                view::show(screen, &reply, shards::facts)?;
                if let (Some(drain), false) = (&drain, screen.json) {
                    let told = format!("draining  {}", drains::progress(&drain.read()?));
                    screen.data(told.as_bytes())?;
                }
            }
            Self::Weight { id, weight, guard } => {
                patched(remote, &id, json!({ "weight": weight }), guard).await?;
            }
            Self::Zones { id, zones, guard } => {
                patched(remote, &id, json!({ "zones": zones }), guard).await?;
            }
            Self::State { id, state, guard } => {
                patched(remote, &id, json!({ "state": state }), guard).await?;
            }
            Self::Drain(args) => return args.run(remote).await,
            Self::Update { id, patch, guard } => {
                let fields = Fields::default()
                    .with("weight", patch.weight)
                    .with_list_or_none("zones", &patch.zones, patch.no_zones)
                    .with("maxSlices", patch.max_slices)
                    .with("state", patch.state);
                view::refuse_nothing(&fields)?;
                patched(remote, &id, fields.value(), guard).await?;
            }
            Self::Remove { id, yes, guard } => {
                confirm(screen, yes, &format!("take shard {id} out of the fleet"))?;
                let reply = client
                    .send(Request::delete(&["shards", &id]).guarded(guard))
                    .await?;
                view::show::<Value>(screen, &reply, |_, _| {
                    format!("shard {id} is out of the fleet")
                })?;
            }
        }
        Ok(Verdict::Done)
    }
}

/// A shard with how its emptying stands, without the list of its slices.
fn with_drain(mut shard: Value, mut drain: Value) -> Vec<u8> {
    if let Some(drain) = drain.as_object_mut() {
        drain.remove("plan");
        drain.remove("shardID");
    }
    shard["drain"] = drain;
    shard.to_string().into_bytes()
}

async fn patched(remote: &Remote, id: &str, body: Value, guard: Guard) -> Result<(), Failure> {
    let request = Request::patch(&["shards", id]).body(body).guarded(guard);
    let reply = remote.client.send(request).await?;
    view::show(&remote.screen, &reply, shards::facts)
}
