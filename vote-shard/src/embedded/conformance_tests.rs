//! The embedded engine keeps the contract, on a simulated disk and on a real
//! one.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::tenant::SliceId;

use super::disk::{Crash, Disk, RealDisk, SimulatedDisk};
use super::{EmbeddedShard, Options, log};
use crate::conformance::{Fixture, Gate, START_MS, Shard};
use crate::shard::{ShardError, Unfit};
use crate::testing::{ManualClock, Seed};

/// Segments so small that the log goes on in a new one again and again.
pub(super) const SMALL: log::Options = log::Options {
    segment_bytes: 8_192,
    first_segment_bytes: 4_096,
    group_bytes_max: 32 << 20,
    spares_max: 2,
};

fn open(disk: Arc<dyn Disk>, options: Options, clock: Arc<ManualClock>) -> Shard {
    let entropy = Arc::new(Seed(7.into()));
    let shard = EmbeddedShard::open("shard-1", disk, options, clock, entropy);
    Arc::new(shard.unwrap())
}

/// Nobody else holds the shard, so that dropping it closes it.
fn close(shard: Shard) {
    assert_eq!(Arc::strong_count(&shard), 1);
    drop(shard);
}

struct Simulated {
    clock: Arc<ManualClock>,
    disk: Mutex<SimulatedDisk>,
}

impl Simulated {
    fn disk(&self) -> SimulatedDisk {
        self.disk.lock().unwrap().clone()
    }

    fn open_with(&self, options: Options) -> Shard {
        let options = Options {
            log: SMALL,
            ..options
        };
        open(Arc::new(self.disk()), options, self.clock.clone())
    }
}

#[async_trait]
impl Fixture for Simulated {
    async fn fresh() -> Self {
        Self {
            clock: Arc::new(ManualClock::at(START_MS)),
            disk: Mutex::new(SimulatedDisk::new(1)),
        }
    }

    async fn open(&self) -> Shard {
        self.open_with(Options::default())
    }

    async fn open_for(&self, voters: u64) -> Option<Shard> {
        Some(self.open_with(Options {
            voters_in_memory_max: voters,
            ..Options::default()
        }))
    }

    async fn close(&self, shard: Shard) {
        close(shard);
    }

    async fn crash(&self, shard: Shard) {
        let found = self.disk().after(Crash::PowerLost);
        close(shard);
        *self.disk.lock().unwrap() = found;
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

#[async_trait]
impl Gate for Simulated {
    fn hold(&self) {
        self.disk().hold_syncs();
    }

    async fn held(&self) {
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
    clock: Arc<ManualClock>,
    directory: tempfile::TempDir,
}

#[async_trait]
impl Fixture for Real {
    async fn fresh() -> Self {
        Self {
            clock: Arc::new(ManualClock::at(START_MS)),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    async fn open(&self) -> Shard {
        let disk = RealDisk::open(self.directory.path()).unwrap();
        open(Arc::new(disk), Options::default(), self.clock.clone())
    }

    async fn open_for(&self, voters: u64) -> Option<Shard> {
        let disk = RealDisk::open(self.directory.path()).unwrap();
        let options = Options {
            voters_in_memory_max: voters,
            ..Options::default()
        };
        Some(open(Arc::new(disk), options, self.clock.clone()))
    }

    async fn close(&self, shard: Shard) {
        close(shard);
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

/// A shard that makes a checkpoint before it is closed or crashes, so that it
/// is opened from there and not from its log alone.
struct Checkpointed(Simulated);

/// Scrubbing begins with a checkpoint, of whichever slice.
async fn checkpoint(shard: &Shard) {
    let nobody = SliceId {
        tenant_id: "nobody".parse().unwrap(),
        slice: 0,
    };
    let unknown = shard.scrub(&nobody).await;
    assert!(matches!(unknown, Err(ShardError::Unfit(Unfit::Unknown))));
}

#[async_trait]
impl Fixture for Checkpointed {
    async fn fresh() -> Self {
        Self(Simulated::fresh().await)
    }

    async fn open(&self) -> Shard {
        self.0.open().await
    }

    async fn open_for(&self, voters: u64) -> Option<Shard> {
        self.0.open_for(voters).await
    }

    async fn close(&self, shard: Shard) {
        checkpoint(&shard).await;
        self.0.close(shard).await;
    }

    async fn crash(&self, shard: Shard) {
        checkpoint(&shard).await;
        self.0.crash(shard).await;
    }

    fn clock(&self) -> &ManualClock {
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
