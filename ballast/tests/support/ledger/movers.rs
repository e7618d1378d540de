//! Moves tenants from shard to shard while the clients vote; cancels some migrations and reverses
//! others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ballast_migration_engine::audit::{HistoryAudit, TenantChange};
use serde_json::{Value, json};

use super::TENANTS;
use super::random::SeededRandom;
use crate::support::{Call, within};

/// How long migrations may take to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client of the admin API that retries while the process is down.
#[derive(Clone)]
pub struct AdminClient {
    /// The HTTP client.
    pub http: reqwest::Client,
    /// The admin API's URL.
    pub admin: String,
    /// The token.
    pub token: String,
}

impl AdminClient {
    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.http, method, &format!("{}{path}", self.admin)).token(&self.token)
    }

    /// How many migrations have each status.
    pub async fn count_by_status(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/migrations?limit=1000{cursor}");
            let page = within(PATIENCE, "the list of migrations", async || {
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

    /// How many migrations have this status.
    pub async fn count_with_status(&self, status: &str) -> usize {
        self.count_by_status()
            .await
            .get(status)
            .copied()
            .unwrap_or(0)
    }

    async fn show(&self, id: &str) -> Option<Value> {
        let answer = self
            .call("GET", &format!("/migrations/{id}"))
            .try_send()
            .await?;
        (answer.status == 200).then_some(answer.body)
    }

    /// Sends a migration command until it is accepted or refused.
    async fn request_until_answered(&self, id: &str, verb: &str) {
        let path = format!("/migrations/{id}/{verb}");
        loop {
            let answer = self.call("POST", &path).try_send().await;
            if answer.is_some_and(|answer| matches!(answer.status, 200 | 409)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no migration is running; returns the locks that are left.
    pub async fn wait_until_idle(&self) -> Vec<String> {
        within(PATIENCE, "the end of all migrations", async || {
            let answer = self.call("GET", "/migrations?open=true").try_send().await?;
            let items = answer.body["items"].as_array()?;
            // End a window that was left open for long.
            for item in items {
                let path = format!("/migrations/{}/complete", item["migrationID"].as_str()?);
                let _ = self.call("POST", &path).try_send().await;
            }
            items.is_empty().then_some(())
        })
        .await;
        let mut left = Vec::new();
        for tenant in TENANTS {
            left.extend(self.audit_history(tenant).await);
            let tenant = self.call("GET", &format!("/tenants/{tenant}")).send().await;
            for slice in tenant.body["slices"].as_array().unwrap() {
                if !slice["moving"].is_null() || !slice["sealingSince"].is_null() {
                    left.push(format!("a lock is left: {slice}"));
                }
            }
        }
        left
    }

    /// Audits the history of a tenant's record; returns the violations.
    async fn audit_history(&self, tenant: &str) -> Vec<String> {
        let mut history = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/events?kind=tenant&id={tenant}&limit=1000{cursor}");
            let page = self.call("GET", &path).send().await.body;
            let read = |record: &Value| serde_json::from_value(record.clone()).unwrap();
            for event in page["items"].as_array().unwrap() {
                history.push(TenantChange {
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
        let found = HistoryAudit::replay_history(history).findings.into_iter();
        found.map(|fault| format!("{tenant}: {fault}")).collect()
    }
}

/// What a mover does to a migration.
#[derive(Debug, Clone, Copy)]
enum Intervention {
    /// Let it end by itself.
    Nothing,
    /// Cancel it at a random moment.
    Cancel,
    /// Reverse it in its window.
    Reverse,
    /// Pause and resume it.
    Pause,
}

/// Moves a tenant until `stop` is set; returns all unexpected answers.
pub async fn keep_moving(
    admin: AdminClient,
    tenant: &'static str,
    stop: Arc<AtomicBool>,
    mut random: SeededRandom,
) -> Vec<String> {
    use Intervention::{Cancel, Nothing, Pause, Reverse};
    let interventions = [
        Nothing, Nothing, Nothing, Cancel, Cancel, Reverse, Reverse, Pause,
    ];
    let mut findings = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let shard = format!("shard-{}", random.between(1, 4));
        let intervention = interventions[random.below(interventions.len())];
        let window = match intervention {
            Reverse => 3_600_000,
            _ => [0, 0, 300][random.below(3)],
        };
        let sync = random.below(3) == 0;
        let body = json!({"toShardID": shard, "windowMs": window, "sync": sync});
        let call = admin.call("POST", &format!("/tenants/{tenant}/move"));
        match call.json(&body).try_send().await {
            Some(answer) if answer.status == 202 => {
                let id = answer.body["migrationID"].as_str().unwrap().to_owned();
                findings.extend(intervene(&admin, &id, intervention, &stop, &mut random).await);
            }
            // Busy, on that shard already, or unavailable.
            Some(answer) if matches!(answer.status, 409 | 503) => {}
            Some(answer) => {
                findings.push(format!("a move request was answered with {}", answer.text))
            }
            None => {}
        }
        let ms = random.between(20, 100) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    findings
}

/// Applies an intervention to a migration and waits for its end. Nothing damages stored rows here,
/// so any finding of the migration is returned as a violation.
async fn intervene(
    admin: &AdminClient,
    id: &str,
    intervention: Intervention,
    stop: &AtomicBool,
    random: &mut SeededRandom,
) -> Option<String> {
    // Half of the cancellations come early: on a fast disk a migration cuts over soon.
    let early = matches!(intervention, Intervention::Cancel) && random.below(2) == 0;
    let ms = random.between(0, if early { 30 } else { 300 }) as u64;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    match intervention {
        Intervention::Nothing => {}
        Intervention::Cancel => admin.request_until_answered(id, "cancel").await,
        Intervention::Pause => {
            admin.request_until_answered(id, "pause").await;
            admin.request_until_answered(id, "resume").await;
        }
        Intervention::Reverse => {}
    }
    while !stop.load(Ordering::SeqCst) {
        if let Some(shown) = admin.show(id).await {
            if !shown["ended"].is_null() {
                let found = &shown["findings"];
                return (!found.is_null()).then(|| format!("{id} has findings: {found}"));
            }
            if matches!(intervention, Intervention::Reverse) && shown["stage"] == "cutOver" {
                admin.request_until_answered(id, "reverse").await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    None
}
