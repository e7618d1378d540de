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
    /// The source is sealed before the record says that it will be.
    SealBeforeRecord,
    /// Routers are told, and the target takes over, before the record says so.
    PublishBeforeCommit,
    /// The target takes over before the record says so.
    ActivateBeforeCommit,
    /// Data is removed whatever the shard is to the slice.
    CleanupWithoutFence,
    /// The source is unsealed without the record saying that the move is off.
    UnsealWithoutAbort,
    /// A shard that is sealed takes votes again after a while.
    UnsealByClock,
    /// A move that is off leaves the epoch as it was.
    EpochReused,
    /// Which epochs were given out is forgotten with the move.
    SpentForgotten,
    /// A way back has no fresh epoch.
    ReverseAtOldEpoch,
    /// A move is called off after its cutover as it was before it.
    AbortAfterCommit,
    /// Workers go by what they did, not by the record.
    DecideFromNotes,
    /// The record is changed although it is no longer what was seen.
    SwapWithoutCompare,
    /// Late workers are not told from others.
    NoToken,
    /// Of two versions of a row the last one to come stays.
    NoVersions,
    /// Equal in number is taken for equal.
    CountForDigest,
    /// Rows come without what tells a repetition from a new vote.
    HistoryLeftBehind,
    /// A vote that is tried again is taken for a new one.
    RetryIsNew,
    /// A seal does not wait for what was let in before it.
    SealIsNoBarrier,
    /// What was ordered before a move was called off may still come true.
    NoGravestone,
    /// The target is not made ready before both sides are compared.
    NeverReady,
    /// Shards forget rows for whoever orders it, however long ago they looked.
    DiscardAtAnyTime,
    /// What is read from a sealed shard is told without asking the record.
    SealedIsTrusted,
    /// Who takes over from a shard that is given up does so at its epoch.
    GiveUpAtOldEpoch,
    /// A source is given up before everything is at its target.
    GiveUpForth,
    /// The copy that was given up is removed.
    LostIsPurged,
    /// A way back that was begun without its owner is gone on with as if the
    /// owner had been told that it is one.
    ForsakenIsReturnedTo,
    /// A write is acknowledged when the owner has it, though both sides should.
    AckAlone,
    /// A copy takes what routers carry to it whatever it is by now.
    MirrorAnywhere,
    /// Where a copy is left there seems to be none, and nobody looks again.
    LeftUnburied,
}

impl Rule {
    /// The ways to break it.
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
        Self::DecideFromNotes,
        Self::SwapWithoutCompare,
        Self::NoToken,
        Self::NoVersions,
        Self::CountForDigest,
        Self::HistoryLeftBehind,
        Self::RetryIsNew,
        Self::SealIsNoBarrier,
        Self::NoGravestone,
        Self::NeverReady,
        Self::DiscardAtAnyTime,
        Self::SealedIsTrusted,
        Self::GiveUpAtOldEpoch,
        Self::GiveUpForth,
        Self::LostIsPurged,
        Self::ForsakenIsReturnedTo,
        Self::AckAlone,
        Self::MirrorAnywhere,
        Self::LeftUnburied,
    ];
}
