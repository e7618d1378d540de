//! What shows that no vote is lost, by trying everything that can happen.
//! Development only: the product never depends on it.
//!
//! ```text
//!   model              the protocol of a move, checked exhaustively within bounds
//!   recut              slices cut anew, likewise
//!   tests/simulation   the product itself in worlds from seeds, on a simulated
//!                      clock, network and disks
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod model;
pub mod recut;
