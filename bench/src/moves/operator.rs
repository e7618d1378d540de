//! An operator that moves tenants over the admin API.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::http::client::Connection;
use crate::http::server::Ballast;
use crate::stopwatch::Stopwatch;

/// How often to check whether a migration has ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long a migration may take.
const PATIENCE: u32 = 60_000;

/// An operator.
pub(super) struct Operator {
    address: SocketAddr,
    token: String,
}

/// A migration that has ended.
#[derive(Debug, Clone)]
pub(super) struct Moved {
    /// The write pause, as the certificate says.
    pub(super) pause_ms: u64,
    /// The duration of the migration.
    pub(super) took_ms: u64,
    /// How often the cutover was postponed.
    pub(super) put_off: u64,
    /// When each of its phases was first seen, after it was requested.
    pub(super) phases: Vec<(Duration, String)>,
}

impl Operator {
    pub(super) async fn new(ballast: &Ballast) -> anyhow::Result<Self> {
        Ok(Self {
            address: ballast.address,
            token: ballast.token()?,
        })
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let (token, length) = (&self.token, body.len());
        let request = format!(
            "{method} /admin/v1{path} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        // The server closes idle connections, and this one may be idle for long.
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.ask(request.as_bytes()).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The shard that a tenant is on.
    pub(super) async fn find_shard(&mut self, tenant: &str) -> anyhow::Result<String> {
        let shown = self.ask("GET", &format!("/tenants/{tenant}"), "").await?;
        let shard = shown["slices"][0]["shardID"].as_str();
        Ok(shard.context("a tenant is somewhere")?.to_owned())
    }

    /// Makes sure that a tenant is on a shard.
    pub(super) async fn place(&mut self, tenant: &str, shard: &str) -> anyhow::Result<()> {
        if self.find_shard(tenant).await? != shard {
            self.move_to(tenant, shard).await?;
        }
        Ok(())
    }

    /// Moves a tenant without a window, and waits until the migration has ended.
    pub(super) async fn move_to(&mut self, tenant: &str, shard: &str) -> anyhow::Result<Moved> {
        let body = format!(r#"{{"toShardID":"{shard}","windowMs":0}}"#);
        let begun = self
            .ask("POST", &format!("/tenants/{tenant}/move"), &body)
            .await?;
        let id = begun["migrationID"].as_str().context("a move has a name")?;
        let path = format!("/migrations/{id}");
        let clock = Stopwatch::start();
        let mut phases: Vec<(Duration, String)> = Vec::new();
        for _ in 0..PATIENCE {
            tokio::time::sleep(LOOK).await;
            let shown = self.ask("GET", &path, "").await?;
            let phase = shown["phase"].as_str().unwrap_or_default();
            if phases.last().is_none_or(|(_, last)| last != phase) {
                phases.push((clock.elapsed(), phase.to_owned()));
            }
            match shown["status"].as_str() {
                Some("running" | "waiting") => {}
                Some("completed") => return moved(&shown, phases),
                other => bail!("{id} is {other:?}: {shown}"),
            }
        }
        bail!("{id} takes too long");
    }
}

impl Operator {
    /// Moves a tenant up to its window, which stays open, and returns the migration's id.
    pub(super) async fn open_window(
        &mut self,
        tenant: &str,
        shard: &str,
        sync: bool,
    ) -> anyhow::Result<String> {
        let body = format!(r#"{{"toShardID":"{shard}","windowMs":3600000,"sync":{sync}}}"#);
        let path = format!("/tenants/{tenant}/move");
        let begun = self.ask("POST", &path, &body).await?;
        let id = begun["migrationID"].as_str().context("a move has a name")?;
        self.until(id, |shown| shown["phase"] == "MonitorDualRead")
            .await?;
        Ok(id.to_owned())
    }

    /// Ends a migration's window, and waits until the migration has ended.
    pub(super) async fn complete(&mut self, id: &str) -> anyhow::Result<()> {
        self.ask("POST", &format!("/migrations/{id}/complete"), "")
            .await?;
        self.until(id, |shown| shown["status"] == "completed").await
    }

    async fn until(&mut self, id: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            let shown = self.ask("GET", &format!("/migrations/{id}"), "").await?;
            if is_so(&shown) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("{id} takes too long");
    }
}

fn moved(shown: &Value, phases: Vec<(Duration, String)>) -> anyhow::Result<Moved> {
    let certificate = &shown["certificate"];
    let number = |value: &Value| value.as_u64();
    let votes = &certificate["votes"];
    if votes["acknowledged"] != votes["present"] || votes["duplicates"] != 0 {
        bail!("votes were lost or doubled: {certificate}");
    }
    Ok(Moved {
        pause_ms: number(&certificate["pauseMs"]).context("a move says its pause")?,
        took_ms: number(&certificate["durationMs"]).unwrap_or(0),
        put_off: number(&shown["figures"]["putOff"]).unwrap_or(0),
        phases,
    })
}
