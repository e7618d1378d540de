//! A registry in memory, for simulations and tests in which SQLite's threads and
//! files would make timing nondeterministic.
//!
//! The same code as in SQLite decides on commits ([`super::sqlite::group`]).
//! A [`MemoryFile`] takes the file of the file: reopening it finds everything that
//! was committed. A registry that was closed, or whose process crashed, only returns
//! errors.

mod read;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ballast_domain::registry::{
    CommitError, EventQuery, Record, RecordKey, RecordKind, RecordQuery, Registry, RegistryCommit,
    RegistryError, RegistryEvent, RegistryResult, RememberedReply,
};
use ballast_domain::{Clock, Timestamp};
use tokio::sync::watch;

use super::WAIT_PATIENCE;
use super::sqlite::group::{Batch, Counters, View};

/// The storage of a registry. Clones share it.
#[derive(Clone)]
pub struct MemoryFile {
    state: Arc<Mutex<MemoryState>>,
}

/// Everything that was ever committed.
struct MemoryState {
    view: View,
    all: Batch,
    counters: Counters,
    last_at: Timestamp,
    uses: BTreeMap<(RecordKind, String), Timestamp>,
}

impl Default for MemoryFile {
    fn default() -> Self {
        let state = MemoryState {
            view: View::default(),
            all: Batch::default(),
            counters: Counters {
                revision: 0,
                sequence: 0,
            },
            last_at: Timestamp::from_unix_ms(i64::MIN),
            uses: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

impl MemoryFile {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    fn commit(&mut self, now: Timestamp, commit: RegistryCommit) -> Result<u64, CommitError> {
        let at = now.max(self.last_at);
        // An expired reply does not block a new one.
        if let Some(reply) = &commit.reply
            && self.reply(&reply.id, at).is_none()
        {
            self.view.replies.remove(&reply.id);
            self.all.replies.retain(|state| state.id != reply.id);
        }
        let revision = self
            .all
            .take(&mut self.view, &mut self.counters, at, commit)?;
        self.last_at = at;
        Ok(revision)
    }

    fn reply(&self, id: &str, now: Timestamp) -> Option<&RememberedReply> {
        let mut replies = self.all.replies.iter();
        replies.find(|reply| reply.id == id && reply.expires_at > now)
    }
}

/// An open registry. Clones share it.
#[derive(Clone)]
pub struct MemoryRegistry {
    file: MemoryFile,
    clock: Arc<dyn Clock>,
    /// The last revision; `None` once closed.
    open: Arc<watch::Sender<Option<u64>>>,
}

impl MemoryRegistry {
    /// Opens the registry in this storage. Only one may have it open at a time.
    pub fn open(file: &MemoryFile, clock: Arc<dyn Clock>) -> Self {
        let revision = file.lock().counters.revision;
        Self {
            file: file.clone(),
            clock,
            open: Arc::new(watch::Sender::new(Some(revision))),
        }
    }

    /// Closes the registry, as when its process ends: all calls return errors from now
    /// on. Committed data is state.
    pub fn close(&self) {
        self.open.send_replace(None);
    }

    fn lock_open(&self, doing: &'static str) -> RegistryResult<MutexGuard<'_, MemoryState>> {
        match *self.open.borrow() {
            Some(_) => Ok(self.file.lock()),
            None => Err(RegistryError::new(doing, "the registry is closed")),
        }
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn commit(&self, commit: RegistryCommit) -> Result<u64, CommitError> {
        let (outcome, last) = {
            let mut state = self.lock_open("commit to the registry")?;
            let outcome = state.commit(self.clock.now(), commit);
            (outcome, state.counters.revision)
        };
        self.open.send_if_modified(|open| match open {
            Some(known) if *known < last => {
                *known = last;
                true
            }
            _ => false,
        });
        outcome
    }

    async fn check(&self) -> RegistryResult<()> {
        self.lock_open("check the registry").map(drop)
    }

    async fn get(&self, key: &RecordKey) -> RegistryResult<Option<Record>> {
        Ok(self.lock_open("read a record")?.get(key))
    }

    async fn list(&self, query: &RecordQuery) -> RegistryResult<Vec<Record>> {
        Ok(self.lock_open("list records")?.list(query))
    }

    async fn tallies(
        &self,
        kind: RecordKind,
        prefix: &str,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        Ok(self.lock_open("read tallies")?.tallies(kind, prefix))
    }

    async fn revision(&self) -> RegistryResult<u64> {
        Ok(self.lock_open("read the revision")?.counters.revision)
    }

    async fn wait_past(&self, revision: u64) -> RegistryResult<()> {
        let mut open = self.open.subscribe();
        let past = open.wait_for(|now| now.is_none_or(|now| now > revision));
        match tokio::time::timeout(WAIT_PATIENCE, past).await {
            Ok(Ok(now)) if now.is_some() => Ok(()),
            Ok(_) => Err(RegistryError::new(
                "wait for a change",
                "the registry is closed",
            )),
            // Nothing changed for a while: the caller asks again.
            Err(_) => Ok(()),
        }
    }

    async fn changes(&self, revision: u64, limit: u32) -> RegistryResult<Vec<RegistryEvent>> {
        Ok(self
            .lock_open("read the change feed")?
            .changes(revision, limit))
    }

    async fn events(&self, query: &EventQuery) -> RegistryResult<Vec<RegistryEvent>> {
        Ok(self.lock_open("read events")?.events(query))
    }

    async fn revision_at(&self, moment: Timestamp) -> RegistryResult<u64> {
        Ok(self.lock_open("find a revision")?.revision_at(moment))
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> RegistryResult<Option<Record>> {
        Ok(self.lock_open("read a past record")?.get_at(key, revision))
    }

    async fn list_at(&self, kind: RecordKind, revision: u64) -> RegistryResult<Vec<Record>> {
        Ok(self.lock_open("list past records")?.list_at(kind, revision))
    }

    async fn tallies_at(
        &self,
        kind: RecordKind,
        prefix: &str,
        revision: u64,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        let state = self.lock_open("read past tallies")?;
        Ok(state.tallies_at(kind, prefix, revision))
    }

    async fn reply(&self, id: &str, now: Timestamp) -> RegistryResult<Option<RememberedReply>> {
        Ok(self
            .lock_open("read a remembered reply")?
            .reply(id, now)
            .cloned())
    }

    async fn forget_replies(&self, now: Timestamp) -> RegistryResult<()> {
        let mut state = self.lock_open("forget replies")?;
        let MemoryState { view, all, .. } = &mut *state;
        all.replies.retain(|reply| reply.expires_at > now);
        view.replies
            .retain(|id| all.replies.iter().any(|reply| reply.id == *id));
        Ok(())
    }

    async fn mark_used(
        &self,
        kind: RecordKind,
        uses: &[(String, Timestamp)],
    ) -> RegistryResult<()> {
        let mut state = self.lock_open("note uses")?;
        for (id, at) in uses {
            let latest = state.uses.entry((kind, id.clone())).or_insert(*at);
            *latest = (*latest).max(*at);
        }
        Ok(())
    }

    async fn last_used(
        &self,
        kind: RecordKind,
        ids: &[String],
    ) -> RegistryResult<BTreeMap<String, Timestamp>> {
        let state = self.lock_open("read last uses")?;
        let used = |id: &String| Some((id.clone(), *state.uses.get(&(kind, id.clone()))?));
        Ok(ids.iter().filter_map(used).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::conformance::{Fixture, seed_fleet, suite};
    use crate::testing::ManualClock;

    struct MemoryFixture {
        clock: Arc<ManualClock>,
        file: MemoryFile,
    }

    #[async_trait]
    impl Fixture for MemoryFixture {
        type Store = MemoryRegistry;

        async fn fresh() -> Self {
            Self {
                clock: Arc::new(ManualClock::new()),
                file: MemoryFile::default(),
            }
        }

        async fn open(&self) -> MemoryRegistry {
            MemoryRegistry::open(&self.file, self.clock.clone())
        }

        async fn close(&self, store: MemoryRegistry) {
            store.close();
        }

        fn clock(&self) -> &ManualClock {
            &self.clock
        }
    }

    suite!(MemoryFixture);

    #[tokio::test]
    async fn a_closed_registry_returns_errors() {
        let fixture = MemoryFixture::fresh().await;
        let store = fixture.open().await;
        seed_fleet(&store).await;
        let waiting = {
            let store = store.clone();
            tokio::spawn(async move { store.wait_past(1).await })
        };
        store.check().await.unwrap();
        store.close();
        assert!(waiting.await.unwrap().is_err());
        assert!(store.check().await.is_err());
        assert!(store.revision().await.is_err());
        assert_eq!(fixture.open().await.revision().await.unwrap(), 1);
    }
}
