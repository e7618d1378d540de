//! Deterministic clock and randomness for this crate's tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::{Clock, Entropy, Timestamp};

use crate::registry::sqlite::SqliteRegistry;

/// A clock that only moves when a test advances it.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock set to a fixed moment in 2026.
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(1_794_821_400_000))
    }

    /// Advances the clock; negative values set it back.
    pub(crate) fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

/// Seeded randomness: the same seed draws the same bytes.
pub(crate) struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// Randomness from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A control plane over a new registry, with three shards and a token.
pub(crate) async fn plane() -> (tempfile::TempDir, crate::ControlPlane, Credential) {
    plane_at(Arc::new(ManualClock::new())).await
}

/// The same, using this clock.
pub(crate) async fn plane_at(
    clock: Arc<ManualClock>,
) -> (tempfile::TempDir, crate::ControlPlane, Credential) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry.db");
    let registry = SqliteRegistry::open(&file, clock.clone()).await.unwrap();
    let settings = crate::ControlPlaneSettings {
        default_region: "local".parse().unwrap(),
        pressure: PressureThresholds::default(),
        rotate_overlap_seconds: 86_400,
        moves: crate::migrations::MigrationSettings::default(),
        load: crate::load::LoadSettings::default(),
        hotspots: crate::hotspots::HotspotSettings::default(),
        calendar: crate::calendar::CalendarSettings::default(),
    };
    let entropy = Arc::new(SeededEntropy::new(7));
    let plane = crate::ControlPlane::open(Arc::new(registry), clock, entropy, settings)
        .await
        .unwrap();
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    crate::bootstrap::run(&plane, 3, &secret).await.unwrap();
    (directory, plane, secret)
}
