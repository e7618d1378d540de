//! Recuts on a real engine: aborted when they take too long, also if their shard does not
//! answer; continued by another worker; not claimed if the shard is not ready.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::RegistryError;
use ballast_domain::slicing::{LayoutSlice, RecutPhase, SliceLayout, equal_cuts};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, ShardId, TenantId};
use ballast_migration_engine::cutter::{RecutClaimError, RecutOutcome, RecutWorker};
use ballast_migration_engine::ports::{LayoutRecord, LayoutStore};
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::shard::Holding;
use ballast_vote_shard::testing::{SeedEntropy, SteppedClock};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, ShardResult, VoteShard};

const SEAL_MAX_MS: u64 = 2_000;

fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

fn slice(slice: u32) -> SliceId {
    SliceId {
        tenant_id: tenant(),
        slice,
    }
}

fn name() -> MigrationId {
    MigrationId("rc-1".to_owned())
}

/// A tenant's record. Every third answer can get lost.
struct Record {
    seen: Mutex<LayoutRecord>,
    clock: Arc<SteppedClock>,
    swaps: AtomicUsize,
    loses: AtomicBool,
}

#[async_trait]
impl LayoutStore for Record {
    async fn read(&self, _: &TenantId) -> Result<Option<LayoutRecord>, RegistryError> {
        Ok(Some(self.seen.lock().unwrap().clone()))
    }

    async fn swap(
        &self,
        _: &TenantId,
        seen: &LayoutRecord,
        then: &SliceLayout,
    ) -> Result<bool, RegistryError> {
        let mut now = self.seen.lock().unwrap();
        let same = now.layout == seen.layout;
        if same {
            let phase = then.recut.as_ref().map(|cut| cut.phase);
            let since = (phase == Some(RecutPhase::Sealing)).then(|| self.clock.now());
            *now = LayoutRecord {
                layout: then.clone(),
                sealing_since: since,
            };
        }
        let count = self.swaps.fetch_add(1, Ordering::AcqRel);
        match self.loses.load(Ordering::Acquire) && count % 3 == 2 {
            true => Err(RegistryError::new("swap a record", "the answer was lost")),
            false => Ok(same),
        }
    }
}

/// The only shard, which may be unreachable.
struct Only(Arc<EmbeddedShard>, AtomicBool);

impl ShardDirectory for Only {
    fn shard(&self, _: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        match self.1.load(Ordering::Acquire) {
            true => Err(ShardError::unavailable("away")),
            false => Ok(self.0.clone()),
        }
    }
}

struct OneShardWorld {
    record: Arc<Record>,
    only: Arc<Only>,
    clock: Arc<SteppedClock>,
    cutter: RecutWorker,
    _home: tempfile::TempDir,
}

impl OneShardWorld {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(SteppedClock::new(1_794_821_400_000));
        let shard = EmbeddedShard::open(
            "shard-1",
            Arc::new(RealDisk::open(home.path()).unwrap()),
            ShardOptions::default(),
            clock.clone(),
            Arc::new(SeedEntropy(AtomicU64::new(7))),
        );
        let part = LayoutSlice {
            slice: 0,
            hash_from: 0,
            owner: "shard-1".parse().unwrap(),
            epoch: Epoch::FIRST,
            spent: Epoch::FIRST,
            moving: None,
        };
        let record = Arc::new(Record {
            seen: Mutex::new(LayoutRecord {
                layout: SliceLayout {
                    parts: vec![part],
                    next_slice: 1,
                    recut: None,
                },
                sealing_since: None,
            }),
            clock: clock.clone(),
            swaps: AtomicUsize::new(0),
            loses: AtomicBool::new(false),
        });
        let only = Arc::new(Only(Arc::new(shard.unwrap()), AtomicBool::new(false)));
        let cutter = RecutWorker::new(record.clone(), only.clone(), clock.clone());
        Self {
            record,
            only,
            clock,
            cutter,
            _home: home,
        }
    }

    async fn claim(&self) -> Result<(), RecutClaimError> {
        let (tenant, name, cuts) = (tenant(), name(), equal_cuts(2));
        let claim = self.cutter.claim(&tenant, &name, &[0], &cuts);
        claim.await
    }

    fn layout(&self) -> SliceLayout {
        self.record.seen.lock().unwrap().layout.clone()
    }

    fn set_away(&self, away: bool) {
        self.only.1.store(away, Ordering::Release);
    }

    fn pass(&self, ms: i64) {
        self.clock.advance(ms);
    }

    async fn holding(&self, number: u32) -> Option<(Holding, Epoch)> {
        let fence = self.only.0.fence(&slice(number)).await.unwrap();
        fence.map(|fence| (fence.holding, fence.epoch))
    }

    async fn takes_writes(&self, number: u32, epoch: u64) -> bool {
        let at = FencedSlice {
            slice: slice(number),
            epoch: Epoch(epoch),
        };
        self.only.0.cast(&at, &[]).await.is_ok()
    }
}

#[tokio::test]
async fn a_slice_without_writes_is_cut() {
    let world = OneShardWorld::start();
    world.claim().await.unwrap();
    let came = world.cutter.work(&tenant(), SEAL_MAX_MS).await.unwrap();
    assert_eq!(came, RecutOutcome::Cut { pause_ms: 0 });
    assert_eq!(world.layout().recut, None);
    assert_eq!(world.holding(0).await, Some((Holding::Gone, Epoch(2))));
    for child in [1, 2] {
        assert!(world.takes_writes(child, 2).await);
    }
}

#[tokio::test]
async fn one_that_takes_too_long_is_called_off_and_can_be_tried_again() {
    let world = OneShardWorld::start();
    world.claim().await.unwrap();
    world.pass(2_000);
    let came = world.cutter.work(&tenant(), SEAL_MAX_MS).await.unwrap();
    assert_eq!(came, RecutOutcome::Aborted);
    assert!(world.takes_writes(0, 3).await, "at a newer epoch");
    assert_eq!(world.holding(1).await, None);
    world.claim().await.unwrap();
    let came = world.cutter.work(&tenant(), SEAL_MAX_MS).await.unwrap();
    assert!(matches!(came, RecutOutcome::Cut { .. }), "{came:?}");
    // The first attempt's slice numbers are not reused.
    let numbers: Vec<u32> = world.layout().parts.iter().map(|it| it.slice).collect();
    assert_eq!(numbers, [3, 4]);
}

#[tokio::test]
async fn a_shard_that_is_away_is_not_waited_for() {
    let world = OneShardWorld::start();
    world.set_away(true);
    let not_now = world.claim().await;
    assert!(
        matches!(not_now, Err(RecutClaimError::Shard(_))),
        "{not_now:?}"
    );
    assert_eq!(world.layout().recut, None, "nothing was sealed");
    world.set_away(false);
    world.claim().await.unwrap();
    world.set_away(true);
    assert!(world.cutter.work(&tenant(), SEAL_MAX_MS).await.is_err());
    let phase = |world: &OneShardWorld| world.layout().recut.map(|cut| cut.phase);
    assert_eq!(phase(&world), Some(RecutPhase::Sealing));
    // The record decides without the shard, which learns of it when it is back.
    world.pass(2_000);
    assert!(world.cutter.work(&tenant(), SEAL_MAX_MS).await.is_err());
    assert_eq!(phase(&world), Some(RecutPhase::Aborting));
    world.set_away(false);
    let came = world.cutter.work(&tenant(), SEAL_MAX_MS).await.unwrap();
    assert_eq!(came, RecutOutcome::Aborted);
    assert!(world.takes_writes(0, 3).await);
}

#[tokio::test]
async fn two_who_work_on_it_and_lost_answers_do_no_harm() {
    let world = OneShardWorld::start();
    world.record.loses.store(true, Ordering::Release);
    let claimed = async || {
        while world.layout().recut.is_none() {
            // The claim may have succeeded although its answer was lost.
            let _ = world.claim().await;
        }
    };
    claimed().await;
    let (tenant, cutter) = (tenant(), &world.cutter);
    let work = async || {
        while world.layout().recut.is_some() {
            let _ = cutter.work(&tenant, SEAL_MAX_MS).await;
        }
    };
    tokio::join!(work(), work());
    assert_eq!(world.layout().parts.len(), 2);
    for child in [1, 2] {
        assert!(world.takes_writes(child, 2).await);
    }
}
