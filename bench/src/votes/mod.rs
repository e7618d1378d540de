//! Durable votes, each counted once.
//!
//! ```text
//!   shapes    the embedded engine, compared with the bare log, Redis and PostgreSQL
//!   spread    all votes on one item, or spread over a thousand
//!   stored    what a vote, a restart and a voter cost, by the number of stored votes
//! ```
//! `work` is the work that every contender does, and `rounds` runs the contenders by
//! turns. `server` starts the servers; a missing one is skipped, with the reason.

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

/// The available servers.
struct Servers {
    redis: Option<redis::Redis>,
    postgres: Option<postgres::Postgres>,
}

impl Servers {
    async fn start() -> Self {
        let redis = or_skip("Redis", redis::Redis::start().await);
        let postgres = or_skip("PostgreSQL", postgres::Postgres::start().await);
        if let Some(redis) = &redis {
            println!("Redis {}: appendfsync always", redis.version);
        }
        if let Some(postgres) = &postgres {
            println!("PostgreSQL {}: synchronous_commit on", postgres.version);
        }
        Self { redis, postgres }
    }

    /// Deletes all data of the servers.
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

/// Prints why a server is skipped.
fn or_skip<T>(name: &str, started: anyhow::Result<T>) -> Option<T> {
    started
        .inspect_err(|why| println!("{name} is skipped: {why:#}"))
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
