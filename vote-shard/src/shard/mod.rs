//! The trait that every engine implements, and its words.
//!
//! ```text
//!   cut.rs      slices that become others
//!   fence.rs    who owns a slice: the record a shard keeps of it for ever
//!   rows.rs     what is exported and imported: polls and voters' rows
//!   digest.rs   what proves that two copies are equal
//!   archived.rs what is kept of a poll whose rows are in a file
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
use ballast_domain::poll::{Ballot, Poll, RequestId, Verdict};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};

pub use archived::{ArchiveFile, Archived};
pub use cut::Cut;
pub use digest::{Digest, Hash, SliceDigest, SliceKey, VoterPrint};
pub use directory::Shards;
pub use error::{Fenced, ShardError};
pub use fence::{Fence, Holding, MoveId, Order, Unfit};
pub use rows::{Change, Cursor, Page, PollRow, Version, VoterName, VoterRow};

/// A result of a shard.
pub type ShardResult<T> = Result<T, ShardError>;

/// A place that stores votes.
///
/// **Contract.** A write is accepted only while the shard owns the slice at
/// the very epoch the write carries; that is checked in the same atomic step
/// as the write. What is answered is durable, whatever the answer: also
/// "already", also a refusal, also a read. A write that failed with
/// [`ShardError::Unavailable`] may or may not have happened; sent again with
/// the same request id, it happens once. Reads do not pass the fence, because
/// copies are read too; who wants the truth asks [`VoteShard::serves`]. Polls, votes, closings and lanes all
/// pass the fence, are in the export, and are covered by the digest.
#[async_trait]
pub trait VoteShard: Send + Sync + 'static {
    // --- polls -------------------------------------------------------------

    /// Creates a poll, or finds the one that the same request created.
    async fn create_poll(&self, at: &At, poll: Poll) -> ShardResult<Poll>;

    /// A poll.
    async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll>;

    /// A slice's polls in the order of their ids, after `after`.
    async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>>;

    /// Polls that are not closed and expect at least `least` voters, of slices
    /// that are owned here; those that close first come first.
    async fn awaited(&self, least: u64, most: usize) -> ShardResult<Vec<(SliceId, Poll)>>;

    /// Closes a poll now; one that is closed stays as it is.
    async fn close_poll(&self, at: &At, poll: PollId) -> ShardResult<Poll>;

    /// Spreads a poll's counters over so many lanes from now on. Never fewer
    /// than it has.
    async fn widen_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll>;

    /// Spreads an open poll's counters over so few lanes from now on; what was
    /// counted on the others is added to those that stay, in the same step.
    /// Never more than it has. A closed poll stays as it is.
    async fn narrow_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll>;

    /// Adds votes that come as sums, without voters: so many for each item, in
    /// the poll's order. The same request adds them once.
    async fn carry(
        &self,
        at: &At,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally>;

    /// Lets a file take the place of a closed poll's rows, in one step: from
    /// then on the shard has the file's name and the final counts, and the rows
    /// are no rows of the shard any more. Only if the file's number and digest
    /// of rows are the shard's own. The same file again changes nothing; one
    /// of a higher generation with the same rows takes the place of the first.
    async fn archive_poll(&self, at: &At, poll: PollId, file: ArchiveFile) -> ShardResult<Poll>;

    /// The file that holds a poll's rows; `None` while the shard does.
    async fn archive(&self, slice: &SliceId, poll: PollId) -> ShardResult<Option<ArchiveFile>>;

    /// The file that holds a poll's rows, whichever of the tenant's slices here
    /// the poll is in; `None` when there is no such file or poll.
    async fn archive_of(&self, tenant: &TenantId, poll: PollId)
    -> ShardResult<Option<ArchiveFile>>;

    /// A slice's polls whose rows are in files, in the order of their ids.
    async fn archives(&self, slice: &SliceId) -> ShardResult<Vec<PollRow>>;

    // --- votes -------------------------------------------------------------

    /// Judges and counts ballots, in their order; at most
    /// [`ballast_domain::bounds::BALLOTS_MAX`]. Those for a poll whose rows are
    /// in a file are refused with
    /// [`Archived`](ballast_domain::poll::Refusal::Archived): who has the file
    /// can judge them.
    async fn cast(&self, at: &At, ballots: &[Ballot]) -> ShardResult<Vec<Verdict>>;

    /// A poll's counts.
    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally>;

    /// A poll's counts lane by lane: for each item the votes in each lane.
    async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>>;

    /// A voter's row; `None` when there is none. Refused when the poll's rows
    /// are in a file.
    async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>>;

    /// The tallies that changed after the mark `seen`, waiting until there is
    /// one, with the mark to go on from. A tally may be skipped when a newer
    /// one of the same poll follows. Mark 0 gives those of all open polls.
    async fn tallies_since(&self, seen: u64) -> ShardResult<(u64, Vec<Tally>)>;

    /// How long a write takes to be durable these days, in microseconds, if that
    /// is known. It is asked often, and must cost nothing.
    fn commit_micros(&self) -> Option<u64> {
        None
    }

    /// How full the shard is, and whether it works.
    async fn usage(&self) -> Usage;

    // --- slices ------------------------------------------------------------

    /// Whether the shard holds the truth of a slice for those who know this
    /// epoch: as its owner, or sealed while a move decides.
    async fn serves(&self, at: &At) -> ShardResult<()>;

    /// Makes the shard the owner of a slice that was created and never moved,
    /// if it has never heard of it: the last step of creating a tenant, taken
    /// when the first request finds it missing. Only at the first epoch: a
    /// slice that moved has a record wherever it was.
    async fn found(&self, at: &At) -> ShardResult<()>;

    /// What the shard remembers of a slice; `None` when it never held it.
    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>>;

    /// Makes room for a slice that is to come: Importing. `key` is the
    /// source's, so that both sides' digests can be compared. What an earlier
    /// move left here is kept: of two versions of a row the higher one stays.
    /// `range` says which polls the slice holds: no other is taken.
    async fn prepare(
        &self,
        at: &At,
        order: &Order,
        key: SliceKey,
        range: HashRange,
    ) -> ShardResult<()>;

    /// Refuses every write from now on. When it returns, every write that was
    /// admitted before has been committed or has failed. `at` has the fresh
    /// epoch of the move.
    async fn seal(&self, at: &At, order: &Order) -> ShardResult<()>;

    /// Takes writes again, at a newer epoch; one that was not sealed yet takes
    /// them at that epoch, and the seal that is on its way comes too late.
    async fn unseal(&self, at: &At, order: &Order) -> ShardResult<()>;

    /// Only adds to an imported slice from now on, whatever is ordered by those
    /// who have looked before: `at` has the epoch that the source is sealed at.
    /// What is compared after this is what will be owned.
    async fn ready(&self, at: &At, order: &Order) -> ShardResult<()>;

    /// Becomes the owner of an imported slice.
    async fn activate(&self, at: &At, order: &Order) -> ShardResult<()>;

    /// Stops being the owner of a sealed slice, for good; the data stays.
    async fn retire(&self, at: &At, order: &Order) -> ShardResult<()>;

    /// Removes up to `most` polls of a retired or half-imported slice with
    /// their rows; says how many are left. When none is, the slice is Gone, at
    /// the epoch of `at` or the higher one that is known: what was ordered
    /// below it and comes late finds that. One that never came is Gone too.
    async fn purge(&self, at: &At, order: &Order, most: usize) -> ShardResult<usize>;

    /// Cuts slices anew, in one step: the parents, each sealed by this order at
    /// this epoch, are Gone, and the children own their polls at that epoch, with
    /// everything that is known of them: rows, requests, counts, files. Parents
    /// must have one key, which is the children's, and the children exactly the
    /// parents' range. Done again it changes nothing, also when the children
    /// have moved on since.
    async fn recut(&self, order: &Order, cut: &Cut) -> ShardResult<()>;

    // --- copies ------------------------------------------------------------

    /// The key of a slice's digests and fingerprints.
    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey>;

    /// Which polls a slice holds.
    async fn slice_range(&self, slice: &SliceId) -> ShardResult<HashRange>;

    /// The next page of a slice's data: first what is there, then what has
    /// changed since. Resumable with the page's cursor, also after a restart;
    /// [`ShardError::CursorTooOld`] means to begin again.
    async fn export(&self, slice: &SliceId, cursor: &Cursor, bytes: usize) -> ShardResult<Page>;

    /// Takes exported data into a slice that is Importing, or that this move has
    /// left behind. Of two versions of a row the higher one stays.
    async fn import(&self, slice: &SliceId, order: &Order, changes: &[Change]) -> ShardResult<()>;

    /// Forgets a poll of a slice that is Importing, or that was left by this
    /// move, so that it can be copied anew: what is stored of it is not what it
    /// should be. `at` has the highest epoch that whoever orders it knows of: one
    /// who looked before the slice was made ready is refused.
    async fn discard(&self, at: &At, order: &Order, poll: PollId) -> ShardResult<()>;

    /// The digests of a slice's polls, kept with every write.
    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>>;

    /// The sum of these digests, for the moment at which nobody can vote: it
    /// takes as long as what changed since it was last asked for, not as long
    /// as what is stored. An engine that cannot do that adds them up.
    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        let digests = self.digests(slice).await?;
        Ok(SliceDigest::of(digests.iter().map(|(_, digest)| digest)))
    }

    /// The digests computed anew from what is stored.
    async fn scrub(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>>;
}

/// Which slice a write is for, and the epoch its sender believes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
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
    /// Voters whose row holds at least one item.
    pub voters: u64,
    /// When the poll closed.
    pub closed_at: Option<Timestamp>,
    /// Grows with every change of the shard.
    pub mark: u64,
}

impl Tally {
    /// All votes.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How full a shard is, and whether it works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Why it takes no writes right now; `None` when it does.
    pub trouble: Option<String>,
    /// Slices it owns.
    pub slices: u64,
    /// Polls it holds.
    pub polls: u64,
    /// Those of them whose rows are in files.
    pub polls_archived: u64,
    /// Bytes of these files.
    pub archive_bytes: u64,
    /// Voters of open polls, which are in memory.
    pub voters_in_memory: u64,
    /// How many there may be.
    pub voters_in_memory_max: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// How long a write takes to be durable these days, in microseconds; unknown
    /// while there was none.
    pub commit_micros: Option<u64>,
    /// How long writes were kept waiting, since the shard was opened.
    pub stalls: Stalls,
}

/// How long writes were kept waiting beyond what is usual, in milliseconds,
/// since the shard was opened. A write waits a little for others and for the
/// disk even when all is well: only what is beyond [`Stalls::USUAL_MS`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// Behind other writes.
    pub queue_ms: u64,
    /// For the disk.
    pub disk_ms: u64,
}

impl Stalls {
    /// What a group of writes may take without anyone calling it a wait.
    pub const USUAL_MS: u64 = 25;

    /// The part of a wait that counts.
    pub(crate) fn beyond_usual(ms: i64) -> u64 {
        ms.max(0).unsigned_abs().saturating_sub(Self::USUAL_MS)
    }
}
