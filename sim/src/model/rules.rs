//! The protocol as it is, or with one rule broken: what the claims must notice.

/// Which rule is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// None: the protocol as it is shipped.
    Kept,
    /// Shards do not look at epochs.
    NoFence,
    /// What was equal before the seal is taken for equal after it.
    PositionBeforeSeal,
    /// Routers are told, and the target takes over, before the record says so.
    PublishBeforeCommit,
    /// Data is removed whatever the shard is to the slice.
    CleanupWithoutFence,
    /// The source is unsealed without the record saying that the move is off.
    UnsealWithoutAbort,
    /// A move that is off leaves the epoch as it was.
    EpochReused,
    /// Workers go by what they did, not by the record.
    DecideFromNotes,
    /// Late workers are not told from others.
    NoToken,
    /// Of two versions of a row the last one to come stays.
    NoVersions,
    /// Rows come without what tells a repetition from a new vote.
    HistoryLeftBehind,
    /// A seal does not wait for what was let in before it.
    SealIsNoBarrier,
    /// What was ordered before a move was called off may still come true.
    NoGravestone,
}

impl Rule {
    /// The ways to break it.
    pub const BROKEN: [Self; 12] = [
        Self::NoFence,
        Self::PositionBeforeSeal,
        Self::PublishBeforeCommit,
        Self::CleanupWithoutFence,
        Self::UnsealWithoutAbort,
        Self::EpochReused,
        Self::DecideFromNotes,
        Self::NoToken,
        Self::NoVersions,
        Self::HistoryLeftBehind,
        Self::SealIsNoBarrier,
        Self::NoGravestone,
    ];
}
