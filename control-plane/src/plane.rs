//! What every part of the control plane works with.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ballast_domain::registry::{Registry, StoreResult};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::{Clock, Entropy, RegionId, Timestamp};

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::calendar::{Calendar, CalendarSettings};
use crate::fleet::FleetCache;
use crate::hotspots::{HotspotSettings, Mind};
use crate::load::{Load, LoadSettings};
use crate::migrations::{MoveSettings, Movers};
use crate::workflows::Workflows;

/// Changes that may be made at the same time, at the most.
const LANES: usize = 64;
/// Previews that may run at the same time.
const PREVIEWS: usize = 2;

/// The registry, the clock, chance, and the fleet as it is known. Cheap to
/// clone.
#[derive(Clone)]
pub struct ControlPlane {
    parts: Arc<Parts>,
}

struct Parts {
    registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    fleet: FleetCache,
    settings: RwLock<Arc<Settings>>,
    fleet_lane: Mutex<()>,
    lanes: [Mutex<()>; LANES],
    previews: Semaphore,
    workflows: OnceLock<Workflows>,
    movers: OnceLock<Movers>,
    load: OnceLock<Arc<Load>>,
    mind: OnceLock<Arc<Mind>>,
    calendar: OnceLock<Arc<Calendar>>,
}

/// What an operator may set, and may change while it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The home of tenants that name none, and the region of such shards.
    pub default_region: RegionId,
    /// When a shard is called busy.
    pub pressure: PressureThresholds,
    /// How long a rotated key works beside its successor, unless said.
    pub rotate_overlap_seconds: i64,
    /// About moves.
    pub moves: MoveSettings,
    /// About load.
    pub load: LoadSettings,
    /// About hotspots.
    pub hotspots: HotspotSettings,
    /// About polls that expect many voters.
    pub calendar: CalendarSettings,
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl ControlPlane {
    /// A control plane over a registry.
    pub async fn open(
        registry: Arc<dyn Registry>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> StoreResult<Self> {
        let fleet = FleetCache::load(&*registry).await?;
        Ok(Self {
            parts: Arc::new(Parts {
                registry,
                clock,
                entropy,
                fleet,
                settings: RwLock::new(Arc::new(settings)),
                fleet_lane: Mutex::new(()),
                lanes: [const { Mutex::const_new(()) }; LANES],
                previews: Semaphore::new(PREVIEWS),
                workflows: OnceLock::new(),
                movers: OnceLock::new(),
                load: OnceLock::new(),
                mind: OnceLock::new(),
                calendar: OnceLock::new(),
            }),
        })
    }

    /// The registry.
    pub fn registry(&self) -> &dyn Registry {
        &*self.parts.registry
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.parts.clock)
    }

    /// Chance.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.parts.entropy
    }

    /// The fleet as it is known.
    pub fn fleet(&self) -> &FleetCache {
        &self.parts.fleet
    }

    /// Has workflows run from now on; the first time counts.
    pub fn run_workflows(&self, workflows: Workflows) {
        let _ = self.parts.workflows.set(workflows);
    }

    /// The workflows, once they run.
    pub fn workflows(&self) -> Option<&Workflows> {
        self.parts.workflows.get()
    }

    /// Has slices moved from now on; the first time counts.
    pub fn move_slices(&self, movers: Movers) {
        let _ = self.parts.movers.set(movers);
    }

    /// What moves need, once they are possible.
    pub fn movers(&self) -> Option<&Movers> {
        self.parts.movers.get()
    }

    /// Has load kept from now on; the first time counts.
    pub fn keep_load(&self, load: Arc<Load>) {
        let _ = self.parts.load.set(load);
    }

    /// The load, once it is measured.
    pub fn load(&self) -> Option<&Arc<Load>> {
        self.parts.load.get()
    }

    /// Has hotspots looked after from now on; the first time counts.
    pub fn mind_hotspots(&self, mind: Arc<Mind>) {
        let _ = self.parts.mind.set(mind);
    }

    /// What is known of hotspots, once somebody looks after them.
    pub fn mind(&self) -> Option<&Arc<Mind>> {
        self.parts.mind.get()
    }

    /// Has a calendar of polls kept from now on; the first time counts.
    pub fn keep_calendar(&self, calendar: Arc<Calendar>) {
        let _ = self.parts.calendar.set(calendar);
    }

    /// The calendar of polls, once somebody keeps it.
    pub fn calendar(&self) -> Option<&Arc<Calendar>> {
        self.parts.calendar.get()
    }

    /// Waits for one's turn to change this subject. Changes of the same thing
    /// made in this process go one after the other instead of running into
    /// each other's compare-and-swap, which still guards them against other
    /// processes.
    pub(crate) async fn turn(&self, subject: &str) -> MutexGuard<'_, ()> {
        let lane = hash_of(subject) % LANES as u64;
        self.parts.lanes[usize::try_from(lane).unwrap_or(0)]
            .lock()
            .await
    }

    /// The same for changes of shards, each of which changes the fleet record.
    /// Whoever needs both turns takes this one first.
    pub(crate) async fn fleet_turn(&self) -> MutexGuard<'_, ()> {
        self.parts.fleet_lane.lock().await
    }

    /// Waits until a preview may run: each looks at every tenant.
    pub(crate) async fn preview_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.parts.previews.acquire().await.ok()
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.parts
            .settings
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts other settings in force.
    pub fn set_settings(&self, settings: Settings) {
        *self
            .parts
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
