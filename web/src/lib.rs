//! What the HTTP APIs for tenants and for operators have in common.
//!
//! ```text
//!   request ──► head (path, query, Idempotency-Key) ──► body (read, decode)
//!   response ◄── problem (an error, RFC 9457) · page (of a list)
//!   openapi ──  completes an API's document and serves it
//! ```
//! Nothing here depends on what an API does, who may use it, or its timeouts.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod body;
pub mod head;
pub mod openapi;
pub mod page;
pub mod problem;

pub use problem::ApiError;
