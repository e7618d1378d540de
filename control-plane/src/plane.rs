//! What every part of the control plane works with.

use std::sync::{Arc, PoisonError, RwLock};

use ballast_domain::registry::{Registry, StoreResult};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::{Clock, Entropy, RegionId, Timestamp};

use crate::fleet::FleetCache;

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

    /// Chance.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.parts.entropy
    }

    /// The fleet as it is known.
    pub fn fleet(&self) -> &FleetCache {
        &self.parts.fleet
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
