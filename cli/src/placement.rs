//! `placement`: show, explain, pin, unpin, preview, drift.

use clap::Subcommand;
use serde_json::json;

use super::args::{Guard, Paging};
use super::body::{Placement, Versioned};
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::preview;
use super::time::When;
use super::view::{self, explain, migrations, placements};
use super::{Remote, help};

/// What can be asked and said about placement.
#[derive(Debug, Subcommand)]
#[command(after_help = help::PLACEMENT)]
pub(crate) enum PlacementCommand {
    /// Show where a tenant is and where it belongs
    #[command(after_help = help::PLACEMENT_SHOW)]
    Show {
        /// The tenant
        tenant: String,
    },
    /// Explain why a tenant is where it is, and what would move it
    #[command(after_help = help::PLACEMENT_EXPLAIN)]
    Explain {
        /// The tenant
        tenant: String,
        /// Which of its slices
        #[arg(long, value_name = "N")]
        slice: Option<u32>,
        /// As it was then: 2h, "2h ago" or 2026-11-16T09:30:00Z
        #[arg(long, value_name = "TIME")]
        at: Option<When>,
        /// Show every shard, however many there are
        #[arg(long)]
        all: bool,
    },
    /// Pin a tenant to a shard; it moves there later, by a move
    #[command(after_help = help::PLACEMENT_PIN)]
    Pin {
        /// The tenant
        tenant: String,
        /// The shard
        shard: String,
        #[command(flatten)]
        guard: Guard,
    },
    /// Take a tenant's pin away
    #[command(after_help = help::PLACEMENT_UNPIN)]
    Unpin {
        /// The tenant
        tenant: String,
        #[command(flatten)]
        guard: Guard,
    },
    /// Say who would move if the fleet were changed; nothing is changed
    #[command(subcommand, after_help = help::PLACEMENT_PREVIEW)]
    Preview(preview::PreviewCommand),
    /// List the slices that are not where they belong
    #[command(after_help = help::PLACEMENT_DRIFT)]
    Drift {
        #[command(flatten)]
        paging: Paging,
    },
}

impl PlacementCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Show { tenant } => {
                let request = Request::get(&["tenants", &tenant, "placement"]);
                let reply = client.send(request).await?;
                view::show(screen, &reply, placements::facts)?;
                let why = format!("why: ballast placement explain {tenant}");
                screen.hint(&screen.dim(&why));
            }
            Self::Explain {
                tenant,
                slice,
                at,
                all,
            } => {
                let at = at.map(|when| when.past(screen.now));
                let request = Request::get(&["tenants", &tenant, "placement", "explain"])
                    .query("slice", slice)
                    .query("at", at);
                let reply = client.send(request).await?;
                view::show(screen, &reply, |screen, told| {
                    explain::text(screen, told, at, all)
                })?;
                if at.is_none() && !screen.json {
                    moves_told(remote, &tenant, slice).await?;
                }
            }
            Self::Pin {
                tenant,
                shard,
                guard,
            } => {
                let request = Request::put(&["tenants", &tenant, "placement", "pin"])
                    .body(json!({ "shardID": shard }))
                    .guarded(guard);
                let reply = client.send(request).await?;
                view::show(screen, &reply, placements::facts)?;
            }
            Self::Unpin { tenant, guard } => {
                let request = Request::delete(&["tenants", &tenant, "placement", "pin"]);
                let reply = client.send(request.guarded(guard)).await?;
                view::show(screen, &reply, placements::facts)?;
            }
            Self::Preview(verb) => verb.run(remote).await?,
            Self::Drift { paging } => {
                let request = Request::get(&["placement", "drift"]);
                preview::shown(remote, request, &paging, view::preview::Question::Drift).await?;
            }
        }
        Ok(Verdict::Done)
    }
}

/// Says whether a slice is moving, and how its last move ended.
async fn moves_told(remote: &Remote, tenant: &str, slice: Option<u32>) -> Result<(), Failure> {
    let request = Request::get(&["tenants", tenant, "placement"]);
    let placed: Versioned<Placement> = remote.client.send(request).await?.read()?;
    let slices = &placed.value.slices;
    // None named: the first, as the explanation is about that one.
    let slice = slice.or(slices.first().map(|first| first.slice));
    for found in slices.iter().filter(|found| Some(found.slice) == slice) {
        let told = migrations::moving(found).or_else(|| migrations::last_move(found));
        if let Some(told) = told {
            remote.screen.data(format!("\nIt {told}.").as_bytes())?;
        }
    }
    Ok(())
}
