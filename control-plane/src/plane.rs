//! State shared by every part of the control plane.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ballast_domain::registry::{Registry, RegistryResult};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::{Clock, Entropy, RegionId, Timestamp};

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::calendar::{Calendar, CalendarSettings};
use crate::fleet::FleetCache;
use crate::hotspots::{HotspotSettings, HotspotState};
use crate::load::{LoadMonitor, LoadSettings};
use crate::migrations::{MigrationBackends, MigrationSettings};
use crate::workflows::Workflows;

/// Number of locks that serialise changes; subjects are hashed onto them.
const LOCKS: usize = 64;
/// Previews that may run concurrently.
const PREVIEWS: usize = 2;

/// The registry, clock, source of randomness and fleet cache. Cheap to clone.
#[derive(Clone)]
pub struct ControlPlane {
    inner: Arc<PlaneInner>,
}

struct PlaneInner {
    registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    fleet: FleetCache,
    settings: RwLock<Arc<ControlPlaneSettings>>,
    fleet_lock: Mutex<()>,
    locks: [Mutex<()>; LOCKS],
    previews: Semaphore,
    workflows: OnceLock<Workflows>,
    /// Why there is no workflow engine.
    workflow_trouble: RwLock<Option<String>>,
    migration_backends: OnceLock<MigrationBackends>,
    load_monitor: OnceLock<Arc<LoadMonitor>>,
    hotspot_state: OnceLock<Arc<HotspotState>>,
    calendar: OnceLock<Arc<Calendar>>,
}

/// Settings that an operator may change while the process runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlPlaneSettings {
    /// Home region of tenants, and region of shards, that name none.
    pub default_region: RegionId,
    /// Thresholds at which a shard counts as busy.
    pub pressure: PressureThresholds,
    /// How long a rotated key keeps working next to its successor, by default.
    pub rotate_overlap_seconds: i64,
    /// Settings of migrations.
    pub moves: MigrationSettings,
    /// Settings of load measurement.
    pub load: LoadSettings,
    /// Settings of hotspots.
    pub hotspots: HotspotSettings,
    /// Settings of the calendar of polls that expect many voters.
    pub calendar: CalendarSettings,
}

fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl ControlPlane {
    /// Opens a control plane over a registry.
    pub async fn open(
        registry: Arc<dyn Registry>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: ControlPlaneSettings,
    ) -> RegistryResult<Self> {
        let fleet = FleetCache::load(&*registry).await?;
        Ok(Self {
            inner: Arc::new(PlaneInner {
                registry,
                clock,
                entropy,
                fleet,
                settings: RwLock::new(Arc::new(settings)),
                fleet_lock: Mutex::new(()),
                locks: [const { Mutex::const_new(()) }; LOCKS],
                previews: Semaphore::new(PREVIEWS),
                workflows: OnceLock::new(),
                workflow_trouble: RwLock::default(),
                migration_backends: OnceLock::new(),
                load_monitor: OnceLock::new(),
                hotspot_state: OnceLock::new(),
                calendar: OnceLock::new(),
            }),
        })
    }

    /// The registry.
    pub fn registry(&self) -> &dyn Registry {
        &*self.inner.registry
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock)
    }

    /// The source of randomness.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.inner.entropy
    }

    /// The fleet cache.
    pub fn fleet(&self) -> &FleetCache {
        &self.inner.fleet
    }

    /// Attaches the workflow engine; only the first call has an effect.
    pub fn set_workflows(&self, workflows: Workflows) {
        let _ = self.inner.workflows.set(workflows);
        self.set_workflow_trouble(None);
    }

    /// Records why there is no workflow engine: migrations and plans wait for it.
    pub fn set_workflow_trouble(&self, why: Option<String>) {
        let trouble = self.inner.workflow_trouble.write();
        *trouble.unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why there is no workflow engine, if it failed to start.
    pub fn workflow_trouble(&self) -> Option<String> {
        let trouble = self.inner.workflow_trouble.read();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The workflow engine, once attached.
    pub fn workflows(&self) -> Option<&Workflows> {
        self.inner.workflows.get()
    }

    /// Attaches the backends of migrations; only the first call has an effect.
    pub fn set_migration_backends(&self, migration_backends: MigrationBackends) {
        let _ = self.inner.migration_backends.set(migration_backends);
    }

    /// The backends of migrations, once attached.
    pub fn migration_backends(&self) -> Option<&MigrationBackends> {
        self.inner.migration_backends.get()
    }

    /// Attaches the load recorder; only the first call has an effect.
    pub fn set_load_monitor(&self, load: Arc<LoadMonitor>) {
        let _ = self.inner.load_monitor.set(load);
    }

    /// The load recorder, once attached.
    pub fn load_monitor(&self) -> Option<&Arc<LoadMonitor>> {
        self.inner.load_monitor.get()
    }

    /// Attaches the hotspot state; only the first call has an effect.
    pub fn set_hotspot_state(&self, hotspot_state: Arc<HotspotState>) {
        let _ = self.inner.hotspot_state.set(hotspot_state);
    }

    /// The hotspot state, once the hotspot reconciler runs.
    pub fn hotspot_state(&self) -> Option<&Arc<HotspotState>> {
        self.inner.hotspot_state.get()
    }

    /// Attaches the calendar of polls; only the first call has an effect.
    pub fn set_calendar(&self, calendar: Arc<Calendar>) {
        let _ = self.inner.calendar.set(calendar);
    }

    /// The calendar of polls, once attached.
    pub fn calendar(&self) -> Option<&Arc<Calendar>> {
        self.inner.calendar.get()
    }

    /// Locks a subject for a change. Changes of the same subject in this process
    /// run one after the other instead of conflicting in compare-and-swap, which
    /// still guards them against other processes.
    pub(crate) async fn lock_subject(&self, subject: &str) -> MutexGuard<'_, ()> {
        let slot = hash_text(subject) % LOCKS as u64;
        self.inner.locks[usize::try_from(slot).unwrap_or(0)]
            .lock()
            .await
    }

    /// Locks the fleet record, which every change of a shard updates. Callers that
    /// need both locks take this one first.
    pub(crate) async fn lock_fleet(&self) -> MutexGuard<'_, ()> {
        self.inner.fleet_lock.lock().await
    }

    /// Waits for a permit to run a preview. A preview reads every tenant.
    pub(crate) async fn preview_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.previews.acquire().await.ok()
    }

    /// The current settings.
    pub fn settings(&self) -> Arc<ControlPlaneSettings> {
        self.inner
            .settings
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the settings.
    pub fn set_settings(&self, settings: ControlPlaneSettings) {
        *self
            .inner
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
