//! Two routers, two embedded shards, one tenant, and its slice that moves step
//! by step as a test says.

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

/// Two shards, each of which may be away.
pub(crate) struct Pair {
    shards: HashMap<ShardId, (Arc<EmbeddedShard>, AtomicBool)>,
    asked: AtomicUsize,
    more: Notify,
}

impl Pair {
    pub(crate) fn set_away(&self, name: &str, away: bool) {
        self.shards[&id(name)].1.store(away, Ordering::SeqCst);
    }

    /// How often a shard was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until a shard was asked for so often.
    pub(crate) async fn is_asked(&self, times: usize) {
        loop {
            let more = self.more.notified();
            if self.asked() >= times {
                return;
            }
            more.await;
        }
    }
}

impl ShardDirectory for Pair {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.more.notify_waiters();
        match self.shards.get(id) {
            Some((shard, away)) if !away.load(Ordering::SeqCst) => Ok(shard.clone()),
            _ => Err(ShardError::unavailable("away")),
        }
    }
}

/// Everything that a move needs.
pub(crate) struct Town {
    /// A router that hears of changes when the test says so.
    pub(crate) near: TestRouter<Pair>,
    /// A router that never hears of any.
    pub(crate) far: TestRouter<Pair>,
    pub(crate) source: Arc<FakeSource>,
    pub(crate) shards: Arc<Pair>,
    pub(crate) clock: Arc<SteppedClock>,
    copied: Mutex<Cursor>,
    moves: AtomicUsize,
    /// Whether moves that begin have both sides acknowledge.
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

impl Town {
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
        let shards = Arc::new(Pair {
            shards: (11..).zip(["shard-1", "shard-2"]).map(open).collect(),
            asked: AtomicUsize::new(0),
            more: Notify::new(),
        });
        let house = |seed: u64| {
            let mut settings = settings();
            change(&mut settings);
            let directory = tempfile::tempdir().unwrap();
            let archives = Arc::new(LocalArchives::new(directory.path().to_owned()));
            let ports = RouterPorts {
                shards: shards.clone(),
                archives: archives.clone(),
                // Requests get names of their own, in each router others.
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
            near: house(101),
            far: house(202),
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

    /// What the source says of the slice.
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

    fn order(&self) -> MigrationToken {
        let number = self.moves.load(Ordering::SeqCst);
        MigrationToken {
            move_id: MigrationId(format!("move-{number}")),
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

    /// Prepares the other shard and copies what is there.
    pub(crate) async fn begin(&self, to: &str) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        let mut route = self.route();
        let prepared = Epoch(route.spent.0 + 1);
        route.spent = prepared;
        route.moving = Some(ActiveMigration {
            move_id: self.order().move_id,
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
        let (at, order) = (at(prepared), self.order());
        target
            .prepare(&at, &order, key, HashRange::WHOLE)
            .await
            .unwrap();
        *self.copied.lock().unwrap() = Cursor::Start;
        self.copy().await;
    }

    async fn copy(&self) {
        let (from, to) = self.sides();
        let cursor = self.copied.lock().unwrap().clone();
        let next = carry(&from, &to, &self.order(), cursor).await;
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
        from.seal(&at(epoch), &self.order()).await.unwrap();
        self.copy().await;
        let digests = from.digests(&slice()).await.unwrap();
        assert_eq!(to.digests(&slice()).await.unwrap(), digests);
    }

    /// Changes the owner in the source; the target does not know yet.
    pub(crate) fn commit(&self) {
        let mut route = self.route();
        route.epoch = route.spent;
        let moving = route.moving.as_mut().unwrap();
        moving.phase = MigrationPhase::Window;
        route.owner = moving.to.clone();
        self.set_route(route);
    }

    /// Tells the target, which takes votes from now on; the source does not know.
    pub(crate) async fn activate_target(&self) {
        let (_, to) = self.sides();
        let epoch = self.route().epoch;
        to.activate(&at(epoch), &self.order()).await.unwrap();
    }

    /// Tells both sides.
    pub(crate) async fn activate(&self) {
        self.activate_target().await;
        let (from, _) = self.sides();
        let epoch = self.route().epoch;
        from.retire(&at(epoch), &self.order()).await.unwrap();
    }

    /// Calls a sealed move off: the slice stays where it was.
    pub(crate) async fn call_off(&self) {
        let (from, _) = self.sides();
        let mut route = self.route();
        route.epoch = Epoch(route.spent.0 + 1);
        route.spent = route.epoch;
        route.moving = None;
        let epoch = route.epoch;
        self.set_route(route);
        from.unseal(&at(epoch), &self.order()).await.unwrap();
    }

    /// A whole move, up to its window. The near router hears of it.
    pub(crate) async fn move_to(&self, to: &str) {
        self.begin(to).await;
        self.seal().await;
        self.commit();
        self.activate().await;
        self.near.hears_of_route();
    }

    /// The window ends; what the old side has stays there.
    pub(crate) fn finish(&self) {
        let mut route = self.route();
        route.moving = None;
        self.set_route(route);
        self.near.hears_of_route();
    }

    /// Brings what the owner has to the old side, as the window's stream does.
    pub(crate) async fn stream_back(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        let mut route = self.route();
        let back = Epoch(route.spent.0 + 1);
        route.spent = back;
        self.set_route(route);
        let (old, owner) = self.sides();
        let key = owner.slice_key(&slice()).await.unwrap();
        old.prepare(&at(back), &self.order(), key, HashRange::WHOLE)
            .await
            .unwrap();
        carry(&owner, &old, &self.order(), Cursor::Start).await;
    }

    /// Lets a shard's log grow by something that is none of the tenant's.
    pub(crate) async fn let_grow(&self, name: &str) {
        let (shard, order) = (self.shard(name), self.order());
        let at = |epoch| FencedSlice {
            slice: SliceId {
                tenant_id: "other".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        };
        shard.adopt(&at(1)).await.unwrap();
        for epoch in 1..30 {
            shard.seal(&at(2 * epoch), &order).await.unwrap();
            shard.unseal(&at(2 * epoch + 1), &order).await.unwrap();
        }
    }

    /// Puts rows on the old side behind everybody's back.
    pub(crate) async fn plant(&self, changes: &[ballast_vote_shard::shard::ExportedRow]) {
        let (old, _) = self.sides();
        old.import(&slice(), &self.order(), changes).await.unwrap();
    }
}

/// Carries all there is, and says where to go on.
async fn carry(
    from: &EmbeddedShard,
    to: &EmbeddedShard,
    order: &MigrationToken,
    mut cursor: Cursor,
) -> Cursor {
    loop {
        let page = from.export(&slice(), &cursor, 1 << 20).await.unwrap();
        if !page.changes.is_empty() {
            to.import(&slice(), order, &page.changes).await.unwrap();
        }
        cursor = page.next;
        if page.caught_up {
            return cursor;
        }
    }
}
