//! A whole house in one process: a real registry, real embedded shards, the
//! workflow engine with the steps of moves, and voters who do not stop.

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
use ballast_control_plane::migrations::ask::{Ask, ask};
use ballast_control_plane::migrations::begin::{NewMove, begin};
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::notary::Notary;
use ballast_control_plane::migrations::records::SliceRecords;
use ballast_control_plane::migrations::{self, Kept, MoveSettings, Movers, watchman};
use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::tenants::{self, NewTenant};
use ballast_control_plane::workflows::{definitions, tasks};
use ballast_control_plane::{ControlPlane, Settings, Workflows, bootstrap};
use ballast_domain::answers::AroundCutover;
use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::migration::Stage;
use ballast_domain::moving::{MoveId, Route};
use ballast_domain::poll::{
    Ballot, Choice, ItemSpec, Poll, PollOptions, PollSpec, RequestId, Verdict,
};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, Entropy, Error, ItemId, PollId, ShardId, Timestamp, VoterId};
use ballast_migration_engine::ports::{ReadCounts, Readers, Records};
use ballast_migration_engine::steps::Steps;
use ballast_state_machines::engine::{self, Engine, Registry};
use ballast_state_machines::store::MemoryStore;
use ballast_vote_shard::archive::LocalArchives;
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, Options};
use ballast_vote_shard::shard::{Holding, VoterRow};
use ballast_vote_shard::{At, ShardError, ShardResult, Shards, VoteShard};
use tokio::task::JoinSet;

pub(crate) const TENANT: &str = "acme";

/// The time of this machine.
pub(crate) struct WallClock;

impl Clock for WallClock {
    #[allow(clippy::disallowed_methods, reason = "these tests run in real time")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_unix_ms(i64::try_from(since.unwrap().as_millis()).unwrap())
    }
}

/// Chance from a counter: nobody attacks this house.
struct Dice(AtomicU64);

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The shards of the house; one of them may be away.
pub(crate) struct Cellar {
    shards: BTreeMap<ShardId, Arc<EmbeddedShard>>,
    away: std::sync::Mutex<Option<ShardId>>,
}

impl Cellar {
    pub(crate) fn set_away(&self, name: Option<&str>) {
        *self.away.lock().unwrap() = name.map(id);
    }

    pub(crate) fn embedded(&self, name: &ShardId) -> &Arc<EmbeddedShard> {
        &self.shards[name]
    }
}

impl Shards for Cellar {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        if self.away.lock().unwrap().as_ref() == Some(id) {
            return Err(ShardError::unavailable("it is away"));
        }
        Ok(self.shards[id].clone())
    }
}

/// What routers would have seen: what a test says.
#[derive(Default)]
pub(crate) struct Told {
    around: std::sync::Mutex<AroundCutover>,
    counts: std::sync::Mutex<ReadCounts>,
}

impl Told {
    /// So many calls more, all of which failed.
    pub(crate) fn failed(&self, calls: u64) {
        self.around.lock().unwrap().after.failed += calls;
    }

    /// What they have seen by reading both sides.
    pub(crate) fn have_seen(&self, counts: ReadCounts) {
        *self.counts.lock().unwrap() = counts;
    }

    /// So many rows on the old side alone.
    pub(crate) fn straggle(&self, rows: u64) {
        self.counts.lock().unwrap().stragglers = rows;
    }
}

impl Readers for Told {
    fn around_cutover(&self, _: &SliceId) -> AroundCutover {
        *self.around.lock().unwrap()
    }

    fn counts(&self, _: &SliceId) -> ReadCounts {
        *self.counts.lock().unwrap()
    }

    fn forget(&self, _: &SliceId) {
        self.have_seen(ReadCounts::default());
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

pub(crate) struct House {
    pub(crate) plane: ControlPlane,
    pub(crate) cellar: Arc<Cellar>,
    pub(crate) engine: Engine,
    pub(crate) told: Arc<Told>,
    pub(crate) home: tempfile::TempDir,
}

fn shard(home: &Path, name: &ShardId, seed: u64) -> Arc<EmbeddedShard> {
    let directory = home.join(name.as_str());
    std::fs::create_dir_all(&directory).unwrap();
    let disk = Arc::new(RealDisk::open(&directory).unwrap());
    let dice = Arc::new(Dice(AtomicU64::new(seed)));
    let clock = Arc::new(WallClock);
    let shard = EmbeddedShard::open(name.as_str(), disk, Options::default(), clock, dice);
    Arc::new(shard.unwrap())
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Three shards, one tenant with one poll.
    pub(crate) async fn with(set: impl FnOnce(&mut MoveSettings)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(WallClock);
        let file = home.path().join("registry.db");
        let registry = SqliteRegistry::open(&file, clock.clone()).await.unwrap();
        let mut moves = MoveSettings::default();
        set(&mut moves);
        let settings = Settings {
            default_region: "local".parse().unwrap(),
            pressure: PressureThresholds::default(),
            rotate_overlap_seconds: 60,
            moves,
            load: LoadSettings::default(),
            hotspots: HotspotSettings::default(),
            calendar: CalendarSettings::default(),
        };
        let dice = Arc::new(Dice(AtomicU64::new(3)));
        let registry = Arc::new(registry);
        let plane = ControlPlane::open(registry, clock.clone(), dice, settings);
        let plane = plane.await.unwrap();
        let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
        bootstrap::run(&plane, 3, &secret).await.unwrap();
        let names = ["shard-1", "shard-2", "shard-3"].map(id);
        let shards = (1..).zip(names).map(|(seed, name)| {
            let opened = shard(home.path(), &name, seed);
            (name, opened)
        });
        let cellar = Arc::new(Cellar {
            shards: shards.collect(),
            away: std::sync::Mutex::new(None),
        });
        let archives = Arc::new(LocalArchives::new(home.path().join("archive")));
        plane.move_slices(Movers {
            shards: cellar.clone(),
            archives: archives.clone(),
            notary: Notary::from_seed(&[7; 32]).unwrap(),
        });
        let told = Arc::new(Told::default());
        let steps = Steps::new(
            Arc::new(SliceRecords::new(plane.clone())),
            Arc::new(Kept::new(plane.clone())),
            cellar.clone(),
            archives,
            told.clone(),
            clock,
        );
        let registry = steps.register(tasks::with_common(Registry::new()));
        let engine = Engine::new(
            Arc::new(MemoryStore::new()),
            registry,
            Arc::new(engine::SystemClock),
            engine::Settings::default(),
        );
        let engine = engine.await.unwrap();
        definitions::deploy_own(&engine).await.unwrap();
        plane.run_workflows(Workflows::new(engine.clone()));
        let house = Self {
            plane,
            cellar,
            engine,
            told,
            home,
        };
        house.furnish().await;
        house
    }

    async fn furnish(&self) {
        let new: NewTenant = serde_json::from_str(r#"{"tenantID":"acme"}"#).unwrap();
        let intent = Intent::ballast("test", "a tenant to move");
        tenants::create(&self.plane, &intent, new).await.unwrap();
        let owner = self.owner().await;
        let shard = self.cellar.embedded(&owner);
        let at = At {
            slice: slice(),
            epoch: Epoch::FIRST,
        };
        shard.found(&at).await.unwrap();
        shard.create_poll(&at, poll()).await.unwrap();
    }

    pub(crate) async fn owner(&self) -> ShardId {
        let tenant = tenants::get(&self.plane, &slice().tenant_id).await.unwrap();
        tenant.value.slices[0].shard_id.clone()
    }

    /// Two shards that do not own the slice.
    pub(crate) async fn others(&self) -> [ShardId; 2] {
        let owner = self.owner().await;
        let others = self.cellar.shards.keys().filter(|name| **name != owner);
        let others: Vec<_> = others.cloned().collect();
        others.try_into().unwrap()
    }

    pub(crate) fn to(shard: &ShardId) -> NewMove {
        NewMove {
            to: shard.clone(),
            from: None,
            slice: 0,
            window_ms: Some(0),
            sync: false,
            max_pause_ms: None,
            passed_over: Vec::new(),
            dry_run: false,
        }
    }

    pub(crate) async fn begin(&self, new: &NewMove) -> Result<MigrationBody, Error> {
        let intent = Intent::ballast("test", "because");
        begin(&self.plane, &intent, &slice().tenant_id, new).await
    }

    /// The same, of a move that can be begun.
    pub(crate) async fn begun(&self, new: &NewMove) -> MoveId {
        self.begin(new).await.unwrap().migration.value.migration_id
    }

    pub(crate) async fn ask(&self, id: &MoveId, wish: Ask) -> Result<MigrationBody, Error> {
        let intent = Intent::ballast("test", "as asked");
        ask(&self.plane, &intent, id, &IfMatch::Any, wish).await
    }

    pub(crate) async fn show(&self, id: &MoveId) -> MigrationBody {
        migrations::show(&self.plane, id).await.unwrap()
    }

    /// Waits until a move has cut over.
    pub(crate) async fn until_cut_over(&self, id: &MoveId) -> MigrationBody {
        let is_cut_over = |shown: &MigrationBody| shown.migration.value.stage == Stage::CutOver;
        self.until(id, "cut over", is_cut_over).await
    }

    /// Waits until a move is as wanted; the watchman goes his rounds meanwhile.
    pub(crate) async fn until(
        &self,
        id: &MoveId,
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
                watchman::round(&self.plane, &clock).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.unwrap_or_else(|_| panic!("{what}: {last:#?}"))
    }

    /// The move once it is over.
    pub(crate) async fn ended(&self, id: &MoveId) -> MigrationBody {
        self.until(id, "over", |shown| shown.migration.value.is_over())
            .await
    }

    /// Voters who vote one after the other until they are stopped.
    pub(crate) fn voting(&self, voters: u64) -> Voting {
        let stop = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(AtomicU64::new(0));
        let mut crew = JoinSet::new();
        for lane in 0..voters {
            let (plane, cellar) = (self.plane.clone(), self.cellar.clone());
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
                    vote(&records, &cellar, ballot).await;
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

    /// Has these vote where the slice is.
    pub(crate) async fn vote(&self, voters: &[&str]) {
        let records = SliceRecords::new(self.plane.clone());
        for (number, voter) in (1_u64 << 50..).zip(voters) {
            vote(&records, &self.cellar, ballot(voter, number)).await;
        }
    }

    /// Has these vote on a shard that others cannot reach, through a router that
    /// can, and believes this epoch.
    pub(crate) async fn vote_on(
        &self,
        shard: &ShardId,
        epoch: Epoch,
        voters: &[&str],
    ) -> ShardResult<()> {
        let at = At {
            slice: slice(),
            epoch,
        };
        let numbered = (1_u64 << 51..).zip(voters);
        let ballots: Vec<_> = numbered.map(|(no, voter)| ballot(voter, no)).collect();
        let cast = self.cellar.embedded(shard).cast(&at, &ballots).await;
        cast.map(drop)
    }

    /// The slice's record.
    pub(crate) async fn route(&self) -> Route {
        let records = SliceRecords::new(self.plane.clone());
        records.read(&slice()).await.unwrap().unwrap().route
    }

    /// The slice is on this shard and nowhere else, with these votes, each
    /// once; and no lock is left.
    pub(crate) async fn holds(&self, owner: &ShardId, votes: &BTreeSet<String>) {
        let tenant = tenants::get(&self.plane, &slice().tenant_id).await.unwrap();
        let record = &tenant.value.slices[0];
        assert_eq!((&record.shard_id, &record.moving), (owner, &None));
        for (name, shard) in &self.cellar.shards {
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
        let shard = self.cellar.embedded(owner);
        let tally = shard.tally(&slice(), poll_id()).await.unwrap();
        assert_eq!(tally.total(), votes.len() as u64);
        for voter in votes {
            assert!(self.row(owner, voter).await.is_some(), "{voter} is lost");
        }
        let kept = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), kept);
    }

    /// A poll that was voted in and is closed, where the slice is.
    pub(crate) async fn closed(&self, number: u128, votes: u64) -> PollId {
        let owner = self.owner().await;
        let records = SliceRecords::new(self.plane.clone());
        let route = records.read(&slice()).await.unwrap().unwrap().route;
        let at = At {
            slice: slice(),
            epoch: route.epoch,
        };
        let shard = self.cellar.embedded(&owner);
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
            item: ItemId::of(id, 0),
            ..ballot(&format!("c{voter}"), request.0 + voter)
        });
        let ballots: Vec<_> = ballots.collect();
        shard.cast(&at, &ballots).await.unwrap();
        shard.close_poll(&at, id).await.unwrap();
        id
    }

    /// The files of a shard's closed polls.
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
        let shard = self.cellar.embedded(shard);
        shard.voter(&slice(), poll_id(), &voter).await.unwrap()
    }
}

pub(crate) struct Voting {
    stop: Arc<AtomicBool>,
    counted: Arc<AtomicU64>,
    crew: JoinSet<BTreeSet<String>>,
}

impl Voting {
    /// Waits until so many more votes are acknowledged.
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

async fn vote(records: &SliceRecords, cellar: &Cellar, ballot: Ballot) {
    loop {
        let route = records.read(&slice()).await.unwrap().unwrap().route;
        let at = At {
            slice: slice(),
            epoch: route.epoch,
        };
        let cast = match cellar.shard(&route.owner) {
            Ok(shard) => shard.cast(&at, std::slice::from_ref(&ballot)).await,
            Err(away) => Err(away),
        };
        match cast {
            Ok(verdicts) => {
                assert_eq!(verdicts, [Verdict::Counted { revision: 1 }]);
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
        item: ItemId::of(poll_id(), 0),
        voter: VoterId::new(voter).unwrap(),
        choice: Choice::For,
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
