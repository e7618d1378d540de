//! Durable votes, each counted once.
//!
//! ```text
//!   shapes    the embedded engine beside the bare log, Redis and PostgreSQL
//!   spread    all votes on one item, or spread over a thousand
//!   stored    what a vote, a restart and a voter cost, the more are stored
//! ```
//! `work` is what everyone has to do, `rounds` lets them do it by turns. The
//! servers are started here (`server`); one that is missing is left out, with
//! the reason.

mod bare;
mod engine;
mod postgres;
mod redis;
mod resp;
mod rounds;
mod server;
mod shapes;
mod spread;
mod stored;
mod work;

use crate::options::Options;

pub(crate) use engine::shard;
pub(crate) use stored::reopen;

/// Items that votes are spread over.
const ITEMS: u64 = 1_000;

/// The servers that are there.
struct Servers {
    redis: Option<redis::Redis>,
    postgres: Option<postgres::Postgres>,
}

impl Servers {
    async fn start() -> Self {
        let redis = told("Redis", redis::Redis::start().await);
        let postgres = told("PostgreSQL", postgres::Postgres::start().await);
        if let Some(redis) = &redis {
            println!("Redis {}: appendfsync always", redis.version);
        }
        if let Some(postgres) = &postgres {
            println!("PostgreSQL {}: synchronous_commit on", postgres.version);
        }
        Self { redis, postgres }
    }

    /// Lets them forget everything.
    async fn clear(&self) -> anyhow::Result<()> {
        if let Some(redis) = &self.redis {
            redis.clear()?;
        }
        if let Some(postgres) = &self.postgres {
            postgres.clear().await?;
        }
        Ok(())
    }
}

/// Says why a server is left out.
fn told<T>(name: &str, started: anyhow::Result<T>) -> Option<T> {
    started
        .inspect_err(|why| println!("{name} is left out: {why:#}"))
        .ok()
}

/// Prints the tables.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let directory = options.keep.as_deref().unwrap_or(place.path());
    let wanted = |part: &str| options.part.as_deref().is_none_or(|only| only == part);
    if wanted("shapes") || wanted("spread") {
        println!();
        let servers = Servers::start().await;
        if wanted("shapes") {
            shapes::run(directory, &servers).await?;
        }
        if wanted("spread") {
            spread::run(directory, &servers).await?;
        }
    }
    if wanted("stored") {
        stored::run(directory, options).await?;
    }
    Ok(())
}
