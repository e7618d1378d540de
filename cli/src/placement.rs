//! `placement`: show, explain, pin, unpin, preview, drift.

use clap::Subcommand;
use serde_json::json;

use super::args::{GuardArgs, PagingArgs};
use super::body::{PlacementBody, Versioned};
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::preview;
use super::time::TimeArg;
use super::view::{self, explain, migrations, placements};
use super::{Remote, help};

/// Commands on placement.
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
        /// The slice, if the tenant is split
        #[arg(long, value_name = "N")]
        slice: Option<u32>,
        /// At a past time: 2h, "2h ago" or 2026-11-16T09:30:00Z
        #[arg(long, value_name = "TIME")]
        at: Option<TimeArg>,
        /// Show every shard, however many there are
        #[arg(long)]
        all: bool,
    },
    /// Pin a tenant to a shard; a migration moves it there later
    #[command(after_help = help::PLACEMENT_PIN)]
    Pin {
        /// The tenant
        tenant: String,
        /// The shard
        shard: String,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Remove a tenant's pin
    #[command(after_help = help::PLACEMENT_UNPIN)]
    Unpin {
        /// The tenant
        tenant: String,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Preview which tenants would move after a change of the fleet
    #[command(subcommand, after_help = help::PLACEMENT_PREVIEW)]
    Preview(preview::PreviewCommand),
    /// List tenants that are not on their preferred shard
    #[command(after_help = help::PLACEMENT_DRIFT)]
    Drift {
        #[command(flatten)]
        paging: PagingArgs,
    },
}

impl PlacementCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Show { tenant } => {
                let request = Request::get(&["tenants", &tenant, "placement"]);
                let reply = client.send(request).await?;
                view::show(screen, &reply, placements::placement_facts)?;
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
                view::show(screen, &reply, |screen, state_text| {
                    explain::explain_text(screen, state_text, at, all)
                })?;
                if at.is_none() && !screen.json {
                    show_migrations(remote, &tenant, slice).await?;
                }
            }
            Self::Pin {
                tenant,
                shard,
                guard,
            } => {
                let request = Request::put(&["tenants", &tenant, "placement", "pin"])
                    .body(json!({ "shardID": shard }))
                    .with_guard(guard);
                let reply = client.send(request).await?;
                view::show(screen, &reply, placements::placement_facts)?;
            }
            Self::Unpin { tenant, guard } => {
                let request = Request::delete(&["tenants", &tenant, "placement", "pin"]);
                let reply = client.send(request.with_guard(guard)).await?;
                view::show(screen, &reply, placements::placement_facts)?;
            }
            Self::Preview(verb) => verb.run(remote).await?,
            Self::Drift { paging } => {
                let request = Request::get(&["placement", "drift"]);
                preview::show_preview(remote, request, &paging, view::preview::PreviewKind::Drift)
                    .await?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}

/// Shows whether a slice is moving, and how its last migration ended.
async fn show_migrations(
    remote: &Remote,
    tenant: &str,
    slice: Option<u32>,
) -> Result<(), CliError> {
    let request = Request::get(&["tenants", tenant, "placement"]);
    let placed: Versioned<PlacementBody> = remote.client.send(request).await?.read()?;
    let slices = &placed.value.slices;
    // Without --slice, use the first slice, as the explanation does.
    let slice = slice.or(slices.first().map(|first| first.slice));
    for found in slices.iter().filter(|found| Some(found.slice) == slice) {
        let state_text = migrations::describe_migration(found)
            .or_else(|| migrations::describe_last_migration(found));
        if let Some(state_text) = state_text {
            remote
                .screen
                .data(format!("\nIt {state_text}.").as_bytes())?;
        }
    }
    Ok(())
}
