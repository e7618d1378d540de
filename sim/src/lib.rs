//! Model checker and simulation, which show that no vote is lost. Development only:
//! the product never depends on this crate.
//!
//! ```text
//!   model              the migration protocol, checked exhaustively within bounds
//!   recut              the recut protocol, checked likewise
//!   tests/simulation   the product itself in seeded worlds, on a simulated clock,
//!                      network and disks
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod model;
pub mod recut;
