//! The one conformance suite of the [`VoteShard`] trait.
//!
//! Every engine makes a [`ShardFixture`] and calls [`vote_shard_suite!`] in its
//! tests; each case becomes a test of its own there. An engine whose disk can
//! be held and made to fail makes a [`SyncGate`], too, and calls
//! [`vote_shard_gate_suite!`]. The cases ask only through the trait, so that
//! they say what the contract is and not how it is kept. The rules they name
//! (P3 and so on) are those of the protocol.
//!
//! | cases | what they pin |
//! |-------|---------------|
//! | [`fence`] | P3: who may write, and at which epoch |
//! | [`late`] | P4: late workers and other moves |
//! | [`versions`] | P9: of two versions the higher one stays |
//! | [`copies`] | P9, P15: exports, imports and scrubbing |
//! | [`cuts`] | P13: slices that become others |
//! | [`repeats`] | P10: repeated requests, revisions, choices, one register per voter |
//! | [`polls`] | P11: polls, closings and lanes |
//! | [`digests`] | P15: what digests and lanes are sums of |
//! | [`archives`] | P11, P15, P16: closed polls whose rows are in files |
//! | [`times`] | P16: opening, expiry, and time that never runs backwards |
//! | [`tallies`] | counts, marks, usage |
//! | [`votes`] | batches, limits, rows |
//! | [`durable`] | P5, P6: nothing undurable is seen, a seal is a barrier |
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

/// When every fixture's clock begins.
pub const START_MS: i64 = 1_794_821_400_000;

/// A shard that is open.
pub type SharedShard = Arc<dyn VoteShard>;

/// How the suite gets at an engine.
#[async_trait]
pub trait ShardFixture: Send + Sync + Sized + 'static {
    /// A place for a shard in which nothing has happened yet, and a clock that
    /// says [`START_MS`].
    async fn fresh() -> Self;

    /// Opens the shard in that place.
    async fn open(&self) -> SharedShard;

    /// Opens it with room for only so many voters in memory; `None` when the
    /// engine has no such bound.
    async fn open_for(&self, voters: u64) -> Option<SharedShard>;

    /// Closes it, so that it can be opened again.
    async fn close(&self, shard: SharedShard);

    /// Stops it as badly as can be done, so that it can be opened again:
    /// what was answered must be there. Closes it where nothing worse can be
    /// done.
    async fn crash(&self, shard: SharedShard) {
        self.close(shard).await;
    }

    /// The clock the shard reads.
    fn clock(&self) -> &SteppedClock;
}

/// Stands between a shard and what makes its writes durable.
#[async_trait]
pub trait SyncGate: ShardFixture {
    /// From now on nothing becomes durable.
    fn hold(&self);

    /// Returns when a write waits at the gate.
    async fn held(&self);

    /// Lets through what waits, and everything after it.
    fn release(&self);

    /// Lets fail what waits, and lets through everything after it.
    fn fail(&self);
}

/// A fresh, open shard that knows of nothing.
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

/// Lets a shard crash and opens it again.
async fn crash<F: ShardFixture>(fixture: &F, shard: SharedShard) -> SharedShard {
    fixture.crash(shard).await;
    fixture.open().await
}
