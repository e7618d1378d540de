//! The [`VoteShard`] trait that every engine implements, and its types.
//!
//! ```text
//!   fence.rs    ownership of a slice: a record that a shard never deletes
//!   rows.rs     the rows that are exported and imported: polls and voters
//!   digest.rs   digests that prove two copies equal
//!   archived.rs what a shard keeps of a poll whose rows are in a file
//!   cut.rs      splitting and merging slices
//!   error.rs    errors
//! ```

mod archived;
mod cut;
mod digest;
mod directory;
mod error;
mod fence;
mod rows;

use async_trait::async_trait;
use ballast_domain::PollId;
use ballast_domain::TenantId;
use ballast_domain::Timestamp;
use ballast_domain::VoterId;
use ballast_domain::poll::{Ballot, BallotOutcome, Poll, RequestId};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};

pub use archived::{ArchiveFile, ArchivedRows};
pub use cut::RecutSpec;
pub use digest::{Digest, RowHash, SliceDigest, SliceKey, VoterPrint};
pub use directory::ShardDirectory;
pub use error::{FenceError, ShardError};
pub use fence::{Fence, Holding, MigrationId, MigrationToken, SliceStateError};
pub use rows::{Cursor, ExportPage, ExportedRow, PollRow, RowVersion, VoterName, VoterRow};

/// The result of a shard operation.
pub type ShardResult<T> = Result<T, ShardError>;

/// Stores votes.
///
/// **Contract.** The shard accepts a write only while it owns the slice at
/// exactly the epoch that the write carries. It checks this in the same atomic
/// step as the write. Every answer is durable: also "already", a refusal, and a
/// read. A write that failed with [`ShardError::Unavailable`] may or may not
/// have happened; a retry with the same request id makes it happen once. Reads
/// do not pass the fence, because copies are read too; a caller that needs the
/// owner's data asks [`VoteShard::serves`]. Polls, votes, closings and lanes
/// pass the fence, are part of the export, and are covered by the digest.
#[async_trait]
pub trait VoteShard: Send + Sync + 'static {
    // --- polls -------------------------------------------------------------

    /// Creates a poll, or returns the one that the same request created.
    async fn create_poll(&self, fenced: &FencedSlice, poll: Poll) -> ShardResult<Poll>;

    /// Reads a poll.
    async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll>;

    /// Lists a slice's polls by id, after `after`, at most `most`.
    async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>>;

    /// Lists open polls of owned slices that expect at least `least` voters,
    /// those that close first at the front.
    async fn awaited_polls(&self, least: u64, most: usize) -> ShardResult<Vec<(SliceId, Poll)>>;

    /// Closes a poll now. A closed poll does not change.
    async fn close_poll(&self, fenced: &FencedSlice, poll: PollId) -> ShardResult<Poll>;

    /// Spreads a poll's counters over `lanes` lanes from now on. Never reduces
    /// the number of lanes.
    async fn widen_lanes(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
    ) -> ShardResult<Poll>;

    /// Spreads an open poll's counters over `lanes` lanes from now on, and adds
    /// the counts of the removed lanes to the others in the same step. Never
    /// raises the number of lanes. A closed poll does not change.
    async fn narrow_lanes(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
    ) -> ShardResult<Poll>;

    /// Adds imported vote counts without voters: one number per item, in the
    /// poll's order. A repeated request adds them once.
    async fn import_counts(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally>;

    /// Replaces a closed poll's rows by a file, in one step: the shard keeps
    /// the file's name and the final counts, and drops the rows. Requires the
    /// file's row count and digest to equal the shard's. The same file again
    /// changes nothing; a file of a higher generation with the same rows
    /// replaces the first.
    async fn archive_poll(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        file: ArchiveFile,
    ) -> ShardResult<Poll>;

    /// Returns the file that holds a poll's rows; `None` while the shard holds
    /// them.
    async fn archive(&self, slice: &SliceId, poll: PollId) -> ShardResult<Option<ArchiveFile>>;

    /// Returns the file that holds a poll's rows, in any of the tenant's slices
    /// on this shard; `None` if there is no such file or poll.
    async fn find_archive(
        &self,
        tenant: &TenantId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>>;

    /// Lists a slice's polls whose rows are in files, by id.
    async fn archives(&self, slice: &SliceId) -> ShardResult<Vec<PollRow>>;

    // --- votes -------------------------------------------------------------

    /// Judges and counts ballots in order; at most
    /// [`ballast_domain::bounds::BALLOTS_MAX`]. Refuses those for an archived
    /// poll with [`Archived`](ballast_domain::poll::BallotRefusal::Archived): a
    /// caller that has the file can judge them.
    async fn cast(
        &self,
        fenced: &FencedSlice,
        ballots: &[Ballot],
    ) -> ShardResult<Vec<BallotOutcome>>;

    /// A poll's counts.
    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally>;

    /// Returns a poll's counts per item and lane.
    async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>>;

    /// Reads a voter's row; `None` if there is none. Refused if the poll is
    /// archived.
    async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>>;

    /// Waits for tallies that changed after the mark `seen`, and returns them
    /// with the mark to continue from. May skip a tally when a newer one of the
    /// same poll follows. Mark 0 returns the tallies of all open polls.
    async fn tallies_since(&self, seen: u64) -> ShardResult<(u64, Vec<Tally>)>;

    /// Recent commit latency in microseconds, if known. Callers ask often, so
    /// this must be cheap.
    fn commit_micros(&self) -> Option<u64> {
        None
    }

    /// How full the shard is, and whether it works.
    async fn usage(&self) -> ShardUsage;

    // --- slices ------------------------------------------------------------

    /// Checks that reads at this epoch are authoritative: the shard owns the
    /// slice, or the slice is sealed while a migration decides.
    async fn serves(&self, fenced: &FencedSlice) -> ShardResult<()>;

    /// Makes the shard the owner of a newly created slice, if it has no fence
    /// for it. This is the last step of creating a tenant; it runs when the
    /// first request finds the slice missing. Allowed only at the first epoch:
    /// a slice that has moved has a fence on every shard it was on.
    async fn adopt(&self, fenced: &FencedSlice) -> ShardResult<()>;

    /// Returns the fence of a slice; `None` if the shard never held the slice.
    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>>;

    /// Prepares to import a slice (state Importing). `key` is the source's, so
    /// that the digests of both sides are comparable. Data from an earlier
    /// migration stays: of two versions of a row the higher one wins. `range`
    /// says which polls belong to the slice; others are refused.
    async fn prepare(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        key: SliceKey,
        range: HashRange,
    ) -> ShardResult<()>;

    /// Refuses every write from now on. Returns after every write that was
    /// admitted earlier has been committed or has failed. `fenced` carries the
    /// migration's fresh epoch.
    async fn seal(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()>;

    /// Accepts writes again, at a newer epoch. A slice that is not sealed yet
    /// accepts them at that epoch, so that a seal still on its way fails as
    /// stale.
    async fn unseal(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()>;

    /// Marks an imported slice as ready: from now on rows are only added, since
    /// discards by callers that know only an older epoch are refused. `fenced`
    /// carries the epoch at which the source is sealed. So whatever is compared
    /// after this is what the shard will own.
    async fn mark_ready(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()>;

    /// Becomes the owner of an imported slice.
    async fn activate(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()>;

    /// Ends the ownership of a sealed slice for good. The data stays.
    async fn retire(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()>;

    /// Removes up to `most` polls of a retired or half-imported slice with
    /// their rows, and returns how many are left. When none is left the slice
    /// becomes Gone, at the epoch of `fenced` or the known one if that is higher,
    /// which fences older commands that arrive late. A slice that never arrived
    /// becomes Gone too.
    async fn purge(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        most: usize,
    ) -> ShardResult<usize>;

    /// Replaces slices by others in one step. The parents, each sealed by this
    /// token at this epoch, become Gone; the children own the parents' polls at
    /// that epoch with their rows, requests, counts and files. Parents must
    /// share one key, which the children inherit, and the children must cover
    /// exactly the parents' range. A repetition changes nothing, even if the
    /// children have moved since.
    async fn recut(&self, token: &MigrationToken, cut: &RecutSpec) -> ShardResult<()>;

    // --- copies ------------------------------------------------------------

    /// Returns the key of a slice's digests and fingerprints.
    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey>;

    /// Returns the range of polls that a slice holds.
    async fn slice_range(&self, slice: &SliceId) -> ShardResult<HashRange>;

    /// Returns the next page of a slice's data: first a snapshot, then the
    /// changes since. The page's cursor resumes the export, also after a
    /// restart; [`ShardError::CursorTooOld`] means to start over.
    async fn export(
        &self,
        slice: &SliceId,
        cursor: &Cursor,
        bytes: usize,
    ) -> ShardResult<ExportPage>;

    /// Imports exported rows into a slice that is Importing, or that this
    /// migration has retired. Of two versions of a row the higher one wins.
    async fn import(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        changes: &[ExportedRow],
    ) -> ShardResult<()>;

    /// Discards a poll of a slice that is Importing, or that this migration has
    /// retired, so that it can be copied again because the stored copy is
    /// wrong. `fenced` carries the highest epoch that the caller knows: a caller
    /// that decided before the slice was marked ready is refused.
    async fn discard_poll(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        poll: PollId,
    ) -> ShardResult<()>;

    /// Returns the digests of a slice's polls, which every write maintains.
    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>>;

    /// Returns the sum of these digests. A cutover asks for it during the write
    /// pause: an engine should need time only for the polls that changed since
    /// the last call. The default adds up all digests.
    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        let digests = self.digests(slice).await?;
        Ok(SliceDigest::from_polls(
            digests.iter().map(|(_, digest)| digest),
        ))
    }

    /// Recomputes the digests from the stored rows.
    async fn scrub(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>>;
}

/// The slice that a write is for, and the epoch that its sender knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencedSlice {
    /// The slice.
    pub slice: SliceId,
    /// The epoch.
    pub epoch: Epoch,
}

/// A poll's counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The slice.
    pub slice: SliceId,
    /// The poll.
    pub poll: PollId,
    /// Votes per item, in the poll's order.
    pub counts: Vec<u64>,
    /// Voters with at least one chosen item.
    pub voters: u64,
    /// When the poll closed.
    pub closed_at: Option<Timestamp>,
    /// Increases with every change of the shard.
    pub mark: u64,
}

impl Tally {
    /// The number of votes.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How full a shard is, and whether it works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardUsage {
    /// Why it accepts no writes right now; `None` when it does.
    pub trouble: Option<String>,
    /// Owned slices.
    pub slices: u64,
    /// Polls.
    pub polls: u64,
    /// Archived polls.
    pub polls_archived: u64,
    /// Bytes of the archive files.
    pub archive_bytes: u64,
    /// Voters of open polls, which are in memory.
    pub voters_in_memory: u64,
    /// Capacity for voters in memory.
    pub voters_in_memory_max: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Recent commit latency in microseconds; `None` before the first commit.
    pub commit_micros: Option<u64>,
    /// Time that writes waited since the shard was opened.
    pub stalls: Stalls,
}

/// Unusual waiting time of writes in milliseconds, since the shard was opened.
/// Even a healthy write waits a little for others and for the disk: only what
/// exceeds [`Stalls::USUAL_MS`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// Waiting behind other writes.
    pub queue_ms: u64,
    /// Waiting for the disk.
    pub disk_ms: u64,
}

impl Stalls {
    /// Usual duration of a commit group.
    pub const USUAL_MS: u64 = 25;

    /// The part of a wait that exceeds [`Stalls::USUAL_MS`].
    pub(crate) fn beyond_usual(ms: i64) -> u64 {
        ms.max(0).unsigned_abs().saturating_sub(Self::USUAL_MS)
    }
}
