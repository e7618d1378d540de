//! PostgreSQL as a contender: one transaction per call, which inserts the
//! voters' rows and adds those that were new to the counters.
//!
//! The rows of a call arrive as two arrays: one round trip, one statement, no parsing row
//! by row. Counters are locked in the order of items, because transactions would deadlock
//! otherwise.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};

use super::rounds::Contender;
use super::server::{self, Server};
use super::work::{Took, Work, voter};
use crate::stopwatch::{Stopwatch, cpu_time_of_family};

/// Counter rows per item when counters are spread.
const LANES: usize = 10;

const SCHEMA: &str = "\
create table votes (poll int8, voter text, item int4, primary key (poll, voter));
create table counters (
  poll int8, item int4, lane int4, votes int8, primary key (poll, item, lane)
) with (fillfactor = 50);
create function cast_one(poll_ int8, voter_ text, item_ int4, lane_ int4)
returns int8 language plpgsql as $$
begin
  insert into votes values (poll_, voter_, item_) on conflict do nothing;
  if not found then return 0; end if;
  update counters set votes = votes + 1
  where poll = poll_ and item = item_ and lane = lane_;
  return 1;
end $$;
create function cast_many(poll_ int8, voters text[], items int4[], lane_ int4)
returns int8 language plpgsql as $$
declare items_ int4[]; more_ int8[];
begin
  with counted as (
    insert into votes select poll_, * from unnest(voters, items)
    on conflict do nothing returning item
  ), sums as (
    select item, count(*) as more from counted group by item
  )
  select array_agg(item), array_agg(more) into items_, more_ from sums;
  perform 1 from counters
  where poll = poll_ and lane = lane_ and item = any (items_)
  order by item for no key update;
  update counters c set votes = c.votes + sums.more
  from unnest(items_, more_) as sums (item, more)
  where c.poll = poll_ and c.lane = lane_ and c.item = sums.item;
  return (select coalesce(sum(more), 0) from unnest(more_) more);
end $$;";

/// How votes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterLayout {
    /// One counter row per item.
    Plain,
    /// Ten counter rows per item; each caller uses one of them.
    Spread,
}

/// A server started by this benchmark.
pub(super) struct Postgres {
    server: Server,
    _directory: tempfile::TempDir,
    pub(super) version: String,
}

impl Postgres {
    /// Starts the server; an error says why it cannot be measured.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let places = installed();
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let binary = server::find("postgres", &places)
            .context("there is no postgres; on Debian: apt-get install postgresql")?;
        let directory = tempfile::Builder::new()
            .prefix("ballast-postgres")
            .tempdir()?;
        let home = directory.path();
        let user = server::is_root().then_some((server::NOBODY, home));
        if user.is_some() {
            std::os::unix::fs::chown(home, Some(server::NOBODY), Some(server::NOBODY))?;
        }
        let data = home.join("data");
        let mut create = server::mortal(&binary.with_file_name("initdb"), user)?;
        create.arg("-D").arg(&data);
        create.args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
        create.current_dir(home).stdin(Stdio::null());
        let created = create.output()?;
        let said = String::from_utf8_lossy(&created.stderr).into_owned();
        ensure!(created.status.success(), "initdb: {}", said.trim());
        let port = server::free_port()?;
        let mut start = server::mortal(&binary, user)?;
        start.current_dir(home).arg("-D").arg(&data);
        start.args(["-p", &port.to_string()]);
        start.args(["-c", "listen_addresses=127.0.0.1"]);
        start.args(["-c", &format!("unix_socket_directories={}", home.display())]);
        // Default durability; no checkpoint or vacuum during a round.
        for setting in [
            "synchronous_commit=on",
            "fsync=on",
            "shared_buffers=1GB",
            "wal_buffers=64MB",
            "max_wal_size=4GB",
            "min_wal_size=1GB",
            "checkpoint_timeout=1h",
            "autovacuum=off",
        ] {
            start.args(["-c", setting]);
        }
        let server = Server::start(start, port, &home.join("log")).await?;
        let mut postgres = Self {
            server,
            _directory: directory,
            version: String::new(),
        };
        let client = connect(port).await?;
        client.batch_execute(SCHEMA).await?;
        let version = client.query_one("show server_version", &[]).await?;
        let version: String = version.get(0);
        version
            .split(' ')
            .next()
            .unwrap_or("?")
            .clone_into(&mut postgres.version);
        Ok(postgres)
    }

    /// Deletes all data, so that each table starts empty.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        let client = connect(self.server.port).await?;
        let fill = format!(
            "truncate votes, counters;
             insert into counters select poll, item, 0, 0
             from generate_series(0, 1) poll, generate_series(0, {last}) item;
             insert into counters select poll, item, lane, 0
             from generate_series(10, 11) poll, generate_series(0, {last}) item,
             generate_series(0, {lanes}) lane;
             analyze counters; checkpoint",
            last = super::ITEMS - 1,
            lanes = LANES - 1,
        );
        for statement in fill.split(';') {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Creates a contender; contenders with different numbers, 0 or 1, count separately.
    pub(super) fn contender(&self, way: CounterLayout, number: i64) -> PostgresContender {
        let poll = match way {
            CounterLayout::Plain => number,
            CounterLayout::Spread => 10 + number,
        };
        PostgresContender {
            way,
            poll,
            port: self.server.port,
            process: self.server.process(),
            clients: Vec::new(),
        }
    }
}

/// Where Debian installs the servers, newest first.
fn installed() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let mut versions: Vec<(u32, PathBuf)> = versions
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, entry.path().join("bin")))
        })
        .collect();
    versions.sort_unstable_by(|one, two| two.cmp(one));
    versions.into_iter().map(|(_, path)| path).collect()
}

async fn connect(port: u16) -> anyhow::Result<Client> {
    let address = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    // The port may answer a moment before the database does.
    let mut tries = 0;
    loop {
        match tokio_postgres::connect(&address, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if tries >= 50 => return Err(error.into()),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

pub(super) struct PostgresContender {
    way: CounterLayout,
    poll: i64,
    port: u16,
    process: u32,
    clients: Vec<std::sync::Arc<Client>>,
}

/// A call's votes.
struct CallVotes {
    voters: Vec<String>,
    items: Vec<i32>,
}

/// Makes calls one after the other.
async fn talk(client: &Client, poll: i64, lane: i32, calls: Vec<CallVotes>) -> anyhow::Result<()> {
    let one = client.prepare("select cast_one($1, $2, $3, $4)").await?;
    let many = client.prepare("select cast_many($1, $2, $3, $4)").await?;
    for CallVotes { voters, items } in calls {
        let row = match (&voters[..], &items[..]) {
            ([voter], [item]) => client.query_one(&one, &[&poll, voter, item, &lane]).await?,
            _ => {
                let all: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
                    &[&poll, &voters, &items, &lane];
                client.query_one(&many, all).await?
            }
        };
        let _counted: i64 = row.get(0);
    }
    Ok(())
}

#[async_trait]
impl Contender for PostgresContender {
    async fn cast(&mut self, work: &Work) -> anyhow::Result<Took> {
        while self.clients.len() < work.shape.calls {
            self.clients.push(connect(self.port).await?.into());
        }
        let hands = work.dealt(|voters| CallVotes {
            items: voters.clone().map(|n| i32::from(work.item(n))).collect(),
            voters: voters.map(voter).collect(),
        });
        let (watch, before) = (Stopwatch::start(), cpu_time_of_family(self.process));
        let mut tasks = Vec::new();
        for (number, calls) in hands.into_iter().enumerate() {
            let (client, poll) = (self.clients[number].clone(), self.poll);
            let lane = match self.way {
                CounterLayout::Plain => 0,
                CounterLayout::Spread => (number % LANES) as i32,
            };
            tasks.push(tokio::spawn(async move {
                talk(&client, poll, lane, calls).await
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(Took {
            wall: watch.elapsed(),
            cpu: cpu_time_of_family(self.process).saturating_sub(before),
        })
    }

    async fn counted(&mut self) -> anyhow::Result<Option<u64>> {
        let client = connect(self.port).await?;
        let sum = "select sum(votes)::int8 from counters where poll = $1";
        let sum: i64 = client.query_one(sum, &[&self.poll]).await?.get(0);
        Ok(Some(sum.unsigned_abs()))
    }
}
