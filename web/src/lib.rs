//! What the tenants' API and the admin API share at their edge.
//!
//! Nothing here knows what either API is about, who may use it, or how long it
//! waits for whom: that they say themselves.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod problem;

pub use problem::ApiError;
