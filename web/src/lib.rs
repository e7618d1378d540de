//! What the tenants' API and the admin API share at their edge.
//!
//! ```text
//!   request ──► head (path, query, Idempotency-Key) ──► body (read, decode)
//!   answer  ◄── problem (an error, as RFC 9457 has it) · page (of a list)
//!   openapi ── finishes an API's document, and shows it
//! ```
//! Nothing here knows what either API is about, who may use it, or how long it
//! waits for whom: that they say themselves.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod body;
pub mod head;
pub mod openapi;
pub mod page;
pub mod problem;

pub use problem::ApiError;
