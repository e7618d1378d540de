//! A registry in memory: for simulations and tests, in which SQLite's threads
//! and files would decide what happens when.
//!
//! What it says of a commit is decided by the same code as SQLite's
//! ([`super::sqlite::group`]). A [`Place`] is what would be the file: whoever opens it
//! again finds everything that was committed. A registry that was closed, or
//! whose process crashed, answers nothing but errors.

mod read;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ballast_domain::registry::{
    Commit, CommitError, Event, EventQuery, Kind, Record, RecordKey, RecordQuery, Registry, Reply,
    StoreError, StoreResult,
};
use ballast_domain::{Clock, Timestamp};
use tokio::sync::watch;

use super::WAIT_PATIENCE;
use super::sqlite::group::{Batch, Counters, View};

/// Where a registry is kept. Clones are the same place.
#[derive(Clone)]
pub struct Place {
    kept: Arc<Mutex<Kept>>,
}

/// All that was ever committed.
struct Kept {
    view: View,
    all: Batch,
    counters: Counters,
    last_at: Timestamp,
    uses: BTreeMap<(Kind, String), Timestamp>,
}

impl Default for Place {
    fn default() -> Self {
        let kept = Kept {
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
            kept: Arc::new(Mutex::new(kept)),
        }
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn commit(&mut self, now: Timestamp, commit: Commit) -> Result<u64, CommitError> {
        let at = now.max(self.last_at);
        // An answer that has expired does not stand in the way.
        if let Some(reply) = &commit.reply
            && self.reply(&reply.id, at).is_none()
        {
            self.view.replies.remove(&reply.id);
            self.all.replies.retain(|kept| kept.id != reply.id);
        }
        let revision = self
            .all
            .take(&mut self.view, &mut self.counters, at, commit)?;
        self.last_at = at;
        Ok(revision)
    }

    fn reply(&self, id: &str, now: Timestamp) -> Option<&Reply> {
        let mut replies = self.all.replies.iter();
        replies.find(|reply| reply.id == id && reply.expires_at > now)
    }
}

/// A registry that is open. Clones are the same one.
#[derive(Clone)]
pub struct MemoryRegistry {
    place: Place,
    clock: Arc<dyn Clock>,
    /// The last revision; `None` when it is closed.
    open: Arc<watch::Sender<Option<u64>>>,
}

impl MemoryRegistry {
    /// Opens what is kept in a place. One at a time has it open.
    pub fn open(place: &Place, clock: Arc<dyn Clock>) -> Self {
        let revision = place.lock().counters.revision;
        Self {
            place: place.clone(),
            clock,
            open: Arc::new(watch::Sender::new(Some(revision))),
        }
    }

    /// Answers nothing from now on, as when its process ends. What was
    /// committed is kept.
    pub fn close(&self) {
        self.open.send_replace(None);
    }

    fn kept(&self, doing: &'static str) -> StoreResult<MutexGuard<'_, Kept>> {
        match *self.open.borrow() {
            Some(_) => Ok(self.place.lock()),
            None => Err(StoreError::new(doing, "the registry is closed")),
        }
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn commit(&self, commit: Commit) -> Result<u64, CommitError> {
        let (outcome, last) = {
            let mut kept = self.kept("commit to the registry")?;
            let outcome = kept.commit(self.clock.now(), commit);
            (outcome, kept.counters.revision)
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

    async fn check(&self) -> StoreResult<()> {
        self.kept("check the registry").map(drop)
    }

    async fn get(&self, key: &RecordKey) -> StoreResult<Option<Record>> {
        Ok(self.kept("read a record")?.get(key))
    }

    async fn list(&self, query: &RecordQuery) -> StoreResult<Vec<Record>> {
        Ok(self.kept("list records")?.list(query))
    }

    async fn tallies(&self, kind: Kind, prefix: &str) -> StoreResult<BTreeMap<String, u64>> {
        Ok(self.kept("read tallies")?.tallies(kind, prefix))
    }

    async fn revision(&self) -> StoreResult<u64> {
        Ok(self.kept("read the revision")?.counters.revision)
    }

    async fn wait_past(&self, revision: u64) -> StoreResult<()> {
        let mut open = self.open.subscribe();
        let past = open.wait_for(|now| now.is_none_or(|now| now > revision));
        match tokio::time::timeout(WAIT_PATIENCE, past).await {
            Ok(Ok(now)) if now.is_some() => Ok(()),
            Ok(_) => Err(StoreError::new(
                "wait for a change",
                "the registry is closed",
            )),
            // Nothing happened for a while: the caller asks again.
            Err(_) => Ok(()),
        }
    }

    async fn changes(&self, revision: u64, limit: u32) -> StoreResult<Vec<Event>> {
        Ok(self.kept("read the change feed")?.changes(revision, limit))
    }

    async fn events(&self, query: &EventQuery) -> StoreResult<Vec<Event>> {
        Ok(self.kept("read events")?.events(query))
    }

    async fn revision_at(&self, moment: Timestamp) -> StoreResult<u64> {
        Ok(self.kept("find a revision")?.revision_at(moment))
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> StoreResult<Option<Record>> {
        Ok(self.kept("read a past record")?.get_at(key, revision))
    }

    async fn list_at(&self, kind: Kind, revision: u64) -> StoreResult<Vec<Record>> {
        Ok(self.kept("list past records")?.list_at(kind, revision))
    }

    async fn tallies_at(
        &self,
        kind: Kind,
        prefix: &str,
        revision: u64,
    ) -> StoreResult<BTreeMap<String, u64>> {
        let kept = self.kept("read past tallies")?;
        Ok(kept.tallies_at(kind, prefix, revision))
    }

    async fn reply(&self, id: &str, now: Timestamp) -> StoreResult<Option<Reply>> {
        Ok(self
            .kept("read a remembered reply")?
            .reply(id, now)
            .cloned())
    }

    async fn forget_replies(&self, now: Timestamp) -> StoreResult<()> {
        let mut kept = self.kept("forget replies")?;
        let Kept { view, all, .. } = &mut *kept;
        all.replies.retain(|reply| reply.expires_at > now);
        view.replies
            .retain(|id| all.replies.iter().any(|reply| reply.id == *id));
        Ok(())
    }

    async fn mark_used(&self, kind: Kind, uses: &[(String, Timestamp)]) -> StoreResult<()> {
        let mut kept = self.kept("note uses")?;
        for (id, at) in uses {
            let latest = kept.uses.entry((kind, id.clone())).or_insert(*at);
            *latest = (*latest).max(*at);
        }
        Ok(())
    }

    async fn last_used(
        &self,
        kind: Kind,
        ids: &[String],
    ) -> StoreResult<BTreeMap<String, Timestamp>> {
        let kept = self.kept("read last uses")?;
        let used = |id: &String| Some((id.clone(), *kept.uses.get(&(kind, id.clone()))?));
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
        place: Place,
    }

    #[async_trait]
    impl Fixture for MemoryFixture {
        type Store = MemoryRegistry;

        async fn fresh() -> Self {
            Self {
                clock: Arc::new(ManualClock::new()),
                place: Place::default(),
            }
        }

        async fn open(&self) -> MemoryRegistry {
            MemoryRegistry::open(&self.place, self.clock.clone())
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
    async fn what_is_closed_answers_nothing() {
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
