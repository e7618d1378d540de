//! The rules of the protocol that the checker can break, one at a time. The invariants
//! must notice each.

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BrokenRule {
    /// None: the protocol as shipped.
    None,
    /// Shards ignore epochs.
    NoFence,
    /// Both sides count as equal after the seal if they were equal before it.
    PositionBeforeSeal,
    /// The source is sealed before the record says so.
    SealBeforeRecord,
    /// Routers learn of the new owner, and the target takes over, before the commit.
    PublishBeforeCommit,
    /// The target takes over before the commit.
    ActivateBeforeCommit,
    /// A shard removes data whatever its fence says.
    CleanupWithoutFence,
    /// The source is unsealed without aborting the migration in the record.
    UnsealWithoutAbort,
    /// A sealed shard takes votes again after a while, by itself.
    UnsealByClock,
    /// An aborted migration does not raise the owner's epoch.
    EpochReused,
    /// The highest epoch issued is forgotten at the end of a migration.
    SpentForgotten,
    /// A reverse migration does not take a new epoch.
    ReverseAtOldEpoch,
    /// A migration is aborted after its cutover as if before it.
    AbortAfterCommit,
    /// Workers decide from what they remember, not from the record.
    DecideFromMemory,
    /// The record is written without comparing it with the one that was read.
    SwapWithoutCompare,
    /// Shards accept the tokens of late workers.
    NoToken,
    /// Of two versions of a row, the one that arrives last wins.
    NoVersions,
    /// Both sides count as equal if they have the same number of rows.
    CountInsteadOfDigest,
    /// Rows are copied without the request ids that identify repeated votes.
    RequestsNotCopied,
    /// A retried vote counts as a new one.
    RetryCountedAgain,
    /// A seal does not wait for writes that were admitted before it.
    SealWithoutBarrier,
    /// A purge leaves no tombstone, so delayed commands of an aborted migration take
    /// effect.
    NoTombstone,
    /// The target can still discard rows after both sides were compared.
    ReadySkipped,
    /// Shards discard rows for workers with a stale observation.
    DiscardAtAnyTime,
    /// Reads of a sealed shard are answered without checking the record.
    SealedReadsTrusted,
    /// The successor of an abandoned owner takes over at the owner's epoch.
    AbandonAtOldEpoch,
    /// A forward migration abandons its source before the target has everything.
    AbandonForward,
    /// The data of an abandoned owner is removed.
    AbandonedCopyPurged,
    /// A reverse migration that started without its owner continues as if the owner
    /// knew that it owns the slice.
    RetreatToAbandonedOwner,
    /// A write is acknowledged when the owner has it, although both sides should.
    AckAlone,
    /// A copy accepts rows from routers whatever its fence says.
    MirrorAnywhere,
    /// A copy that is left counts as removed, so it is never removed.
    LeftoverNotTracked,
}

impl BrokenRule {
    /// All rules that can be broken.
    pub const BROKEN: [Self; 31] = [
        Self::NoFence,
        Self::PositionBeforeSeal,
        Self::SealBeforeRecord,
        Self::PublishBeforeCommit,
        Self::ActivateBeforeCommit,
        Self::CleanupWithoutFence,
        Self::UnsealWithoutAbort,
        Self::UnsealByClock,
        Self::EpochReused,
        Self::SpentForgotten,
        Self::ReverseAtOldEpoch,
        Self::AbortAfterCommit,
        Self::DecideFromMemory,
        Self::SwapWithoutCompare,
        Self::NoToken,
        Self::NoVersions,
        Self::CountInsteadOfDigest,
        Self::RequestsNotCopied,
        Self::RetryCountedAgain,
        Self::SealWithoutBarrier,
        Self::NoTombstone,
        Self::ReadySkipped,
        Self::DiscardAtAnyTime,
        Self::SealedReadsTrusted,
        Self::AbandonAtOldEpoch,
        Self::AbandonForward,
        Self::AbandonedCopyPurged,
        Self::RetreatToAbandonedOwner,
        Self::AckAlone,
        Self::MirrorAnywhere,
        Self::LeftoverNotTracked,
    ];
}
