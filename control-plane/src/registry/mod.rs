//! The registry: records of tenants, shards, keys, tokens and more.
//!
//! [`ballast_domain::registry`] is the port. Here are its implementations and the
//! conformance suite that all of them pass. [`typed`] maps the port's JSON bodies to
//! the domain's types.

#[cfg(test)]
pub(crate) mod conformance;
pub mod memory;
mod registry_id;
pub mod sqlite;
pub mod typed;

use std::time::Duration;

pub use registry_id::RegistryId;

/// Longest wait for a change before the caller asks again.
const WAIT_PATIENCE: Duration = Duration::from_secs(60);
