//! The parts of a running Ballast, opened in order and closed in reverse.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::route_source::RegistryRoutes;
use ballast_control_plane::{ControlPlane, Settings, keeper};
use ballast_domain::routes::RouteSource;
use ballast_domain::shard::PressureThresholds;
use ballast_router as router;
use tokio::task::AbortHandle;

use super::shards::LocalShards;
use crate::config::Config;
use crate::machine::{SystemClock, SystemEntropy};

/// What runs.
pub(crate) struct Parts {
    /// Where the data is.
    pub(crate) data_dir: PathBuf,
    /// The control plane.
    pub(crate) plane: ControlPlane,
    /// The router.
    pub(crate) router: router::State,
    public_url: String,
    /// The shards of this process.
    pub(crate) shards: Arc<LocalShards>,
    registry: SqliteRegistry,
    routes: RegistryRoutes,
}

/// The tasks in the background.
pub(crate) struct Tasks(Vec<AbortHandle>);

impl Tasks {
    /// Ends them. Each may end at any point: what they do is done in commits.
    pub(crate) fn stop(self) {
        for task in self.0 {
            task.abort();
        }
    }
}

/// The control plane's settings out of the configuration.
pub(crate) fn settings(config: &Config) -> Settings {
    let overlap = config.keys.rotate_overlap.0.as_secs();
    Settings {
        default_region: config.fleet.region.clone(),
        pressure: PressureThresholds {
            busy_at: config.placement.busy_at,
            calm_at: config.placement.calm_at,
        },
        rotate_overlap_seconds: i64::try_from(overlap).unwrap_or(i64::MAX),
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
        settings(config),
    )
    .await?;
    Ok((registry, plane))
}

impl Parts {
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
        let settings = router::Settings {
            key_places: router::KeyPlaces(places?),
            cache_entries: config.router.cache_entries,
            cache_ttl: config.router.cache_ttl.0,
            public_url: public_url.clone(),
        };
        let router = router::State::new(settings, Arc::new(SystemClock), Arc::new(routes.clone()));
        let shards = LocalShards::new(
            data_dir,
            ballast_vote_shard::embedded::Options::default(),
            Arc::new(SystemClock),
            Arc::new(SystemEntropy),
        );
        Ok(Self {
            data_dir: data_dir.to_owned(),
            plane,
            router,
            public_url,
            shards: Arc::new(shards),
            registry,
            routes,
        })
    }

    /// Where clients reach this process.
    pub(crate) fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Starts what runs in the background.
    pub(crate) async fn start(&self) -> anyhow::Result<Tasks> {
        // From here on every change is heard: nothing is kept from before.
        let revision = self.routes.revision().await?;
        Ok(Tasks(vec![
            tokio::spawn(keeper::keep(self.plane.clone())).abort_handle(),
            tokio::spawn(self.shards.clone().follow(Arc::new(self.registry.clone())))
                .abort_handle(),
            tokio::spawn(router::follow(self.router.clone(), revision)).abort_handle(),
        ]))
    }

    /// Closes what must be closed.
    pub(crate) async fn close(&self) {
        self.router.finish().await;
        self.shards.clone().close().await;
        self.registry.close().await;
    }
}
