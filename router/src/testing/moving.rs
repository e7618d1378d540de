//! A fleet of two routers and two embedded shards with one tenant, whose slice a test moves
//! step by step.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ballast_domain::moving::{ActiveMigration, MigrationPhase, SliceRoute};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{ShardId, Timestamp};
use ballast_vote_shard::archive::LocalArchives;
use ballast_vote_shard::embedded::disk::SimulatedDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::shard::{Cursor, MigrationId, MigrationToken};
use ballast_vote_shard::testing::SteppedClock;
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, ShardResult, VoteShard};
use tokio::sync::Notify;

use super::{FakeSource, Seed, TestRouter, ports, settings};
use crate::{RouterPorts, RouterSettings, RouterState};

/// Two shards, each of which may be unavailable.
pub(crate) struct TwoShards {
    shards: HashMap<ShardId, (Arc<EmbeddedShard>, AtomicBool)>,
    calls: AtomicUsize,
    more: Notify,
}

impl TwoShards {
    pub(crate) fn set_away(&self, name: &str, away: bool) {
        self.shards[&id(name)].1.store(away, Ordering::SeqCst);
    }

    /// How often a shard was opened.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits until a shard was opened this often.
    pub(crate) async fn wait_for_calls(&self, times: usize) {
        loop {
            let more = self.more.notified();
            if self.calls() >= times {
                return;
            }
            more.await;
        }
    }
}

impl ShardDirectory for TwoShards {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.more.notify_waiters();
        match self.shards.get(id) {
            Some((shard, away)) if !away.load(Ordering::SeqCst) => Ok(shard.clone()),
            _ => Err(ShardError::unavailable("away")),
        }
    }
}

/// Everything that a migration needs.
pub(crate) struct TestFleet {
    /// A router that the test notifies of changes.
    pub(crate) near: TestRouter<TwoShards>,
    /// A router that is never notified.
    pub(crate) far: TestRouter<TwoShards>,
    pub(crate) source: Arc<FakeSource>,
    pub(crate) shards: Arc<TwoShards>,
    pub(crate) clock: Arc<SteppedClock>,
    copied: Mutex<Cursor>,
    moves: AtomicUsize,
    /// Whether new migrations replicate synchronously in their window.
    pub(crate) sync: AtomicBool,
}

pub(crate) fn id(name: &str) -> ShardId {
    name.parse().unwrap()
}

pub(crate) fn slice() -> SliceId {
    SliceId {
        tenant_id: "acme".parse().unwrap(),
        slice: 0,
    }
}

fn at(epoch: Epoch) -> FencedSlice {
    FencedSlice {
        slice: slice(),
        epoch,
    }
}

impl TestFleet {
    pub(crate) fn new(change: impl Fn(&mut RouterSettings)) -> Self {
        let clock = Arc::new(SteppedClock::new(1_000_000));
        let source = Arc::new(FakeSource::default());
        let (key, _) = source.add_key("acme");
        source.set_epoch("acme", Epoch::FIRST);
        let open = |(seed, name): (u64, &str)| {
            let shard = EmbeddedShard::open(
                name,
                Arc::new(SimulatedDisk::new(seed)),
                ShardOptions::default(),
                clock.clone(),
                Arc::new(Seed(seed.into())),
            );
            (id(name), (Arc::new(shard.unwrap()), AtomicBool::new(false)))
        };
        let shards = Arc::new(TwoShards {
            shards: (11..).zip(["shard-1", "shard-2"]).map(open).collect(),
            calls: AtomicUsize::new(0),
            more: Notify::new(),
        });
        let server = |seed: u64| {
            let mut settings = settings();
            change(&mut settings);
            let directory = tempfile::tempdir().unwrap();
            let archives = Arc::new(LocalArchives::new(directory.path().to_owned()));
            let ports = RouterPorts {
                shards: shards.clone(),
                archives: archives.clone(),
                // Each router makes different request ids.
                entropy: Arc::new(Seed(seed.into())),
                ..ports(clock.clone(), source.clone())
            };
            TestRouter {
                state: RouterState::new(settings, ports),
                source: source.clone(),
                shards: shards.clone(),
                archives,
                directory,
                key: key.clone(),
            }
        };
        Self {
            near: server(101),
            far: server(202),
            source,
            shards,
            clock,
            copied: Mutex::new(Cursor::Start),
            moves: AtomicUsize::new(0),
            sync: AtomicBool::new(false),
        }
    }

    pub(crate) fn shard(&self, name: &str) -> Arc<EmbeddedShard> {
        self.shards.shards[&id(name)].0.clone()
    }

    /// The route of the slice in the source.
    pub(crate) fn route(&self) -> SliceRoute {
        let mut route = None;
        self.source
            .change_route(|tenant| route = Some(tenant.slices[0].route()));
        route.unwrap()
    }

    fn set_route(&self, route: SliceRoute) {
        let now = Timestamp::from_unix_ms(0);
        self.source
            .change_route(|tenant| tenant.slices[0].set_route(route, now));
    }

    fn token(&self) -> MigrationToken {
        let number = self.moves.load(Ordering::SeqCst);
        MigrationToken {
            migration_id: MigrationId(format!("move-{number}")),
            token: number as u64,
        }
    }

    fn sides(&self) -> (Arc<EmbeddedShard>, Arc<EmbeddedShard>) {
        let moving = self.route().moving.unwrap();
        (
            self.shard(moving.from.as_str()),
            self.shard(moving.to.as_str()),
        )
    }

    /// Prepares the target and copies the current data.
    pub(crate) async fn begin(&self, to: &str) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        let mut route = self.route();
        let prepared = Epoch(route.spent.0 + 1);
        route.spent = prepared;
        route.moving = Some(ActiveMigration {
            migration_id: self.token().migration_id,
            from: route.owner.clone(),
            to: id(to),
            prepared,
            gives_up: false,
            sync: self.sync.load(Ordering::SeqCst),
            phase: MigrationPhase::Copying,
        });
        self.set_route(route);
        let (from, target) = self.sides();
        let key = from.slice_key(&slice()).await.unwrap();
        let (at, token) = (at(prepared), self.token());
        target
            .prepare(&at, &token, key, HashRange::WHOLE)
            .await
            .unwrap();
        *self.copied.lock().unwrap() = Cursor::Start;
        self.copy().await;
    }

    async fn copy(&self) {
        let (from, to) = self.sides();
        let cursor = self.copied.lock().unwrap().clone();
        let next = copy_all(&from, &to, &self.token(), cursor).await;
        *self.copied.lock().unwrap() = next;
    }

    /// Seals the slice, copies the rest, and checks that both are equal.
    pub(crate) async fn seal(&self) {
        let mut route = self.route();
        let epoch = Epoch(route.spent.0 + 1);
        route.spent = epoch;
        route.moving.as_mut().unwrap().phase = MigrationPhase::Sealing { epoch };
        self.set_route(route);
        let (from, to) = self.sides();
        from.seal(&at(epoch), &self.token()).await.unwrap();
        self.copy().await;
        let digests = from.digests(&slice()).await.unwrap();
        assert_eq!(to.digests(&slice()).await.unwrap(), digests);
    }

    /// Changes the owner in the route source; the target does not know it yet.
    pub(crate) fn commit(&self) {
        let mut route = self.route();
        route.epoch = route.spent;
        let moving = route.moving.as_mut().unwrap();
        moving.phase = MigrationPhase::Window;
        route.owner = moving.to.clone();
        self.set_route(route);
    }

    /// Activates the target, which takes votes from now on; the source does not know it.
    pub(crate) async fn activate_target(&self) {
        let (_, to) = self.sides();
        let epoch = self.route().epoch;
        to.activate(&at(epoch), &self.token()).await.unwrap();
    }

    /// Activates the target and retires the source.
    pub(crate) async fn activate(&self) {
        self.activate_target().await;
        let (from, _) = self.sides();
        let epoch = self.route().epoch;
        from.retire(&at(epoch), &self.token()).await.unwrap();
    }

    /// Aborts a sealed migration: the slice stays at its source.
    pub(crate) async fn abort(&self) {
        let (from, _) = self.sides();
        let mut route = self.route();
        route.epoch = Epoch(route.spent.0 + 1);
        route.spent = route.epoch;
        route.moving = None;
        let epoch = route.epoch;
        self.set_route(route);
        from.unseal(&at(epoch), &self.token()).await.unwrap();
    }

    /// Migrates up to the window, and notifies the near router.
    pub(crate) async fn move_to(&self, to: &str) {
        self.begin(to).await;
        self.seal().await;
        self.commit();
        self.activate().await;
        self.near.invalidate_route();
    }

    /// Ends the window; the source keeps its copy.
    pub(crate) fn finish(&self) {
        let mut route = self.route();
        route.moving = None;
        self.set_route(route);
        self.near.invalidate_route();
    }

    /// Copies the owner's data to the previous shard, as streaming back does.
    pub(crate) async fn stream_back(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        let mut route = self.route();
        let back = Epoch(route.spent.0 + 1);
        route.spent = back;
        self.set_route(route);
        let (old, owner) = self.sides();
        let key = owner.slice_key(&slice()).await.unwrap();
        old.prepare(&at(back), &self.token(), key, HashRange::WHOLE)
            .await
            .unwrap();
        copy_all(&owner, &old, &self.token(), Cursor::Start).await;
    }

    /// Appends changes of another tenant to a shard's log.
    pub(crate) async fn append_unrelated_changes(&self, name: &str) {
        let (shard, token) = (self.shard(name), self.token());
        let at = |epoch| FencedSlice {
            slice: SliceId {
                tenant_id: "other".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        };
        shard.adopt(&at(1)).await.unwrap();
        for epoch in 1..30 {
            shard.seal(&at(2 * epoch), &token).await.unwrap();
            shard.unseal(&at(2 * epoch + 1), &token).await.unwrap();
        }
    }

    /// Imports rows into the previous shard only.
    pub(crate) async fn plant_rows(&self, changes: &[ballast_vote_shard::shard::ExportedRow]) {
        let (old, _) = self.sides();
        old.import(&slice(), &self.token(), changes).await.unwrap();
    }
}

/// Copies all changes, and returns the next cursor.
async fn copy_all(
    from: &EmbeddedShard,
    to: &EmbeddedShard,
    token: &MigrationToken,
    mut cursor: Cursor,
) -> Cursor {
    loop {
        let page = from.export(&slice(), &cursor, 1 << 20).await.unwrap();
        if !page.changes.is_empty() {
            to.import(&slice(), token, &page.changes).await.unwrap();
        }
        cursor = page.next;
        if page.caught_up {
            return cursor;
        }
    }
}
