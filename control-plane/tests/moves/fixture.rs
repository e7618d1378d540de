//! A complete fleet in one process: a real registry, real embedded shards, the workflow
//! engine with the migration steps, and continuous voters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ballast_control_plane::calendar::CalendarSettings;
use ballast_control_plane::change::IfMatch;
use ballast_control_plane::hotspots::HotspotSettings;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::load::LoadSettings;
use ballast_control_plane::migrations::begin::{NewMigration, begin};
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::certificate_signer::CertificateSigner;
use ballast_control_plane::migrations::commands::{MigrationCommand, apply_command};
use ballast_control_plane::migrations::slice_records::SliceRecords;
use ballast_control_plane::migrations::{
    self, MigrationBackends, MigrationRecords, MigrationSettings, reconciler,
};
use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::tenants::{self, NewTenant};
use ballast_control_plane::workflows::{definitions, tasks};
use ballast_control_plane::{ControlPlane, ControlPlaneSettings, Workflows, bootstrap};
use ballast_domain::call_stats::CutoverCallStats;
use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::migration::MigrationStage;
use ballast_domain::moving::{MigrationId, SliceRoute};
use ballast_domain::poll::{
    Ballot, BallotOutcome, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice,
};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, Entropy, Error, ItemId, PollId, ShardId, Timestamp, VoterId};
use ballast_migration_engine::ports::{DualReadStats, ReadCounts, RouteStore};
use ballast_migration_engine::steps::MigrationSteps;
use ballast_state_machines::engine::{self, Engine, HandlerRegistry};
use ballast_state_machines::store::MemoryStore;
use ballast_vote_shard::archive::LocalArchives;
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::shard::{Holding, VoterRow};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, ShardResult, VoteShard};
use tokio::task::JoinSet;

pub(crate) const TENANT: &str = "acme";

/// The machine's time.
pub(crate) struct WallClock;

impl Clock for WallClock {
    #[allow(clippy::disallowed_methods, reason = "these tests run in real time")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_unix_ms(i64::try_from(since.unwrap().as_millis()).unwrap())
    }
}

/// Randomness from a counter.
struct CounterEntropy(AtomicU64);

impl Entropy for CounterEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The fleet's shards; one of them can be made unreachable.
pub(crate) struct TestShards {
    shards: BTreeMap<ShardId, Arc<EmbeddedShard>>,
    away: std::sync::Mutex<Option<ShardId>>,
}

impl TestShards {
    pub(crate) fn set_away(&self, name: Option<&str>) {
        *self.away.lock().unwrap() = name.map(id);
    }

    pub(crate) fn embedded(&self, name: &ShardId) -> &Arc<EmbeddedShard> {
        &self.shards[name]
    }
}

impl ShardDirectory for TestShards {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        if self.away.lock().unwrap().as_ref() == Some(id) {
            return Err(ShardError::unavailable("it is away"));
        }
        Ok(self.shards[id].clone())
    }
}

/// Routers' observations, as set by the test.
#[derive(Default)]
pub(crate) struct FakeReaders {
    around: std::sync::Mutex<CutoverCallStats>,
    counts: std::sync::Mutex<ReadCounts>,
}

impl FakeReaders {
    /// Adds failed calls after the cutover.
    pub(crate) fn add_failed_calls(&self, calls: u64) {
        self.around.lock().unwrap().after.failed += calls;
    }

    /// Sets what routers saw by reading both copies.
    pub(crate) fn set_counts(&self, counts: ReadCounts) {
        *self.counts.lock().unwrap() = counts;
    }

    /// Sets the number of rows that only the old copy has.
    pub(crate) fn set_stragglers(&self, rows: u64) {
        self.counts.lock().unwrap().stragglers = rows;
    }
}

impl DualReadStats for FakeReaders {
    fn around_cutover(&self, _: &SliceId) -> CutoverCallStats {
        *self.around.lock().unwrap()
    }

    fn counts(&self, _: &SliceId) -> ReadCounts {
        *self.counts.lock().unwrap()
    }

    fn forget(&self, _: &SliceId) {
        self.set_counts(ReadCounts::default());
    }
}

pub(crate) fn id(name: &str) -> ShardId {
    name.parse().unwrap()
}

pub(crate) fn slice() -> SliceId {
    SliceId {
        tenant_id: TENANT.parse().unwrap(),
        slice: 0,
    }
}

pub(crate) fn poll_id() -> PollId {
    PollId::from_number(1)
}

pub(crate) struct TestFleet {
    pub(crate) plane: ControlPlane,
    pub(crate) shards: Arc<TestShards>,
    pub(crate) engine: Engine,
    pub(crate) readers: Arc<FakeReaders>,
    pub(crate) home: tempfile::TempDir,
}

fn shard(home: &Path, name: &ShardId, seed: u64) -> Arc<EmbeddedShard> {
    let directory = home.join(name.as_str());
    std::fs::create_dir_all(&directory).unwrap();
    let disk = Arc::new(RealDisk::open(&directory).unwrap());
    let entropy = Arc::new(CounterEntropy(AtomicU64::new(seed)));
    let clock = Arc::new(WallClock);
    let shard = EmbeddedShard::open(name.as_str(), disk, ShardOptions::default(), clock, entropy);
    Arc::new(shard.unwrap())
}

impl TestFleet {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Three shards, and one tenant with one poll.
    pub(crate) async fn with(set: impl FnOnce(&mut MigrationSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(WallClock);
        let file = home.path().join("registry.db");
        let registry = SqliteRegistry::open(&file, clock.clone()).await.unwrap();
        let mut moves = MigrationSettings::default();
        set(&mut moves);
        let settings = ControlPlaneSettings {
            default_region: "local".parse().unwrap(),
            pressure: PressureThresholds::default(),
            rotate_overlap_seconds: 60,
            moves,
            load: LoadSettings::default(),
            hotspots: HotspotSettings::default(),
            calendar: CalendarSettings::default(),
        };
        let entropy = Arc::new(CounterEntropy(AtomicU64::new(3)));
        let registry = Arc::new(registry);
        let plane = ControlPlane::open(registry, clock.clone(), entropy, settings);
        let plane = plane.await.unwrap();
        let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
        bootstrap::run(&plane, 3, &secret).await.unwrap();
        let names = ["shard-1", "shard-2", "shard-3"].map(id);
        let shards = (1..).zip(names).map(|(seed, name)| {
            let opened = shard(home.path(), &name, seed);
            (name, opened)
        });
        let shards = Arc::new(TestShards {
            shards: shards.collect(),
            away: std::sync::Mutex::new(None),
        });
        let archives = Arc::new(LocalArchives::new(home.path().join("archive")));
        plane.set_migration_backends(MigrationBackends {
            shards: shards.clone(),
            archives: archives.clone(),
            signer: CertificateSigner::from_seed(&[7; 32]).unwrap(),
        });
        let readers = Arc::new(FakeReaders::default());
        let steps = MigrationSteps::new(
            Arc::new(SliceRecords::new(plane.clone())),
            Arc::new(MigrationRecords::new(plane.clone())),
            shards.clone(),
            archives,
            readers.clone(),
            clock,
        );
        let registry = steps.register(tasks::register_common_tasks(HandlerRegistry::new()));
        let engine = Engine::new(
            Arc::new(MemoryStore::new()),
            registry,
            Arc::new(engine::SystemClock),
            engine::EngineSettings::default(),
        );
        let engine = engine.await.unwrap();
        definitions::deploy_built_in(&engine).await.unwrap();
        plane.set_workflows(Workflows::new(engine.clone()));
        let fleet = Self {
            plane,
            shards,
            engine,
            readers,
            home,
        };
        fleet.create_tenant().await;
        fleet
    }

    async fn create_tenant(&self) {
        let new: NewTenant = serde_json::from_str(r#"{"tenantID":"acme"}"#).unwrap();
        let intent = Intent::ballast("test", "a tenant to move");
        tenants::create(&self.plane, &intent, new).await.unwrap();
        let owner = self.owner().await;
        let shard = self.shards.embedded(&owner);
        let at = FencedSlice {
            slice: slice(),
            epoch: Epoch::FIRST,
        };
        shard.adopt(&at).await.unwrap();
        shard.create_poll(&at, poll()).await.unwrap();
    }

    pub(crate) async fn owner(&self) -> ShardId {
        let tenant = tenants::get(&self.plane, &slice().tenant_id).await.unwrap();
        tenant.value.slices[0].shard_id.clone()
    }

    /// The two shards that do not own the slice.
    pub(crate) async fn others(&self) -> [ShardId; 2] {
        let owner = self.owner().await;
        let others = self.shards.shards.keys().filter(|name| **name != owner);
        let others: Vec<_> = others.cloned().collect();
        others.try_into().unwrap()
    }

    pub(crate) fn to(shard: &ShardId) -> NewMigration {
        NewMigration {
            to: shard.clone(),
            from: None,
            slice: 0,
            window_ms: Some(0),
            sync: false,
            max_pause_ms: None,
            passed_over: Vec::new(),
            now: false,
            dry_run: false,
        }
    }

    pub(crate) async fn begin(&self, new: &NewMigration) -> Result<MigrationBody, Error> {
        let intent = Intent::ballast("test", "because");
        begin(&self.plane, &intent, &slice().tenant_id, new).await
    }

    /// Begins a migration that must be accepted.
    pub(crate) async fn begun(&self, new: &NewMigration) -> MigrationId {
        self.begin(new).await.unwrap().migration.value.migration_id
    }

    pub(crate) async fn command(
        &self,
        id: &MigrationId,
        command: MigrationCommand,
    ) -> Result<MigrationBody, Error> {
        let intent = Intent::ballast("test", "as asked");
        apply_command(&self.plane, &intent, id, &IfMatch::Any, command).await
    }

    pub(crate) async fn show(&self, id: &MigrationId) -> MigrationBody {
        migrations::show(&self.plane, id).await.unwrap()
    }

    /// Waits until a migration has cut over.
    pub(crate) async fn until_cut_over(&self, id: &MigrationId) -> MigrationBody {
        let is_cut_over =
            |shown: &MigrationBody| shown.migration.value.stage == MigrationStage::CutOver;
        self.until(id, "cut over", is_cut_over).await
    }

    /// Waits for a state of a migration; the reconciler runs meanwhile.
    pub(crate) async fn until(
        &self,
        id: &MigrationId,
        what: &str,
        wanted: impl Fn(&MigrationBody) -> bool,
    ) -> MigrationBody {
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let mut last = None;
        let waiting = async {
            loop {
                let shown = self.show(id).await;
                if wanted(&shown) {
                    return shown;
                }
                last = Some(shown);
                reconciler::reconcile_migrations(&self.plane, &clock)
                    .await
                    .unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.unwrap_or_else(|_| panic!("{what}: {last:#?}"))
    }

    /// Waits until the migration has ended.
    pub(crate) async fn ended(&self, id: &MigrationId) -> MigrationBody {
        self.until(id, "over", |shown| shown.migration.value.is_over())
            .await
    }

    /// Starts voters who vote one after the other until they are stopped.
    pub(crate) fn voting(&self, voters: u64) -> Voting {
        let stop = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(AtomicU64::new(0));
        let mut crew = JoinSet::new();
        for lane in 0..voters {
            let (plane, shards) = (self.plane.clone(), self.shards.clone());
            let (stop, counted) = (stop.clone(), counted.clone());
            crew.spawn(async move {
                let records = SliceRecords::new(plane);
                let mut acknowledged = BTreeSet::new();
                for number in 0_u64.. {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let voter = format!("v{lane}-{number}");
                    let ballot = ballot(&voter, (lane << 32) + number);
                    vote(&records, &shards, ballot).await;
                    acknowledged.insert(voter);
                    counted.fetch_add(1, Ordering::AcqRel);
                }
                acknowledged
            });
        }
        Voting {
            stop,
            counted,
            crew,
        }
    }

    /// Casts these voters' votes on the slice's owner.
    pub(crate) async fn vote(&self, voters: &[&str]) {
        let records = SliceRecords::new(self.plane.clone());
        for (number, voter) in (1_u64 << 50..).zip(voters) {
            vote(&records, &self.shards, ballot(voter, number)).await;
        }
    }

    /// Casts votes on a shard that the others cannot reach, through a router that can, at
    /// this epoch.
    pub(crate) async fn vote_on(
        &self,
        shard: &ShardId,
        epoch: Epoch,
        voters: &[&str],
    ) -> ShardResult<()> {
        let at = FencedSlice {
            slice: slice(),
            epoch,
        };
        let numbered = (1_u64 << 51..).zip(voters);
        let ballots: Vec<_> = numbered.map(|(no, voter)| ballot(voter, no)).collect();
        let cast = self.shards.embedded(shard).cast(&at, &ballots).await;
        cast.map(drop)
    }

    /// The slice's route.
    pub(crate) async fn route(&self) -> SliceRoute {
        let records = SliceRecords::new(self.plane.clone());
        records.read(&slice()).await.unwrap().unwrap().route
    }

    /// Asserts that only this shard holds the slice, with each of these votes once, and
    /// that no lock is left.
    pub(crate) async fn holds(&self, owner: &ShardId, votes: &BTreeSet<String>) {
        let tenant = tenants::get(&self.plane, &slice().tenant_id).await.unwrap();
        let record = &tenant.value.slices[0];
        assert_eq!((&record.shard_id, &record.moving), (owner, &None));
        for (name, shard) in &self.shards.shards {
            let fence = shard.fence(&slice()).await.unwrap();
            let holding = fence.as_ref().map(|fence| fence.holding);
            if name == owner {
                assert_eq!(holding, Some(Holding::Owner), "{name}");
                assert_eq!(fence.unwrap().epoch, record.epoch);
            } else {
                assert!(
                    matches!(holding, None | Some(Holding::Gone)),
                    "{name}: {holding:?}"
                );
                let polls = shard.polls(&slice(), None, 9).await;
                assert!(polls.is_err() || polls.unwrap().is_empty(), "{name}");
            }
        }
        let shard = self.shards.embedded(owner);
        let tally = shard.tally(&slice(), poll_id()).await.unwrap();
        assert_eq!(tally.total(), votes.len() as u64);
        for voter in votes {
            assert!(self.row(owner, voter).await.is_some(), "{voter} is lost");
        }
        let kept = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), kept);
    }

    /// Creates, votes in and closes a poll on the slice's owner.
    pub(crate) async fn closed(&self, number: u128, votes: u64) -> PollId {
        let owner = self.owner().await;
        let records = SliceRecords::new(self.plane.clone());
        let route = records.read(&slice()).await.unwrap().unwrap().route;
        let at = FencedSlice {
            slice: slice(),
            epoch: route.epoch,
        };
        let shard = self.shards.embedded(&owner);
        let id = PollId::from_number(number);
        let request = RequestId(u64::try_from(number).unwrap() << 40);
        let new = Poll {
            poll_id: id,
            request,
            ..poll()
        };
        shard.create_poll(&at, new).await.unwrap();
        let ballots = (0..votes).map(|voter| Ballot {
            poll: id,
            item: ItemId::from_position(id, 0),
            ..ballot(&format!("c{voter}"), request.0 + voter)
        });
        let ballots: Vec<_> = ballots.collect();
        shard.cast(&at, &ballots).await.unwrap();
        shard.close_poll(&at, id).await.unwrap();
        id
    }

    /// The archive files of a shard.
    pub(crate) fn files(&self, shard: &ShardId) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.path().join("archive").join(shard.as_str())];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(folder) else {
                continue;
            };
            for entry in entries {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) async fn row(&self, shard: &ShardId, voter: &str) -> Option<VoterRow> {
        let voter = VoterId::new(voter).unwrap();
        let shard = self.shards.embedded(shard);
        shard.voter(&slice(), poll_id(), &voter).await.unwrap()
    }
}

pub(crate) struct Voting {
    stop: Arc<AtomicBool>,
    counted: Arc<AtomicU64>,
    crew: JoinSet<BTreeSet<String>>,
}

impl Voting {
    /// Waits until this many more votes are acknowledged.
    pub(crate) async fn more(&self, votes: u64) {
        let wanted = self.counted.load(Ordering::Acquire) + votes;
        while self.counted.load(Ordering::Acquire) < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn stop(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Release);
        self.crew.join_all().await.into_iter().flatten().collect()
    }
}

async fn vote(records: &SliceRecords, shards: &TestShards, ballot: Ballot) {
    loop {
        let route = records.read(&slice()).await.unwrap().unwrap().route;
        let at = FencedSlice {
            slice: slice(),
            epoch: route.epoch,
        };
        let cast = match shards.shard(&route.owner) {
            Ok(shard) => shard.cast(&at, std::slice::from_ref(&ballot)).await,
            Err(away) => Err(away),
        };
        match cast {
            Ok(verdicts) => {
                assert_eq!(verdicts, [BallotOutcome::Counted { revision: 1 }]);
                return;
            }
            Err(ShardError::Fenced(_) | ShardError::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn ballot(voter: &str, request: u64) -> Ballot {
    Ballot {
        poll: poll_id(),
        item: ItemId::from_position(poll_id(), 0),
        voter: VoterId::new(voter).unwrap(),
        choice: VoteChoice::For,
        request: RequestId(request + 2),
        arrived_at: WallClock.now(),
        if_revision: None,
    }
}

fn poll() -> Poll {
    let items = ["a", "b"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    let now = WallClock.now();
    Poll {
        poll_id: poll_id(),
        request: RequestId(1),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: now.plus_seconds(3_600),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: now,
        closed_at: None,
    }
}
