//! The registry: what is known of tenants, shards, keys and tokens.
//!
//! The port is [`ballast_domain::registry`]; here are its implementations and
//! the one conformance suite that all of them pass. [`typed`] puts the
//! domain's types over the port's JSON bodies.

#[cfg(test)]
pub(crate) mod conformance;
pub mod memory;
pub mod sqlite;
pub mod typed;

use std::time::Duration;

/// How long a wait for a change lasts at the most before it is asked again.
const WAIT_PATIENCE: Duration = Duration::from_secs(60);
