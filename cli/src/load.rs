//! `load`: the load of shards and tenants, now and in the past.

use std::time::Duration;

use clap::Subcommand;

use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::generate::GenerateArgs;
use super::globals::Globals;
use super::output::Screen;
use super::time::TimeArg;
use super::view::{self, load};
use super::{Remote, help};

/// Commands on load.
#[derive(Debug, Subcommand)]
#[command(after_help = help::LOAD)]
pub(crate) enum LoadCommand {
    /// Show the load of every shard and of the hottest tenants
    #[command(after_help = help::LOAD_SHOW)]
    Show {
        /// Only this shard, and the tenants on it
        #[arg(long, value_name = "ID")]
        shard: Option<String>,
        /// Only this tenant, and the shards it is on
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// At a past time: 10min, 2026-11-16 or a full time
        #[arg(long, value_name = "TIME")]
        at: Option<TimeArg>,
        /// Maximum number of tenants, the hottest first
        #[arg(long, value_name = "N", default_value_t = 10)]
        tenants: u32,
    },
    /// Write recorded load to stdout, one JSON object per line
    #[command(after_help = help::LOAD_EXPORT)]
    Export {
        #[command(flatten)]
        stretch: TimeRangeArgs,
        /// Minimum step, such as 1min [default: as recorded]
        #[arg(long, value_name = "TIME", value_parser = crate::time::parse_duration)]
        step: Option<Duration>,
    },
    /// Write the load of a synthetic fleet to stdout, to test rules and plans
    #[command(after_help = help::LOAD_GENERATE)]
    Generate(GenerateArgs),
    /// Show the daily usage of each tenant and its cost
    #[command(after_help = help::LOAD_USAGE)]
    Usage {
        /// Only this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// Start: 30d, 2026-11-01 or a full time
        #[arg(long, value_name = "TIME", default_value = "30d")]
        from: TimeArg,
        /// End [default: now]
        #[arg(long, value_name = "TIME")]
        to: Option<TimeArg>,
        /// As CSV
        #[arg(long)]
        csv: bool,
    },
    /// Forecast when shards will exceed their limits
    #[command(after_help = help::LOAD_FORECAST)]
    Forecast {
        /// How many days ahead
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
}

/// A past interval.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TimeRangeArgs {
    /// Start: 1h, 2026-11-16 or a full time
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) from: TimeArg,
    /// End [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<TimeArg>,
}

impl TimeRangeArgs {
    /// Adds it to a request.
    pub(crate) fn apply_to(&self, remote: &Remote, request: Request) -> Request {
        let now = remote.screen.now;
        request
            .query("from", Some(self.from.past(now)))
            .query("to", self.to.map(|when| when.past(now)))
    }
}

impl LoadCommand {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        if let Self::Generate(args) = self {
            return args.run(screen);
        }
        let remote = &Remote::new(globals, screen)?;
        match self {
            Self::Generate(_) => {}
            Self::Show {
                shard,
                tenant,
                at,
                tenants,
            } => {
                let request = Request::get(&["load"])
                    .query("shardID", shard)
                    .query("tenantID", tenant)
                    .query("at", at.map(|when| when.past(screen.now)))
                    .query("tenants", Some(tenants));
                let reply = remote.client.send(request).await?;
                view::show(screen, &reply, load::current_load)?;
            }
            Self::Export { stretch, step } => {
                let step = step.map(|step| u64::try_from(step.as_millis()).unwrap_or(u64::MAX));
                let request = stretch.apply_to(remote, Request::get(&["load", "record"]));
                let reply = remote.client.send(request.query("step", step)).await?;
                screen.data(reply.bytes.trim_ascii_end())?;
            }
            Self::Usage {
                tenant,
                from,
                to,
                csv,
            } => {
                let request = Request::get(&["usage"])
                    .query("tenantID", tenant)
                    .query("from", Some(from.past(screen.now)))
                    .query("to", to.map(|when| when.past(screen.now)))
                    .query("format", csv.then_some("csv"));
                let reply = remote.client.send(request).await?;
                match csv {
                    true => screen.data(reply.bytes.trim_ascii_end())?,
                    false => view::show(screen, &reply, load::usage_table)?,
                }
            }
            Self::Forecast { days } => {
                let request = Request::get(&["forecast"]).query("days", Some(days));
                let reply = remote.client.send(request).await?;
                view::show(screen, &reply, load::forecast_table)?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}
