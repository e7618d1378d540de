//! `load`: what shards and tenants use, now and in the past.

use std::time::Duration;

use clap::Subcommand;

use super::client::Request;
use super::failure::{Failure, Verdict};
use super::generate::GenerateArgs;
use super::globals::Globals;
use super::output::Screen;
use super::time::When;
use super::view::{self, load};
use super::{Remote, help};

/// What can be asked about load.
#[derive(Debug, Subcommand)]
#[command(after_help = help::LOAD)]
pub(crate) enum LoadCommand {
    /// Show what every shard and the hottest tenants use
    #[command(after_help = help::LOAD_SHOW)]
    Show {
        /// Only this shard, and the tenants on it
        #[arg(long, value_name = "ID")]
        shard: Option<String>,
        /// Only this tenant, and the shards it is on
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// At a moment of the past: 10min, 2026-11-16 or a full time
        #[arg(long, value_name = "TIME")]
        at: Option<When>,
        /// How many tenants at the most, the hottest first
        #[arg(long, value_name = "N", default_value_t = 10)]
        tenants: u32,
    },
    /// Write recorded load to stdout, one JSON object per line
    #[command(after_help = help::LOAD_EXPORT)]
    Export {
        #[command(flatten)]
        stretch: StretchArgs,
        /// In steps of at least this length, such as 1min; as recorded when absent
        #[arg(long, value_name = "TIME", value_parser = crate::time::parse_duration)]
        step: Option<Duration>,
    },
    /// Write the load of a made-up fleet to stdout, to try rules and plans on
    #[command(after_help = help::LOAD_GENERATE)]
    Generate(GenerateArgs),
    /// Show what each tenant used on each day, and what that costs
    #[command(after_help = help::LOAD_USAGE)]
    Usage {
        /// Only this tenant
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// From when: 30d, 2026-11-01 or a full time
        #[arg(long, value_name = "TIME", default_value = "30d")]
        from: When,
        /// Until when; now when absent
        #[arg(long, value_name = "TIME")]
        to: Option<When>,
        /// As CSV
        #[arg(long)]
        csv: bool,
    },
    /// Say in how many days shards are over their limits
    #[command(after_help = help::LOAD_FORECAST)]
    Forecast {
        /// How many days ahead
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
}

/// An interval of the past.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StretchArgs {
    /// From when: 1h, 2026-11-16 or a full time
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) from: When,
    /// Until when; now when absent
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<When>,
}

impl StretchArgs {
    /// Adds it to a request.
    pub(crate) fn of(&self, remote: &Remote, request: Request) -> Request {
        let now = remote.screen.now;
        request
            .query("from", Some(self.from.past(now)))
            .query("to", self.to.map(|when| when.past(now)))
    }
}

impl LoadCommand {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
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
                view::show(screen, &reply, load::now)?;
            }
            Self::Export { stretch, step } => {
                let step = step.map(|step| u64::try_from(step.as_millis()).unwrap_or(u64::MAX));
                let request = stretch.of(remote, Request::get(&["load", "record"]));
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
                    false => view::show(screen, &reply, load::usage)?,
                }
            }
            Self::Forecast { days } => {
                let request = Request::get(&["forecast"]).query("days", Some(days));
                let reply = remote.client.send(request).await?;
                view::show(screen, &reply, load::forecast)?;
            }
        }
        Ok(Verdict::Done)
    }
}
