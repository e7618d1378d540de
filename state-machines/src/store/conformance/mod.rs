//! The conformance suite of the [`ExecutionStore`] trait.
//!
//! Every store implements [`StoreFixture`] and calls [`store_suite!`] in its tests, which
//! turns each case into a test. The cases only use the trait, so they state the contract
//! and not an implementation. They pass the time to the store and never wait for it.
//!
//! | cases | what they test |
//! |-------|---------------|
//! | [`definitions`] | texts, hashes and deployments |
//! | [`creating`] | idempotent creation, conflicts |
//! | [`steps`] | atomicity, seqs, ends, sizes |
//! | [`leases`] | fences; expiry, renewal and release of leases |
//! | [`waking`] | which executions are due, when and in which order; change notifications |
//! | [`messages`] | inboxes: due at once, unread until marked as read, read once |
//! | [`reading`] | snapshots and entries, lists, histories, counts |
//! | [`crowds`] | hundreds of concurrent executions |
//! | [`forgetting`] | deleting ended executions, and nothing else |
//! | [`reopening`] | durability across a close and a crash |
//!
//! [`store_suite!`]: crate::store_suite
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod creating;
pub mod crowds;
pub mod definitions;
pub mod forgetting;
pub(crate) mod helpers;
pub mod leases;
pub mod messages;
pub mod reading;
pub mod reopening;
pub mod steps;
mod suite;
pub mod waking;

use std::sync::Arc;

use async_trait::async_trait;

use super::ExecutionStore;

/// An open store.
pub type OpenStore = Arc<dyn ExecutionStore>;

/// Opens, closes and crashes a store for the suite.
#[async_trait]
pub trait StoreFixture: Send + Sync + Sized + 'static {
    /// Prepares an empty store.
    async fn fresh() -> Self;

    /// Opens the store.
    async fn open(&self) -> OpenStore;

    /// Closes the store, so that it can be opened again.
    async fn close(&self, store: OpenStore);

    /// Crashes the store as badly as possible, so that it can be opened again. All
    /// answered writes must survive. By default it closes the store.
    async fn crash(&self, store: OpenStore) {
        self.close(store).await;
    }
}
