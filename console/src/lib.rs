//! The web console, under `/console`: what operators look at, and act from.
//!
//! ```text
//!   request ──► session (cookie → token → role) ──► pages/ one file per page
//!                                                     │ reads and acts through the
//!                                                     │ control plane's own functions
//!   census ── looks at every shard once a second      ▼
//!      └────► live/ ── what changed, as server-sent events ──► the browser
//! ```
//! A page is HTML made here; scripts only make it livelier. Everything it
//! needs is in the binary, and a browser is told to load nothing else. What an
//! operator does here goes through the same functions as the admin API: the
//! same roles, the same checks, the same audit log. It is no second way in.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod act;
mod ahead;
mod assets;
mod census;
mod console;
mod draw;
mod fields;
mod live;
mod page;
mod pages;
mod ports;
mod session;
mod story;
mod titles;

pub use console::{Console, Settings};
pub use pages::router;
pub use ports::{Running, RunningSettings};
pub use session::enter_path;
pub use story::{Chapter, Progress, Story, Verdict};
