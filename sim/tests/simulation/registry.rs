//! The registry as routers and workers reach it: the one in memory, over a
//! network, in a process that crashes and starts again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ballast_control_plane::registry::memory::{MemoryRegistry, Place};
use ballast_domain::Timestamp;
use ballast_domain::registry::{
    Commit, CommitError, Event, EventQuery, Kind, Record, RecordKey, RecordQuery, Registry, Reply,
    StoreError, StoreResult,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::trace::{self, SimClock, note};
use crate::{stage, weather};

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The registry, wherever its process is.
#[derive(Clone)]
pub(crate) struct Far {
    place: Place,
    open: Arc<Mutex<Option<MemoryRegistry>>>,
}

fn away() -> StoreError {
    StoreError::new("reach the registry", "it is away")
}

impl Far {
    pub(crate) fn start() -> Self {
        let place = Place::default();
        let open = MemoryRegistry::open(&place, Arc::new(SimClock));
        Self {
            place,
            open: Arc::new(Mutex::new(Some(open))),
        }
    }

    /// The registry, past the network.
    pub(crate) fn near(&self) -> StoreResult<MemoryRegistry> {
        self.open.lock().unwrap().clone().ok_or_else(away)
    }

    pub(crate) fn crash(&self) {
        if let Some(open) = self.open.lock().unwrap().take() {
            note!("the registry crashes");
            trace::count(|counts| counts.crashes += 1);
            open.close();
        }
    }

    pub(crate) fn restart(&self) {
        let mut open = self.open.lock().unwrap();
        if open.is_none() {
            note!("the registry starts");
            *open = Some(MemoryRegistry::open(&self.place, Arc::new(SimClock)));
        }
    }

    /// The way there and back of something that only reads.
    async fn ways(&self) -> StoreResult<MemoryRegistry> {
        let fate = weather::fate();
        sleep(fate.there).await;
        if fate.lost || fate.unanswered {
            sleep(PATIENCE).await;
            return Err(away());
        }
        // What it reads it reads now, and tells later.
        let open = self.near()?;
        Ok(open)
    }
}

#[async_trait]
impl Registry for Far {
    async fn commit(&self, commit: Commit) -> Result<u64, CommitError> {
        let fate = weather::fate();
        let (sender, receiver) = oneshot::channel();
        let mut held = None;
        if fate.lost {
            note!("{} lost", commit.action);
            held = Some(sender);
        } else {
            let far = self.clone();
            let (sender, kept) = match fate.unanswered {
                true => (None, Some(sender)),
                false => (Some(sender), None),
            };
            held = held.or(kept);
            stage::spawn(stage::WORLD, async move {
                sleep(fate.there).await;
                let Ok(open) = far.near() else {
                    return;
                };
                let outcome = open.commit(commit.clone()).await;
                note!("{}: {}", commit.action, told(&outcome));
                sleep(fate.back).await;
                if let Some(sender) = sender {
                    let _ = sender.send(outcome);
                }
                if let Some(later) = fate.again {
                    sleep(later).await;
                    if let Ok(open) = far.near() {
                        let again = open.commit(commit.clone()).await;
                        note!("{} again: {}", commit.action, told(&again));
                    }
                }
            });
        }
        let answer = timeout(PATIENCE, receiver).await;
        drop(held);
        match answer {
            Ok(Ok(outcome)) => outcome,
            _ => Err(away().into()),
        }
    }

    async fn check(&self) -> StoreResult<()> {
        self.near()?.check().await
    }

    async fn get(&self, key: &RecordKey) -> StoreResult<Option<Record>> {
        let found = self.ways().await?.get(key).await;
        sleep(weather::way()).await;
        found
    }

    async fn list(&self, query: &RecordQuery) -> StoreResult<Vec<Record>> {
        let found = self.ways().await?.list(query).await;
        sleep(weather::way()).await;
        found
    }

    async fn tallies(&self, kind: Kind, prefix: &str) -> StoreResult<BTreeMap<String, u64>> {
        self.near()?.tallies(kind, prefix).await
    }

    async fn revision(&self) -> StoreResult<u64> {
        self.near()?.revision().await
    }

    async fn wait_past(&self, revision: u64) -> StoreResult<()> {
        self.near()?.wait_past(revision).await?;
        sleep(weather::news()).await;
        Ok(())
    }

    async fn changes(&self, revision: u64, limit: u32) -> StoreResult<Vec<Event>> {
        self.ways().await?.changes(revision, limit).await
    }

    async fn events(&self, query: &EventQuery) -> StoreResult<Vec<Event>> {
        self.near()?.events(query).await
    }

    async fn revision_at(&self, moment: Timestamp) -> StoreResult<u64> {
        self.near()?.revision_at(moment).await
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> StoreResult<Option<Record>> {
        self.near()?.get_at(key, revision).await
    }

    async fn list_at(&self, kind: Kind, revision: u64) -> StoreResult<Vec<Record>> {
        self.near()?.list_at(kind, revision).await
    }

    async fn tallies_at(
        &self,
        kind: Kind,
        prefix: &str,
        revision: u64,
    ) -> StoreResult<BTreeMap<String, u64>> {
        self.near()?.tallies_at(kind, prefix, revision).await
    }

    async fn reply(&self, id: &str, now: Timestamp) -> StoreResult<Option<Reply>> {
        self.near()?.reply(id, now).await
    }

    async fn forget_replies(&self, now: Timestamp) -> StoreResult<()> {
        self.near()?.forget_replies(now).await
    }

    async fn mark_used(&self, kind: Kind, uses: &[(String, Timestamp)]) -> StoreResult<()> {
        self.near()?.mark_used(kind, uses).await
    }

    async fn last_used(
        &self,
        kind: Kind,
        ids: &[String],
    ) -> StoreResult<BTreeMap<String, Timestamp>> {
        self.near()?.last_used(kind, ids).await
    }
}

fn told(outcome: &Result<u64, CommitError>) -> String {
    match outcome {
        Ok(revision) => format!("revision {revision}"),
        Err(error) => error.to_string(),
    }
}
