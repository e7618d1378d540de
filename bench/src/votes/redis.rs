//! Redis as a contender: every vote is synced to the append-only file before it is
//! answered; it sets the voter's key once and increments the item's score.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use async_trait::async_trait;

use super::resp::{Reply, RespConnection, command};
use super::rounds::Contender;
use super::server::{self, Server};
use super::work::{Took, Work, voter};
use crate::stopwatch::{Stopwatch, cpu_time_of_family};

/// The script for one vote; returns 1 if it was counted.
const ONE: &str = "\
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
  redis.call('ZINCRBY', KEYS[2], 1, ARGV[1])
  return 1
end
return 0";
/// The script for many votes: a voter and an item, and so on; returns how many were
/// counted.
const MANY: &str = "\
local counted = 0
for n = 1, #ARGV, 2 do
  if redis.call('SET', KEYS[1] .. ARGV[n], ARGV[n + 1], 'NX') then
    redis.call('ZINCRBY', KEYS[2], 1, ARGV[n + 1])
    counted = counted + 1
  end
end
return counted";
const SUM: &str = "\
local scores, sum = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), 0
for n = 2, #scores, 2 do sum = sum + tonumber(scores[n]) end
return sum";

/// How votes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendMode {
    /// A script per vote; a call's scripts are sent together.
    Pipeline,
    /// A script per call.
    Script,
}

/// A server started by this benchmark.
pub(super) struct Redis {
    server: Server,
    _directory: tempfile::TempDir,
    pub(super) version: String,
}

impl Redis {
    /// Starts the server; an error says why it cannot be measured.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let binary = server::find("redis-server", &[Path::new("/usr/bin")])
            .context("there is no redis-server; on Debian: apt-get install redis-server")?;
        let directory = tempfile::Builder::new().prefix("ballast-redis").tempdir()?;
        let port = server::free_port()?;
        let mut start = server::mortal(&binary, None)?;
        start.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        start.args(["--appendonly", "yes", "--appendfsync", "always"]);
        start.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        start.arg("--dir").arg(directory.path());
        let log = directory.path().join("log");
        let server = Server::start(start, port, &log).await?;
        let told = Command::new(&binary)
            .arg("--version")
            .stdin(Stdio::null())
            .output()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = told.split("v=").nth(1).and_then(|v| v.split(' ').next());
        Ok(Self {
            server,
            _directory: directory,
            version: version.unwrap_or("?").to_owned(),
        })
    }

    /// Deletes all data, so that each table starts empty.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        RespConnection::open(self.server.port)?.ask(&["FLUSHALL"])?;
        Ok(())
    }

    /// Creates a contender; contenders with different numbers count separately.
    pub(super) fn contender(&self, way: SendMode, number: usize) -> anyhow::Result<RedisContender> {
        let mut connection = RespConnection::open(self.server.port)?;
        let script = match way {
            SendMode::Pipeline => ONE,
            SendMode::Script => MANY,
        };
        let Reply::Text(script) = connection.ask(&["SCRIPT", "LOAD", script])? else {
            anyhow::bail!("Redis does not name the script");
        };
        Ok(RedisContender {
            way,
            name: format!("{way:?}-{number}"),
            script,
            port: self.server.port,
            process: self.server.process(),
            connections: Vec::new(),
        })
    }
}

pub(super) struct RedisContender {
    way: SendMode,
    /// The prefix of its keys.
    name: String,
    script: String,
    port: u16,
    process: u32,
    connections: Vec<RespConnection>,
}

impl RedisContender {
    fn counts(&self) -> String {
        format!("{}:counts", self.name)
    }

    /// The bytes of a call, and its number of replies.
    fn call(&self, work: &Work, voters: std::ops::Range<u64>) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let (script, counts) = (self.script.as_str(), self.counts());
        let prefix = format!("{}:", self.name);
        match self.way {
            SendMode::Pipeline => {
                let answers = voters.clone().count();
                for n in voters {
                    let (voter, item) = (format!("{prefix}{}", voter(n)), work.item(n).to_string());
                    command(
                        &mut bytes,
                        &["EVALSHA", script, "2", &voter, &counts, &item],
                    );
                }
                (bytes, answers)
            }
            SendMode::Script => {
                let votes: Vec<String> = voters
                    .flat_map(|n| [voter(n), work.item(n).to_string()])
                    .collect();
                let head = ["EVALSHA", script, "2", &prefix, &counts];
                let parts = head.into_iter().chain(votes.iter().map(String::as_str));
                command(&mut bytes, &parts.collect::<Vec<_>>());
                (bytes, 1)
            }
        }
    }
}

/// Sends calls one after the other.
fn talk(connection: &mut RespConnection, calls: &[(Vec<u8>, usize)]) -> anyhow::Result<()> {
    for (bytes, answers) in calls {
        connection.send(bytes)?;
        for _ in 0..*answers {
            connection.reply()?;
        }
    }
    Ok(())
}

#[async_trait]
impl Contender for RedisContender {
    async fn cast(&mut self, work: &Work) -> anyhow::Result<Took> {
        while self.connections.len() < work.shape.calls {
            self.connections.push(RespConnection::open(self.port)?);
        }
        let hands = work.dealt(|voters| self.call(work, voters));
        let (watch, before) = (Stopwatch::start(), cpu_time_of_family(self.process));
        std::thread::scope(|scope| {
            let talks: Vec<_> = self
                .connections
                .iter_mut()
                .zip(&hands)
                .map(|(connection, calls)| scope.spawn(|| talk(connection, calls)))
                .collect();
            talks.into_iter().try_for_each(|talk| match talk.join() {
                Ok(outcome) => outcome,
                Err(_) => Err(anyhow::anyhow!("a caller gave up")),
            })
        })?;
        Ok(Took {
            wall: watch.elapsed(),
            cpu: cpu_time_of_family(self.process).saturating_sub(before),
        })
    }

    async fn counted(&mut self) -> anyhow::Result<Option<u64>> {
        let mut connection = RespConnection::open(self.port)?;
        match connection.ask(&["EVAL", SUM, "1", &self.counts()])? {
            Reply::Number(sum) => Ok(Some(sum.unsigned_abs())),
            Reply::Text(other) => anyhow::bail!("Redis answers {other:?}"),
        }
    }
}
