//! A shard with closed polls, and a store with faults.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::PollId;
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use crate::archive::Archive;
use crate::conformance::builders::*;
use crate::conformance::{START_MS, SharedShard};
use crate::embedded::disk::{Crash, SimulatedDisk};
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::testing::{SeedEntropy, SteppedClock};

/// A shard on a disk that can lose unsynced data.
pub(super) struct ArchiveWorld {
    pub(super) disk: SimulatedDisk,
    pub(super) shard: Option<Arc<EmbeddedShard>>,
}

impl ArchiveWorld {
    pub(super) fn new() -> Self {
        let mut world = Self {
            disk: SimulatedDisk::new(1),
            shard: None,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        let shard = EmbeddedShard::open(
            "shard-1",
            Arc::new(self.disk.clone()),
            ShardOptions::default(),
            Arc::new(SteppedClock::new(START_MS)),
            Arc::new(SeedEntropy(7.into())),
        );
        self.shard = Some(Arc::new(shard.unwrap()));
    }

    pub(super) fn shard(&self) -> SharedShard {
        self.shard.clone().unwrap()
    }

    /// Simulates a power failure and a restart.
    pub(super) fn crash(&mut self) {
        self.disk = self.disk.after(Crash::PowerLost);
        self.shard = None;
        self.open();
    }

    /// An owner of polls 1 to 4 with `voters` voters each: 1 and 2 are closed,
    /// 3 is closed without votes, 4 is open. Some votes are withdrawn, some are
    /// imported.
    pub(super) async fn voted(voters: u64) -> Self {
        let world = Self::new();
        let shard = world.shard();
        let polls = [changeable(1), choices(2, 3, true), poll(3), poll(4)];
        make_owner(&*shard, &polls).await;
        for poll in [&polls[0], &polls[1], &polls[3]] {
            let names: Vec<u64> = (0..voters).collect();
            for names in names.chunks(500) {
                let batch: Vec<_> = names
                    .iter()
                    .map(|n| ballot(poll, &format!("voter-{n}"), (n % 3) as u16, *n))
                    .collect();
                shard.cast(&at_epoch(1), &batch).await.unwrap();
            }
        }
        cast(&shard, withdrawal(&polls[0], "voter-1", 1, 1_000_001)).await;
        cast(&shard, ballot(&polls[1], "voter-1", 2, 1_000_002)).await;
        let request = ballast_domain::poll::RequestId(5);
        let carried = [7, 0, 1];
        let at = at_epoch(1);
        let id = polls[0].poll_id;
        shard
            .import_counts(&at, id, request, &carried)
            .await
            .unwrap();
        for poll in &polls[..3] {
            shard.close_poll(&at, poll.poll_id).await.unwrap();
        }
        world
    }
}

/// The polls of [`ArchiveWorld::voted`] that are closed and have votes.
pub(super) fn closed() -> [PollId; 2] {
    [poll(1).poll_id, poll(2).poll_id]
}

/// A store in memory that counts its operations, and fails at a given one,
/// before or after that takes effect; then it fails always.
#[derive(Debug, Default)]
pub(super) struct FaultyStore {
    pub(super) memory: Arc<InMemory>,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    asked: AtomicU64,
    /// The operation that fails, and whether it takes effect.
    fails: Mutex<Option<(u64, bool)>>,
    /// The largest range that was read or written.
    largest: AtomicU64,
    /// Whether it writes wrong bytes.
    lies: AtomicBool,
}

impl FaultyStore {
    /// The same files without faults.
    pub(super) fn again(&self) -> Arc<Self> {
        Arc::new(Self {
            memory: self.memory.clone(),
            faults: Arc::default(),
        })
    }

    /// The same files; the given operation fails.
    pub(super) fn failing(&self, operation: u64, done: bool) -> Arc<Self> {
        let again = self.again();
        *again.faults.fails.lock().unwrap() = Some((operation, done));
        again
    }

    pub(super) fn archive(self: &Arc<Self>) -> Archive {
        Archive::new(self.clone())
    }

    /// Whether the failing operation was reached.
    pub(super) fn failed(&self) -> bool {
        let fails = self.faults.fails.lock().unwrap();
        fails.is_some_and(|(at, _)| self.faults.asked.load(Ordering::Acquire) > at)
    }

    /// Switches wrong writes on or off.
    pub(super) fn set_lying(&self, lies: bool) {
        self.faults.lies.store(lies, Ordering::Release);
    }

    pub(super) fn largest(&self) -> u64 {
        self.faults.largest.load(Ordering::Acquire)
    }

    /// Lists all files.
    pub(super) async fn names(&self) -> Vec<String> {
        let files = self.memory.list(None).map(|file| file.unwrap().location);
        let mut names: Vec<_> = files.map(|path| path.to_string()).collect().await;
        names.sort();
        names
    }

    /// Changes one byte of a file.
    pub(super) async fn corrupt(&self, path: &str, place: usize) {
        use object_store::ObjectStoreExt as _;
        let path = Path::from(path);
        let file = self.memory.get(&path).await.unwrap();
        let mut bytes = file.bytes().await.unwrap().to_vec();
        bytes[place] ^= 0x10;
        self.memory.put(&path, bytes.into()).await.unwrap();
    }
}

impl Faults {
    /// Whether the operation takes effect, and whether it succeeds.
    fn next(&self) -> (bool, bool) {
        let number = self.asked.fetch_add(1, Ordering::AcqRel);
        match *self.fails.lock().unwrap() {
            Some((at, done)) if number == at => (done, false),
            Some((at, _)) if number > at => (false, false),
            _ => (true, true),
        }
    }

    fn saw(&self, bytes: u64) {
        self.largest.fetch_max(bytes, Ordering::AcqRel);
    }

    async fn run<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let (done, succeeds) = self.next();
        let outcome = if done { Some(operation.await) } else { None };
        match outcome {
            Some(outcome) if succeeds => outcome,
            _ => Err(dead()),
        }
    }
}

fn dead() -> object_store::Error {
    object_store::Error::Generic {
        store: "test",
        source: "the store is gone".into(),
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that fails")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, to: &Path, put: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.faults.run(self.memory.put_opts(to, put, how)).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.faults.run(self.memory.put_multipart_opts(to, how));
        Ok(Box::new(Upload {
            upload: begun.await?,
            faults: self.faults.clone(),
        }))
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        if let Some(GetRange::Bounded(range)) = &how.range {
            self.faults.saw(range.end - range.start);
        }
        self.faults.run(self.memory.get_opts(from, how)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (done, succeeds) = self.faults.next();
        let removed = match done {
            true => self.memory.delete_stream(paths),
            false => paths,
        };
        match succeeds {
            true => removed,
            false => removed.map(|_| Err(dead())).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.faults.next() {
            (_, true) => self.memory.list(prefix),
            _ => stream::iter([Err(dead())]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.memory.list_with_delimiter(prefix);
        self.faults.run(listed).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.faults.run(self.memory.copy_opts(from, to, how)).await
    }
}

#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        self.faults.saw(part.content_length() as u64);
        let mut part = part;
        if self.faults.lies.load(Ordering::Acquire) {
            let mut bytes = bytes::Bytes::from(part).to_vec();
            bytes[100] ^= 1;
            part = bytes.into();
        }
        let (faults, put) = (self.faults.clone(), self.upload.put_part(part));
        Box::pin(async move { faults.run(put).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.faults.run(self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.faults.run(self.upload.abort()).await
    }
}
