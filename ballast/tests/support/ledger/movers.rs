//! Whoever moves tenants from shard to shard while the clients vote: some moves
//! are called off, some are brought back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ballast_migration_engine::audit::{Audit, Changed};
use serde_json::{Value, json};

use super::TENANTS;
use super::chance::Chance;
use crate::support::{Call, within};

/// How long moves may take to come to their end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The admin API of a process that may be away.
#[derive(Clone)]
pub struct Desk {
    /// What clients use.
    pub http: reqwest::Client,
    /// Where it is.
    pub admin: String,
    /// The token.
    pub token: String,
}

impl Desk {
    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.http, method, &format!("{}{path}", self.admin)).token(&self.token)
    }

    /// How the moves stand, by status.
    pub async fn standing(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/migrations?limit=1000{cursor}");
            let page = within(PATIENCE, "the moves are listed", async || {
                let answer = self.call("GET", &path).try_send().await?;
                (answer.status == 200).then_some(answer.body)
            })
            .await;
            for item in page["items"].as_array().unwrap() {
                let status = item["status"].as_str().unwrap().to_owned();
                *found.entry(status).or_insert(0) += 1;
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    }

    /// How many moves have ended so.
    pub async fn ended(&self, status: &str) -> usize {
        self.standing().await.get(status).copied().unwrap_or(0)
    }

    async fn show(&self, id: &str) -> Option<Value> {
        let answer = self
            .call("GET", &format!("/migrations/{id}"))
            .try_send()
            .await?;
        (answer.status == 200).then_some(answer.body)
    }

    /// Asks something of a move until that is taken or refused.
    async fn insist(&self, id: &str, verb: &str) {
        let path = format!("/migrations/{id}/{verb}");
        loop {
            let answer = self.call("POST", &path).try_send().await;
            if answer.is_some_and(|answer| matches!(answer.status, 200 | 409)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no move is under way, and says which locks are left.
    pub async fn rest(&self) -> Vec<String> {
        within(PATIENCE, "every move is over", async || {
            let answer = self.call("GET", "/migrations?open=true").try_send().await?;
            let items = answer.body["items"].as_array()?;
            // A window that was left open for long is ended now.
            for item in items {
                let path = format!("/migrations/{}/complete", item["migrationID"].as_str()?);
                let _ = self.call("POST", &path).try_send().await;
            }
            items.is_empty().then_some(())
        })
        .await;
        let mut left = Vec::new();
        for tenant in TENANTS {
            left.extend(self.audited(tenant).await);
            let tenant = self.call("GET", &format!("/tenants/{tenant}")).send().await;
            for slice in tenant.body["slices"].as_array().unwrap() {
                if !slice["moving"].is_null() || !slice["sealingSince"].is_null() {
                    left.push(format!("a lock is left: {slice}"));
                }
            }
        }
        left
    }

    /// What is wrong with the history of a tenant's record.
    async fn audited(&self, tenant: &str) -> Vec<String> {
        let mut history = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/events?kind=tenant&id={tenant}&limit=1000{cursor}");
            let page = self.call("GET", &path).send().await.body;
            let read = |record: &Value| serde_json::from_value(record.clone()).unwrap();
            for event in page["items"].as_array().unwrap() {
                history.push(Changed {
                    version: event["version"].as_u64().unwrap(),
                    before: read(&event["before"]),
                    after: read(&event["after"]),
                });
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        history.reverse();
        let found = Audit::of(history).found.into_iter();
        found.map(|fault| format!("{tenant}: {fault}")).collect()
    }
}

/// What becomes of a move on purpose.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Nothing: it ends by itself.
    Left,
    /// It is called off at some moment.
    Cancelled,
    /// It is brought back in its window.
    Reversed,
    /// It is paused and resumed.
    Paused,
}

/// Moves a tenant until it is told to stop; whatever is answered that must not
/// be, is said.
pub async fn keep_moving(
    desk: Desk,
    tenant: &'static str,
    stop: Arc<AtomicBool>,
    mut chance: Chance,
) -> Vec<String> {
    use Fate::{Cancelled, Left, Paused, Reversed};
    let fates = [
        Left, Left, Left, Cancelled, Cancelled, Reversed, Reversed, Paused,
    ];
    let mut findings = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let shard = format!("shard-{}", chance.between(1, 4));
        let fate = fates[chance.below(fates.len())];
        let window = match fate {
            Reversed => 3_600_000,
            _ => [0, 0, 300][chance.below(3)],
        };
        let sync = chance.below(3) == 0;
        let body = json!({"toShardID": shard, "windowMs": window, "sync": sync});
        let call = desk.call("POST", &format!("/tenants/{tenant}/move"));
        match call.json(&body).try_send().await {
            Some(answer) if answer.status == 202 => {
                let id = answer.body["migrationID"].as_str().unwrap().to_owned();
                findings.extend(meet(&desk, &id, fate, &stop, &mut chance).await);
            }
            // Busy, there already, or away.
            Some(answer) if matches!(answer.status, 409 | 503) => {}
            Some(answer) => findings.push(format!("a move was answered with {}", answer.text)),
            None => {}
        }
        let ms = chance.between(20, 100) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    findings
}

/// A move meets its fate, and is waited for. Nobody touches what is stored: if
/// something was found wrong, that is returned.
async fn meet(
    desk: &Desk,
    id: &str,
    fate: Fate,
    stop: &AtomicBool,
    chance: &mut Chance,
) -> Option<String> {
    // Half of the cancellations come early: on a fast disk a move is cut over soon.
    let early = matches!(fate, Fate::Cancelled) && chance.below(2) == 0;
    let ms = chance.between(0, if early { 30 } else { 300 }) as u64;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    match fate {
        Fate::Left => {}
        Fate::Cancelled => desk.insist(id, "cancel").await,
        Fate::Paused => {
            desk.insist(id, "pause").await;
            desk.insist(id, "resume").await;
        }
        Fate::Reversed => {}
    }
    while !stop.load(Ordering::SeqCst) {
        if let Some(shown) = desk.show(id).await {
            if !shown["ended"].is_null() {
                let found = &shown["findings"];
                return (!found.is_null()).then(|| format!("{id} has found {found}"));
            }
            if matches!(fate, Fate::Reversed) && shown["stage"] == "cutOver" {
                desk.insist(id, "reverse").await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    None
}
