//! The services of a running process, opened in order and closed in reverse.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_control_plane::hotspots::{self, HotspotState};
use ballast_control_plane::load::{LoadFiles, LoadMonitor, recorder};
use ballast_control_plane::migrations::reconciler;
use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::route_source::RegistryRoutes;
use ballast_control_plane::{ControlPlane, ControlPlaneSettings, calendar, fleet_reconciler};
use ballast_domain::routes::RouteSource;
use ballast_domain::shard::PressureThresholds;
use ballast_router as router;
use ballast_vote_shard::archive::LocalArchives;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::load::ProcessLoad;
use super::shards::LocalShards;
use super::webhooks::WebhookSender;
use super::workflows::{Backends, WorkflowRuntime};
use crate::config::Config;
use crate::machine::{SystemClock, SystemEntropy};

/// Where the files of closed polls are, under the data directory: a directory
/// for each shard.
pub(crate) const ARCHIVE: &str = "archive";
/// Where recorded load is, under the data directory.
const LOAD: &str = "load";

/// The services of this process.
pub(crate) struct Services {
    /// Where the data is.
    pub(crate) data_dir: PathBuf,
    /// The control plane.
    pub(crate) plane: ControlPlane,
    /// The router.
    pub(crate) router: router::RouterState,
    public_url: String,
    /// The shards of this process.
    pub(crate) shards: Arc<LocalShards>,
    archives: Arc<LocalArchives>,
    /// Whether spans are exported.
    pub(crate) traced: bool,
    registry: SqliteRegistry,
    routes: RegistryRoutes,
}

/// Background tasks.
pub(crate) struct BackgroundTasks(Vec<AbortHandle>);

impl BackgroundTasks {
    /// Aborts them. This is safe at any point: their work is committed atomically.
    pub(crate) fn stop(self) {
        for task in self.0 {
            task.abort();
        }
    }
}

/// Converts the configuration to the control plane's settings.
pub(crate) fn settings(config: &Config) -> anyhow::Result<ControlPlaneSettings> {
    let overlap = config.keys.rotate_overlap.0.as_secs();
    Ok(ControlPlaneSettings {
        default_region: config.fleet.region.clone(),
        pressure: PressureThresholds {
            busy_at: config.placement.busy_at,
            calm_at: config.placement.calm_at,
        },
        rotate_overlap_seconds: i64::try_from(overlap).unwrap_or(i64::MAX),
        moves: config.moves.settings(),
        load: config.load.settings(),
        hotspots: config.hotspots.settings(&config.moves)?,
        calendar: config.calendar.settings(config.hotspots.lane_votes_max),
    })
}

fn router_settings(
    config: &Config,
    key_places: router::KeyPlaces,
    public_url: &str,
) -> router::RouterSettings {
    let set = &config.router;
    router::RouterSettings {
        key_places,
        cache_entries: set.cache_entries,
        cache_ttl: set.cache_ttl.0,
        public_url: public_url.to_owned(),
        results_max_age: set.results_max_age.0,
        hold_max: set.hold_max.0,
        held_max: set.held_requests_max,
        held_per_tenant_max: set.held_requests_per_tenant_max,
        held_bytes_max: set.held_mib_max << 20,
        held_bytes_per_tenant_max: set.held_mib_per_tenant_max << 20,
        dual_read_sample: set.dual_read_sample,
        viewers_max: set.viewers_max,
        viewers_per_tenant_max: set.viewers_per_tenant_max,
        count_load: config.load.measure,
    }
}

/// Opens the registry and the control plane over it.
pub(crate) async fn open_plane(
    config: &Config,
    data_dir: &Path,
) -> anyhow::Result<(SqliteRegistry, ControlPlane)> {
    let clock = Arc::new(SystemClock);
    let registry = SqliteRegistry::open(&data_dir.join("registry.db"), clock.clone()).await?;
    let plane = ControlPlane::open(
        Arc::new(registry.clone()),
        clock,
        Arc::new(SystemEntropy),
        settings(config)?,
    )
    .await?;
    Ok((registry, plane))
}

impl Services {
    /// Opens everything.
    pub(crate) async fn open(
        config: &Config,
        data_dir: &Path,
        public_url: String,
    ) -> anyhow::Result<Self> {
        let (registry, plane) = open_plane(config, data_dir).await?;
        let routes = RegistryRoutes::new(Arc::new(registry.clone()));
        let places: Result<Vec<_>, _> = config
            .keys
            .places
            .iter()
            .map(|place| place.parse())
            .collect();
        let shards = Arc::new(LocalShards::new(
            data_dir,
            registry.id().clone(),
            config.shards.options(),
            Arc::new(SystemClock),
            Arc::new(SystemEntropy),
        ));
        // One instance for all users: it serialises creating and removing files.
        let archives = Arc::new(LocalArchives::new(data_dir.join(ARCHIVE)));
        let ports = router::RouterPorts {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            source: Arc::new(routes.clone()),
            shards: shards.clone(),
            archives: archives.clone(),
            view: Arc::new(router::MemoryView::default()),
        };
        let settings = router_settings(config, router::KeyPlaces(places?), &public_url);
        let router = router::RouterState::new(settings, ports);
        let files = LoadFiles::open(data_dir.join(LOAD), config.load.record_mib_max << 20)?;
        let spans = plane.settings().hotspots.rules.spans;
        plane.set_load_monitor(Arc::new(LoadMonitor::open(files, spans)));
        plane.set_calendar(Arc::default());
        Ok(Self {
            data_dir: data_dir.to_owned(),
            plane,
            router,
            public_url,
            shards,
            archives,
            traced: config.traces.otlp_endpoint.is_some(),
            registry,
            routes,
        })
    }

    /// Where clients reach this process.
    pub(crate) fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Starts what runs in the background.
    pub(crate) async fn start(
        &self,
        config: &Config,
    ) -> anyhow::Result<(BackgroundTasks, WorkflowRuntime)> {
        // Follow changes from here on; no cache predates this revision.
        let revision = self.routes.revision().await?;
        let reach = Backends {
            shards: self.shards.clone(),
            archives: self.archives.clone(),
            router: self.router.clone(),
        };
        let workflows =
            WorkflowRuntime::start(&self.data_dir, &self.plane, &reach, &config.workflows).await?;
        #[cfg(feature = "faults")]
        tokio::spawn(super::rot::watch(self.shards.clone()));
        let mut tasks = BackgroundTasks(vec![
            tokio::spawn(fleet_reconciler::run(self.plane.clone())).abort_handle(),
            tokio::spawn(self.shards.clone().follow(Arc::new(self.registry.clone())))
                .abort_handle(),
            tokio::spawn(router::follow(self.router.clone(), revision)).abort_handle(),
            tokio::spawn(reconciler::run(self.plane.clone(), Arc::new(SystemClock))).abort_handle(),
        ]);
        if let Some(calendar) = self.plane.calendar().cloned() {
            let keeping = calendar::poller::run(self.plane.clone(), calendar);
            tasks.0.push(tokio::spawn(keeping).abort_handle());
        }
        for set in &config.webhooks {
            let registry = Arc::new(self.registry.clone());
            let hook = WebhookSender::new(set, &self.data_dir, registry, Arc::new(SystemClock))?;
            tasks.0.push(tokio::spawn(hook.run()).abort_handle());
        }
        if config.load.measure {
            tasks.0.extend(self.measure());
        }
        Ok((tasks, workflows))
    }

    /// Starts the load recorder and the hotspot reconciler.
    fn measure(&self) -> Vec<AbortHandle> {
        let Some(load) = self.plane.load_monitor().cloned() else {
            return Vec::new();
        };
        let (plane, router) = (self.plane.clone(), self.router.clone());
        let source = Box::new(ProcessLoad::new(plane.clone(), router, self.shards.clone()));
        let (taken, samples) = watch::channel(None);
        let mind = Arc::new(HotspotState::default());
        plane.set_hotspot_state(mind.clone());
        let looking = hotspots::reconciler::run(plane.clone(), mind, samples);
        let keeping = recorder::run(plane, load, source, taken);
        vec![
            tokio::spawn(keeping).abort_handle(),
            tokio::spawn(looking).abort_handle(),
        ]
    }

    /// Disconnects watchers of executions.
    pub(crate) fn end_watching(&self) {
        if let Some(workflows) = self.plane.workflows() {
            workflows.stop_watchers();
        }
    }

    /// Closes the services.
    pub(crate) async fn close(&self) {
        self.router.finish().await;
        self.shards.clone().close().await;
        self.registry.close().await;
    }
}
