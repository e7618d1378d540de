//! Runs the conformance suite on a simulated disk and on a real one.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::tenant::SliceId;

use crate::conformance::{START_MS, ShardFixture, SharedShard, SyncGate};
use crate::embedded::disk::{Crash, Disk, RealDisk, SimulatedDisk};
use crate::embedded::{EmbeddedShard, ShardOptions, log};
use crate::shard::{ShardError, SliceStateError};
use crate::testing::{SeedEntropy, SteppedClock};

/// Small segments, so that the log often starts a new one.
pub(super) const SMALL: log::LogOptions = log::LogOptions {
    segment_bytes: 8_192,
    first_segment_bytes: 4_096,
    group_bytes_max: 32 << 20,
    spares_max: 2,
};

fn open(disk: Arc<dyn Disk>, options: ShardOptions, clock: Arc<SteppedClock>) -> SharedShard {
    let entropy = Arc::new(SeedEntropy(7.into()));
    let shard = EmbeddedShard::open("shard-1", disk, options, clock, entropy);
    Arc::new(shard.unwrap())
}

/// Closes the shard by dropping the only handle.
fn close(shard: SharedShard) {
    assert_eq!(Arc::strong_count(&shard), 1);
    drop(shard);
}

struct Simulated {
    clock: Arc<SteppedClock>,
    disk: Mutex<SimulatedDisk>,
}

impl Simulated {
    fn disk(&self) -> SimulatedDisk {
        self.disk.lock().unwrap().clone()
    }

    fn open_with(&self, options: ShardOptions) -> SharedShard {
        let options = ShardOptions {
            log: SMALL,
            ..options
        };
        open(Arc::new(self.disk()), options, self.clock.clone())
    }
}

#[async_trait]
impl ShardFixture for Simulated {
    async fn fresh() -> Self {
        Self {
            clock: Arc::new(SteppedClock::new(START_MS)),
            disk: Mutex::new(SimulatedDisk::new(1)),
        }
    }

    async fn open(&self) -> SharedShard {
        self.open_with(ShardOptions::default())
    }

    async fn open_for(&self, voters: u64) -> Option<SharedShard> {
        Some(self.open_with(ShardOptions {
            voters_in_memory_max: voters,
            ..ShardOptions::default()
        }))
    }

    async fn close(&self, shard: SharedShard) {
        close(shard);
    }

    async fn crash(&self, shard: SharedShard) {
        let found = self.disk().after(Crash::PowerLost);
        close(shard);
        *self.disk.lock().unwrap() = found;
    }

    fn clock(&self) -> &SteppedClock {
        &self.clock
    }
}

#[async_trait]
impl SyncGate for Simulated {
    fn hold(&self) {
        self.disk().hold_syncs();
    }

    async fn wait_until_held(&self) {
        while self.disk().syncs_held() == 0 {
            tokio::task::yield_now().await;
        }
    }

    fn release(&self) {
        self.disk().release_syncs();
    }

    fn fail(&self) {
        self.disk().fail_sync(1);
        self.disk().release_syncs();
    }
}

struct Real {
    clock: Arc<SteppedClock>,
    directory: tempfile::TempDir,
}

#[async_trait]
impl ShardFixture for Real {
    async fn fresh() -> Self {
        Self {
            clock: Arc::new(SteppedClock::new(START_MS)),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    async fn open(&self) -> SharedShard {
        let disk = RealDisk::open(self.directory.path()).unwrap();
        open(Arc::new(disk), ShardOptions::default(), self.clock.clone())
    }

    async fn open_for(&self, voters: u64) -> Option<SharedShard> {
        let disk = RealDisk::open(self.directory.path()).unwrap();
        let options = ShardOptions {
            voters_in_memory_max: voters,
            ..ShardOptions::default()
        };
        Some(open(Arc::new(disk), options, self.clock.clone()))
    }

    async fn close(&self, shard: SharedShard) {
        close(shard);
    }

    fn clock(&self) -> &SteppedClock {
        &self.clock
    }
}

/// A shard that makes a checkpoint before it is closed or crashes, so that it
/// is opened from there and not from its log alone.
struct Checkpointed(Simulated);

/// Makes a checkpoint: scrubbing starts with one, whatever the slice.
async fn checkpoint(shard: &SharedShard) {
    let nobody = SliceId {
        tenant_id: "nobody".parse().unwrap(),
        slice: 0,
    };
    let unknown = shard.scrub(&nobody).await;
    assert!(matches!(
        unknown,
        Err(ShardError::SliceState(SliceStateError::UnknownSlice))
    ));
}

#[async_trait]
impl ShardFixture for Checkpointed {
    async fn fresh() -> Self {
        Self(Simulated::fresh().await)
    }

    async fn open(&self) -> SharedShard {
        self.0.open().await
    }

    async fn open_for(&self, voters: u64) -> Option<SharedShard> {
        self.0.open_for(voters).await
    }

    async fn close(&self, shard: SharedShard) {
        checkpoint(&shard).await;
        self.0.close(shard).await;
    }

    async fn crash(&self, shard: SharedShard) {
        checkpoint(&shard).await;
        self.0.crash(shard).await;
    }

    fn clock(&self) -> &SteppedClock {
        self.0.clock()
    }
}

mod simulated {
    crate::vote_shard_suite!(super::Simulated);
    crate::vote_shard_gate_suite!(super::Simulated);
}

mod checkpointed {
    crate::vote_shard_suite!(super::Checkpointed);
}

mod real {
    crate::vote_shard_suite!(super::Real);
}
