//! The conformance suite of the [`VoteShard`] trait.
//!
//! Every engine implements [`ShardFixture`] and calls [`vote_shard_suite!`] in
//! its tests; each case becomes a test there. An engine whose disk can be
//! paused and made to fail also implements [`SyncGate`] and calls
//! [`vote_shard_gate_suite!`]. The cases use only the trait, so they state the
//! contract and not its implementation. The rules that they cite (P3 and so on)
//! are those of the protocol.
//!
//! | cases | what they check |
//! |-------|---------------|
//! | [`fence`] | P3: who may write, and at which epoch |
//! | [`late`] | P4: late workers and other migrations |
//! | [`versions`] | P9: of two versions the higher one wins |
//! | [`copies`] | P9, P15: exports, imports and scrubbing |
//! | [`cuts`] | P13: split and merged slices |
//! | [`repeats`] | P10: repeated requests, revisions, choices, one register per voter |
//! | [`polls`] | P11: polls, closings and lanes |
//! | [`digests`] | P15: what digests and lanes add up |
//! | [`archives`] | P11, P15, P16: closed polls whose rows are in files |
//! | [`times`] | P16: opening, expiry, and time that never runs backwards |
//! | [`tallies`] | counts, marks, usage |
//! | [`votes`] | batches, limits, rows |
//! | [`durable`] | P5, P6: reads show only durable data, a seal is a barrier |
//!
//! [`vote_shard_suite!`]: crate::vote_shard_suite
//! [`vote_shard_gate_suite!`]: crate::vote_shard_gate_suite
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod archives;
pub(crate) mod builders;
pub mod copies;
pub mod cuts;
pub mod digests;
pub mod durable;
pub mod fence;
pub mod late;
pub mod ledger;
pub mod polls;
pub mod repeats;
mod snapshot;
mod suite;
pub mod tallies;
pub mod times;
pub mod versions;
pub mod votes;

use std::sync::Arc;

use async_trait::async_trait;

use crate::VoteShard;
use crate::testing::SteppedClock;

/// The start time of every fixture's clock.
pub const START_MS: i64 = 1_794_821_400_000;

/// An open shard.
pub type SharedShard = Arc<dyn VoteShard>;

/// How the suite controls an engine.
#[async_trait]
pub trait ShardFixture: Send + Sync + Sized + 'static {
    /// Creates storage for an empty shard, and a clock at [`START_MS`].
    async fn fresh() -> Self;

    /// Opens the shard.
    async fn open(&self) -> SharedShard;

    /// Opens it with a capacity of `voters` in memory; `None` if the engine has
    /// no such limit.
    async fn open_for(&self, voters: u64) -> Option<SharedShard>;

    /// Closes it; it can be opened again.
    async fn close(&self, shard: SharedShard);

    /// Crashes it as badly as the fixture can; it can be opened again, and all
    /// acknowledged data must be there. Closes it by default.
    async fn crash(&self, shard: SharedShard) {
        self.close(shard).await;
    }

    /// The clock the shard reads.
    fn clock(&self) -> &SteppedClock;
}

/// Controls when a shard's writes become durable.
#[async_trait]
pub trait SyncGate: ShardFixture {
    /// Holds all writes.
    fn hold(&self);

    /// Waits until a write is held.
    async fn wait_until_held(&self);

    /// Releases held and later writes.
    fn release(&self);

    /// Makes held writes fail, and releases later ones.
    fn fail(&self);
}

/// A new, open shard without data.
async fn start<F: ShardFixture>() -> (F, SharedShard) {
    let fixture = F::fresh().await;
    let shard = fixture.open().await;
    (fixture, shard)
}

/// Closes a shard and opens it again.
async fn reopen<F: ShardFixture>(fixture: &F, shard: SharedShard) -> SharedShard {
    fixture.close(shard).await;
    fixture.open().await
}

/// Crashes a shard and opens it again.
async fn crash<F: ShardFixture>(fixture: &F, shard: SharedShard) -> SharedShard {
    fixture.crash(shard).await;
    fixture.open().await
}
