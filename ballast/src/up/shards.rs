//! The shards of this process: those in the registry with a `file:` URL.
//!
//! ```text
//!   registry's feed ──► a shard is new ──► opened on a thread of its own
//!                       a shard is gone ─► closed
//! ```
//! A shard that is being opened, or failed to open, is unavailable and retried; the others keep
//! serving.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::known_shards::KnownShards;
use super::shard_identity::ShardIdentity;
use ballast_control_plane::registry::{RegistryId, typed};
use ballast_domain::registry::{RecordKind, RecordQuery, Registry, RegistryResult};
use ballast_domain::shard::Shard;
use ballast_domain::{Clock, Entropy, ShardId};
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::{ShardDirectory, ShardError, ShardResult, ShardUsage, VoteShard};
use tokio::sync::watch;

/// Delay before a retry.
const PATIENCE: Duration = Duration::from_secs(2);

/// The open shards of this process.
pub(crate) struct LocalShards {
    data_dir: PathBuf,
    options: ShardOptions,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    known: KnownShards,
    /// The registry that names the shards.
    registry_id: RegistryId,
    slots: RwLock<HashMap<ShardId, Slot>>,
    /// Whether every known shard was opened or failed.
    tried: watch::Sender<bool>,
    /// Whether the list of shards was loaded.
    looked: AtomicBool,
}

/// The state of a shard.
#[derive(Clone)]
enum Slot {
    Starting,
    Open(Arc<EmbeddedShard>),
    Failed(String),
}

impl LocalShards {
    /// Starts without shards.
    pub(crate) fn new(
        data_dir: &Path,
        registry_id: RegistryId,
        options: ShardOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            known: KnownShards::new(data_dir),
            registry_id,
            options,
            clock,
            entropy,
            slots: RwLock::default(),
            tried: watch::Sender::new(false),
            looked: AtomicBool::new(false),
        }
    }

    /// Waits until every shard was opened or failed, with a timeout: one slow recovery must not
    /// delay the start.
    pub(crate) async fn wait_until_tried(&self) {
        let mut tried = self.tried.subscribe();
        let all = tried.wait_for(|tried| *tried);
        let _ = tokio::time::timeout(PATIENCE, all).await;
    }

    /// Updates whether every shard was opened or failed.
    fn update_tried(&self) {
        let starting = |slot: &Slot| matches!(slot, Slot::Starting);
        let tried = !self.read().values().any(starting);
        self.tried.send_replace(tried);
    }

    /// Opens and closes shards to match the registry, until it is dropped.
    pub(crate) async fn follow(self: Arc<Self>, registry: Arc<dyn Registry>) {
        let mut revision = None;
        loop {
            match self.round(&registry, revision).await {
                Ok(seen) => revision = Some(seen),
                Err(error) => {
                    tracing::warn!(%error, "the list of shards cannot be read; retrying");
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }

    /// Waits for a change and acts on it. Failed shards are retried even without one.
    async fn round(
        self: &Arc<Self>,
        registry: &Arc<dyn Registry>,
        revision: Option<u64>,
    ) -> RegistryResult<u64> {
        if let Some(revision) = revision {
            let change = registry.wait_past(revision);
            if let Ok(waited) = tokio::time::timeout(PATIENCE, change).await {
                waited?;
            }
        }
        let seen = registry.revision().await?;
        if revision == Some(seen) && !self.any_failed() {
            return Ok(seen);
        }
        let query = RecordQuery::all(RecordKind::Shard, u32::MAX);
        let shards = typed::list::<Shard>(&**registry, &query).await?;
        let wanted: HashMap<_, _> = shards
            .into_iter()
            .map(|shard| (shard.value.shard_id, shard.value.url))
            .collect();
        let gone: Vec<Slot> = self
            .write()
            .extract_if(|id, _| !wanted.contains_key(id))
            .map(|(_, slot)| slot)
            .collect();
        // Closing a shard writes and blocks: do it on another thread, without the lock.
        tokio::task::spawn_blocking(move || drop(gone));
        self.known.forget_others(&wanted);
        for (id, url) in wanted {
            self.start(id, &url);
        }
        self.looked.store(true, Ordering::Release);
        self.update_tried();
        Ok(seen)
    }

    /// Opens a shard in the background, unless it is open or being opened.
    fn start(self: &Arc<Self>, id: ShardId, url: &str) {
        let mut slots = self.write();
        if matches!(slots.get(&id), Some(Slot::Starting | Slot::Open(_))) {
            return;
        }
        let Some(directory) = url.strip_prefix("file:") else {
            let why = format!("unsupported shard URL: {url} is not a file: URL");
            slots.insert(id, Slot::Failed(why));
            return;
        };
        let before = match slots.insert(id.clone(), Slot::Starting) {
            Some(Slot::Failed(why)) => Some(why),
            _ => None,
        };
        drop(slots);
        let (shards, directory) = (self.clone(), self.data_dir.join(directory));
        let url = url.to_owned();
        tokio::task::spawn_blocking(move || shards.open(id, &url, &directory, before));
    }

    /// Opens a shard, which failed before with this.
    fn open(&self, id: ShardId, url: &str, directory: &Path, before: Option<String>) {
        let opened = self
            .known
            .check(&id, url, directory)
            .and_then(|()| RealDisk::open(directory).map_err(|error| error.to_string()))
            .and_then(|disk| {
                let was_opened = self.known.was_opened(&id);
                ShardIdentity::claim(directory, &id, &self.registry_id, was_opened)
                    .map(|()| disk)
                    .map_err(|error| format!("{:#}", anyhow::Error::from(error)))
            })
            .and_then(|disk| {
                EmbeddedShard::open(
                    id.as_str(),
                    Arc::new(disk),
                    self.options,
                    self.clock.clone(),
                    self.entropy.clone(),
                )
                .map_err(|error| format!("{:#}", anyhow::Error::from(error)))
            })
            .and_then(|shard| {
                let noted = self.known.record_opened(&id, url);
                noted.map(|()| shard).map_err(|error| error.to_string())
            });
        let slot = match opened {
            Ok(shard) => Slot::Open(Arc::new(shard)),
            Err(why) => {
                // Retry indefinitely, but log each cause once.
                if before.as_ref() != Some(&why) {
                    tracing::error!(shard = %id, cause = why, "the shard cannot be opened; retrying");
                }
                Slot::Failed(why)
            }
        };
        // If it left the fleet meanwhile, close it again after releasing the lock.
        let mut slots = self.write();
        if let Some(starting) = slots.get_mut(&id) {
            *starting = slot;
            drop(slots);
        } else {
            drop(slots);
            drop(slot);
        }
        self.update_tried();
    }

    /// Whether the list of shards has been loaded.
    pub(crate) fn are_known(&self) -> bool {
        self.looked.load(Ordering::Acquire)
    }

    fn any_failed(&self) -> bool {
        let failed = |slot: &Slot| matches!(slot, Slot::Failed(_));
        self.read().values().any(failed)
    }

    /// The usage of every shard, and whether it works.
    pub(crate) async fn usages(&self) -> Vec<(ShardId, ShardUsage)> {
        let mut slots: Vec<_> = self.read().clone().into_iter().collect();
        slots.sort_by(|(one, _), (two, _)| one.cmp(two));
        let mut usages = Vec::new();
        for (id, slot) in slots {
            let away = |why: String| ShardUsage {
                trouble: Some(why),
                ..ShardUsage::default()
            };
            let usage = match slot {
                Slot::Starting => away("it is starting".to_owned()),
                Slot::Failed(why) => away(why),
                Slot::Open(shard) => shard.usage().await,
            };
            usages.push((id, usage));
        }
        usages
    }

    /// The open shards and their directories.
    #[cfg(feature = "faults")]
    pub(crate) fn open_here(&self) -> Vec<(PathBuf, Arc<EmbeddedShard>)> {
        let slots = self.read();
        let open = slots.iter().filter_map(|(id, slot)| match slot {
            Slot::Open(shard) => Some((id, shard.clone())),
            Slot::Starting | Slot::Failed(_) => None,
        });
        let shards = self.data_dir.join("shards");
        open.map(|(id, shard)| (shards.join(id.as_str()), shard))
            .collect()
    }

    /// Closes all shards; pending writes are completed.
    pub(crate) async fn close(self: Arc<Self>) {
        let slots = std::mem::take(&mut *self.write());
        let _ = tokio::task::spawn_blocking(move || drop(slots)).await;
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<ShardId, Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<ShardId, Slot>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardDirectory for LocalShards {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        match self.read().get(id) {
            Some(Slot::Open(shard)) => Ok(shard.clone()),
            Some(Slot::Failed(why)) => Err(ShardError::unavailable(why.clone())),
            Some(Slot::Starting) => Err(ShardError::unavailable(format!("{id} is starting"))),
            None => Err(ShardError::unavailable(format!("{id} is not loaded yet"))),
        }
    }

    fn is_starting(&self, id: &ShardId) -> bool {
        match self.read().get(id) {
            Some(Slot::Starting) => true,
            Some(Slot::Open(_) | Slot::Failed(_)) => false,
            None => !self.are_known(),
        }
    }
}
