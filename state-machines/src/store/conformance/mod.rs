//! The one conformance suite of the [`Store`] trait.
//!
//! Every store makes a [`Fixture`] and calls [`store_suite!`] in its tests;
//! each case becomes a test of its own there. The cases ask only through the
//! trait, so that they say what the contract is and not how it is kept. Time
//! is what they say it is, and none of them waits for it.
//!
//! | cases | what they pin |
//! |-------|---------------|
//! | [`definitions`] | texts, hashes and the names that stand for them |
//! | [`creating`] | idempotent creation, conflicts |
//! | [`steps`] | all or nothing, seqs, ends, sizes |
//! | [`leases`] | fences, leases that run out, are renewed, given up, taken back |
//! | [`waking`] | who is due and when, in which order, and who is told |
//! | [`messages`] | inboxes: due at once, read until taken, taken once |
//! | [`reading`] | snapshots and entries, lists, histories, counts |
//! | [`crowds`] | hundreds of executions at once |
//! | [`forgetting`] | what has ended is forgotten, and nothing else |
//! | [`reopening`] | what was answered is there after a close and a crash |
//!
//! [`store_suite!`]: crate::store_suite
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod creating;
pub mod crowds;
pub mod definitions;
pub mod forgetting;
pub mod leases;
pub mod messages;
pub mod reading;
pub mod reopening;
pub mod steps;
mod suite;
pub mod waking;
pub(crate) mod words;

use std::sync::Arc;

use async_trait::async_trait;

use super::Store;

/// A store that is open.
pub type Opened = Arc<dyn Store>;

/// How the suite gets at a store.
#[async_trait]
pub trait Fixture: Send + Sync + Sized + 'static {
    /// A place for a store in which nothing has happened yet.
    async fn fresh() -> Self;

    /// Opens the store in that place.
    async fn open(&self) -> Opened;

    /// Closes it, so that it can be opened again.
    async fn close(&self, store: Opened);

    /// Stops it as badly as can be done, so that it can be opened again: what
    /// was answered must be there. Closes it where nothing worse can be done.
    async fn crash(&self, store: Opened) {
        self.close(store).await;
    }
}
