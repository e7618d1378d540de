//! Two real engines, a record whose answers can get lost, and voters that retry until
//! they are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::moving::{MigrationId, MigrationPhase, SliceRoute};
use ballast_domain::poll::{
    Ballot, BallotOutcome, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice,
};
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId, Timestamp, VoterId};
use ballast_migration_engine::ports::{RouteRecord, RouteStore};
use ballast_migration_engine::worker::{
    LeasedMigration, MigrationClaimError, MigrationError, MigrationProgress, MigrationWorker,
    WorkGoal, WorkOutcome, claim_slice,
};
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::shard::{ExportedRow, Holding, RowVersion, VoterName, VoterRow};
use ballast_vote_shard::testing::{SeedEntropy, SteppedClock};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, ShardResult, VoteShard};
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) const SOURCE: &str = "shard-1";
pub(crate) const TARGET: &str = "shard-2";
const NOW_MS: i64 = 1_794_821_400_000;

pub(crate) fn id(name: &str) -> ShardId {
    name.parse().unwrap()
}

pub(crate) fn slice() -> SliceId {
    SliceId {
        tenant_id: "acme".parse().unwrap(),
        slice: 0,
    }
}

pub(crate) fn fenced_slice(epoch: Epoch) -> FencedSlice {
    FencedSlice {
        slice: slice(),
        epoch,
    }
}

fn poll() -> Poll {
    let items = ["a", "b"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    Poll {
        poll_id: PollId::from_number(1),
        request: RequestId(1),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: Timestamp::from_unix_ms(NOW_MS + 3_600_000),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: Timestamp::from_unix_ms(NOW_MS),
        closed_at: None,
    }
}

/// The record of one slice.
pub(crate) struct Register {
    seen: Mutex<RouteRecord>,
    swaps: AtomicUsize,
    loses: AtomicBool,
    /// Another writer is always faster.
    is_contended: AtomicBool,
}

#[async_trait]
impl RouteStore for Register {
    async fn read(&self, asked: &SliceId) -> Result<Option<RouteRecord>, RegistryError> {
        tokio::task::yield_now().await;
        let seen = self.seen.lock().unwrap().clone();
        Ok((*asked == slice()).then_some(seen))
    }

    async fn swap(
        &self,
        _: &SliceId,
        seen: &RouteRecord,
        then: &SliceRoute,
    ) -> Result<bool, RegistryError> {
        tokio::task::yield_now().await;
        let swapped = {
            let mut now = self.seen.lock().unwrap();
            let same = *now == *seen && !self.is_contended.load(Ordering::Acquire);
            if same {
                let phase = then.moving.as_ref().map(|moving| moving.phase);
                let sealing = matches!(phase, Some(MigrationPhase::Sealing { .. }));
                *now = RouteRecord {
                    route: then.clone(),
                    version: now.version + 1,
                    sealing_since: sealing.then(|| Timestamp::from_unix_ms(NOW_MS)),
                };
            }
            same
        };
        let count = self.swaps.fetch_add(1, Ordering::AcqRel);
        if self.loses.load(Ordering::Acquire) && count % 3 == 2 {
            return Err(RegistryError::new("swap a record", "the answer was lost"));
        }
        Ok(swapped)
    }
}

struct Pair(
    BTreeMap<ShardId, Arc<EmbeddedShard>>,
    Mutex<Option<ShardId>>,
);

impl ShardDirectory for Pair {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        let is_away = self.1.lock().unwrap().as_ref() == Some(id);
        match self.0.get(id).filter(|_| !is_away) {
            Some(shard) => Ok(shard.clone()),
            None => Err(ShardError::unavailable("there is none")),
        }
    }
}

pub(crate) struct TwoShardWorld {
    register: Arc<Register>,
    pair: Arc<Pair>,
    clock: Arc<SteppedClock>,
    tally: Arc<Tally>,
    _home: tempfile::TempDir,
}

/// How many votes were acknowledged.
#[derive(Default)]
struct Tally {
    count: AtomicU64,
    more: Notify,
}

fn open(directory: &Path, name: &str, clock: &Arc<SteppedClock>, seed: u64) -> EmbeddedShard {
    std::fs::create_dir_all(directory).unwrap();
    EmbeddedShard::open(
        name,
        Arc::new(RealDisk::open(directory).unwrap()),
        ShardOptions::default(),
        clock.clone(),
        Arc::new(SeedEntropy(AtomicU64::new(seed))),
    )
    .unwrap()
}

impl TwoShardWorld {
    pub(crate) async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(SteppedClock::new(NOW_MS));
        let mut shards = BTreeMap::new();
        for (seed, name) in (1..).zip([SOURCE, TARGET]) {
            let shard = open(&home.path().join(name), name, &clock, seed);
            shards.insert(id(name), Arc::new(shard));
        }
        let source = &shards[&id(SOURCE)];
        source.adopt(&fenced_slice(Epoch::FIRST)).await.unwrap();
        source
            .create_poll(&fenced_slice(Epoch::FIRST), poll())
            .await
            .unwrap();
        let seen = RouteRecord {
            route: SliceRoute::placed(id(SOURCE)),
            version: 1,
            sealing_since: None,
        };
        Self {
            register: Arc::new(Register {
                seen: Mutex::new(seen),
                swaps: AtomicUsize::new(0),
                loses: AtomicBool::new(false),
                is_contended: AtomicBool::new(false),
            }),
            pair: Arc::new(Pair(shards, Mutex::default())),
            clock,
            tally: Arc::default(),
            _home: home,
        }
    }

    pub(crate) fn records(&self) -> Arc<Register> {
        self.register.clone()
    }

    pub(crate) fn lose_every_third_answer(&self) {
        self.register.loses.store(true, Ordering::Release);
    }

    /// Makes every swap fail because another writer was faster, or succeed again.
    pub(crate) fn set_contended(&self, is_contended: bool) {
        self.register
            .is_contended
            .store(is_contended, Ordering::Release);
    }

    /// Makes one shard unreachable, or all shards reachable again.
    pub(crate) fn set_away(&self, name: Option<&str>) {
        *self.pair.1.lock().unwrap() = name.map(id);
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, ms: i64) {
        self.clock.advance(ms);
    }

    pub(crate) fn shard(&self, name: &str) -> &EmbeddedShard {
        &self.pair.0[&id(name)]
    }

    pub(crate) async fn claim(
        &self,
        name: &str,
        to: &str,
    ) -> Result<SliceRoute, MigrationClaimError> {
        self.claim_with_sync(name, to, false).await
    }

    pub(crate) async fn claim_with_sync(
        &self,
        name: &str,
        to: &str,
        sync: bool,
    ) -> Result<SliceRoute, MigrationClaimError> {
        let name = MigrationId(name.to_owned());
        claim_slice(&*self.register, &slice(), &name, &id(to), sync).await
    }

    pub(crate) fn worker(&self) -> MigrationWorker {
        MigrationWorker::new(self.register.clone(), self.pair.clone(), self.clock.clone())
    }

    pub(crate) fn job(&self, name: &str, lease: u64) -> LeasedMigration {
        LeasedMigration {
            migration_id: MigrationId(name.to_owned()),
            slice: slice(),
            lease,
            seal_max_ms: None,
        }
    }

    pub(crate) async fn work(
        &self,
        name: &str,
        lease: u64,
        goal: WorkGoal,
    ) -> Result<WorkOutcome, MigrationError> {
        let job = self.job(name, lease);
        let worker = self.worker();
        worker
            .work(&job, goal, &mut MigrationProgress::default())
            .await
    }

    /// Waits until this many votes are acknowledged.
    pub(crate) async fn acknowledged(&self, wanted: u64) {
        loop {
            let more = self.tally.more.notified();
            if self.tally.count.load(Ordering::Acquire) >= wanted {
                return;
            }
            more.await;
        }
    }

    /// Starts voters that vote one after the other until they are stopped.
    pub(crate) fn voting(&self, voters: u64) -> Voting {
        let stop = Arc::new(AtomicBool::new(false));
        let mut crew = JoinSet::new();
        for lane in 0..voters {
            let (register, pair) = (self.register.clone(), self.pair.clone());
            let (tally, stop) = (self.tally.clone(), stop.clone());
            crew.spawn(async move {
                let mut acknowledged = BTreeSet::new();
                for number in 0_u64.. {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let voter = format!("v{lane}-{number}");
                    vote(&register, &pair, &voter, (lane << 32) + number).await;
                    acknowledged.insert(voter);
                    tally.count.fetch_add(1, Ordering::AcqRel);
                    tally.more.notify_waiters();
                }
                acknowledged
            });
        }
        Voting {
            stop,
            crew,
            tally: self.tally.clone(),
        }
    }

    /// Checks that a shard owns the slice and holds exactly these votes, each once.
    pub(crate) async fn holds(&self, name: &str, votes: &BTreeSet<String>) {
        let shard = self.shard(name);
        let route = self.register.seen.lock().unwrap().route.clone();
        assert_eq!((route.owner, route.moving), (id(name), None));
        let fence = shard.fence(&slice()).await.unwrap().unwrap();
        assert_eq!((fence.holding, fence.epoch), (Holding::Owner, route.epoch));
        let poll = poll().poll_id;
        let tally = shard.tally(&slice(), poll).await.unwrap();
        assert_eq!(
            (tally.total(), tally.voters),
            (votes.len() as u64, votes.len() as u64)
        );
        for voter in votes {
            let voter = VoterId::new(voter).unwrap();
            let row = shard.voter(&slice(), poll, &voter).await.unwrap();
            assert!(row.is_some(), "{voter:?} is lost");
        }
        let kept = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), kept);
    }

    /// Checks that a shard holds nothing of the slice.
    pub(crate) async fn is_gone(&self, name: &str) {
        let shard = self.shard(name);
        let fence = shard.fence(&slice()).await.unwrap().unwrap();
        assert_eq!(fence.holding, Holding::Gone);
        assert_eq!(shard.polls(&slice(), None, 9).await.unwrap(), []);
    }

    /// A row that was never cast.
    pub(crate) fn strange_rows(&self) -> Vec<ExportedRow> {
        let version = RowVersion {
            epoch: Epoch(1),
            revision: 1,
        };
        let row = VoterRow {
            poll: poll().poll_id,
            voter: VoterName::Named(VoterId::new("nobody").unwrap()),
            items: vec![0],
            version,
            requests: Vec::new(),
            voted_at: Timestamp::from_unix_ms(NOW_MS),
        };
        let poll = ballast_vote_shard::shard::PollRow {
            poll: poll(),
            version,
            carried: vec![0, 0],
            imports: Vec::new(),
            archived: None,
        };
        vec![ExportedRow::Poll(poll), ExportedRow::Voter(row)]
    }
}

pub(crate) struct Voting {
    stop: Arc<AtomicBool>,
    crew: JoinSet<BTreeSet<String>>,
    tally: Arc<Tally>,
}

impl Voting {
    pub(crate) fn acknowledged(&self) -> u64 {
        self.tally.count.load(Ordering::Acquire)
    }

    /// Stops the voters, and returns everyone whose vote was acknowledged.
    pub(crate) async fn stop(mut self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Release);
        let mut all = BTreeSet::new();
        while let Some(one) = self.crew.join_next().await {
            all.extend(one.unwrap());
        }
        all
    }
}

/// Votes like a router until it is answered: by the record, and again if the shard
/// refuses the epoch.
async fn vote(register: &Register, pair: &Pair, voter: &str, request: u64) {
    let poll = poll();
    let ballot = Ballot {
        poll: poll.poll_id,
        item: poll.item_id(0),
        voter: VoterId::new(voter).unwrap(),
        choice: VoteChoice::For,
        request: RequestId(request + 2),
        arrived_at: Timestamp::from_unix_ms(NOW_MS),
        if_revision: None,
    };
    loop {
        let route = register.seen.lock().unwrap().route.clone();
        let shard = &pair.0[&route.owner];
        match shard
            .cast(&fenced_slice(route.epoch), std::slice::from_ref(&ballot))
            .await
        {
            Ok(verdicts) => {
                assert_eq!(verdicts, [BallotOutcome::Counted { revision: 1 }]);
                return;
            }
            Err(ShardError::Fenced(_)) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}
