//! The registry as routers and workers reach it: in memory, over a simulated network, in a
//! process that crashes and restarts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ballast_control_plane::registry::memory::{MemoryFile, MemoryRegistry};
use ballast_domain::Timestamp;
use ballast_domain::registry::{
    CommitError, EventQuery, Record, RecordKey, RecordKind, RecordQuery, Registry, RegistryCommit,
    RegistryError, RegistryEvent, RegistryResult, RememberedReply,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::trace::{self, SimClock, note};
use crate::{scheduler, weather};

/// How long a caller waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The registry behind the simulated network.
#[derive(Clone)]
pub(crate) struct RemoteRegistry {
    place: MemoryFile,
    open: Arc<Mutex<Option<MemoryRegistry>>>,
}

fn away() -> RegistryError {
    RegistryError::new("reach the registry", "it is away")
}

impl RemoteRegistry {
    pub(crate) fn start() -> Self {
        let place = MemoryFile::default();
        let open = MemoryRegistry::open(&place, Arc::new(SimClock));
        Self {
            place,
            open: Arc::new(Mutex::new(Some(open))),
        }
    }

    /// Accesses the registry without the network.
    pub(crate) fn direct(&self) -> RegistryResult<MemoryRegistry> {
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

    /// Delivers a read over the network.
    async fn connect(&self) -> RegistryResult<MemoryRegistry> {
        let delivery = weather::draw_fate();
        sleep(delivery.there).await;
        if delivery.lost || delivery.unanswered {
            sleep(ANSWER_TIMEOUT).await;
            return Err(away());
        }
        // The read happens now, and its answer arrives later.
        let open = self.direct()?;
        Ok(open)
    }
}

#[async_trait]
impl Registry for RemoteRegistry {
    async fn commit(&self, commit: RegistryCommit) -> Result<u64, CommitError> {
        let delivery = weather::draw_fate();
        let (sender, receiver) = oneshot::channel();
        let mut held = None;
        if delivery.lost {
            note!("{} lost", commit.action);
            held = Some(sender);
        } else {
            let far = self.clone();
            let (sender, kept) = match delivery.unanswered {
                true => (None, Some(sender)),
                false => (Some(sender), None),
            };
            held = held.or(kept);
            scheduler::spawn(scheduler::WORLD, async move {
                sleep(delivery.there).await;
                let Ok(open) = far.direct() else {
                    return;
                };
                let outcome = open.commit(commit.clone()).await;
                note!("{}: {}", commit.action, describe_outcome(&outcome));
                sleep(delivery.back).await;
                if let Some(sender) = sender {
                    let _ = sender.send(outcome);
                }
                if let Some(later) = delivery.again {
                    sleep(later).await;
                    if let Ok(open) = far.direct() {
                        let again = open.commit(commit.clone()).await;
                        note!("{} again: {}", commit.action, describe_outcome(&again));
                    }
                }
            });
        }
        let answer = timeout(ANSWER_TIMEOUT, receiver).await;
        drop(held);
        match answer {
            Ok(Ok(outcome)) => outcome,
            _ => Err(away().into()),
        }
    }

    async fn check(&self) -> RegistryResult<()> {
        self.direct()?.check().await
    }

    async fn get(&self, key: &RecordKey) -> RegistryResult<Option<Record>> {
        let found = self.connect().await?.get(key).await;
        sleep(weather::way()).await;
        found
    }

    async fn list(&self, query: &RecordQuery) -> RegistryResult<Vec<Record>> {
        let found = self.connect().await?.list(query).await;
        sleep(weather::way()).await;
        found
    }

    async fn tallies(
        &self,
        kind: RecordKind,
        prefix: &str,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        self.direct()?.tallies(kind, prefix).await
    }

    async fn revision(&self) -> RegistryResult<u64> {
        self.direct()?.revision().await
    }

    async fn wait_past(&self, revision: u64) -> RegistryResult<()> {
        self.direct()?.wait_past(revision).await?;
        sleep(weather::news()).await;
        Ok(())
    }

    async fn changes(&self, revision: u64, limit: u32) -> RegistryResult<Vec<RegistryEvent>> {
        self.connect().await?.changes(revision, limit).await
    }

    async fn events(&self, query: &EventQuery) -> RegistryResult<Vec<RegistryEvent>> {
        self.direct()?.events(query).await
    }

    async fn revision_at(&self, moment: Timestamp) -> RegistryResult<u64> {
        self.direct()?.revision_at(moment).await
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> RegistryResult<Option<Record>> {
        self.direct()?.get_at(key, revision).await
    }

    async fn list_at(&self, kind: RecordKind, revision: u64) -> RegistryResult<Vec<Record>> {
        self.direct()?.list_at(kind, revision).await
    }

    async fn tallies_at(
        &self,
        kind: RecordKind,
        prefix: &str,
        revision: u64,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        self.direct()?.tallies_at(kind, prefix, revision).await
    }

    async fn reply(&self, id: &str, now: Timestamp) -> RegistryResult<Option<RememberedReply>> {
        self.direct()?.reply(id, now).await
    }

    async fn forget_replies(&self, now: Timestamp) -> RegistryResult<()> {
        self.direct()?.forget_replies(now).await
    }

    async fn mark_used(
        &self,
        kind: RecordKind,
        uses: &[(String, Timestamp)],
    ) -> RegistryResult<()> {
        self.direct()?.mark_used(kind, uses).await
    }

    async fn last_used(
        &self,
        kind: RecordKind,
        ids: &[String],
    ) -> RegistryResult<BTreeMap<String, Timestamp>> {
        self.direct()?.last_used(kind, ids).await
    }
}

fn describe_outcome(outcome: &Result<u64, CommitError>) -> String {
    match outcome {
        Ok(revision) => format!("revision {revision}"),
        Err(error) => error.to_string(),
    }
}
