//! The web console for operators, under `/console`.
//!
//! ```text
//!   request ──► session (cookie → token → role) ──► pages/ one file per page
//!                                                     │ reads and writes through the
//!                                                     │ control plane's own functions
//!   census ── polls every shard once a second         ▼
//!      └────► live/ ── changed page parts, as server-sent events ──► the browser
//! ```
//! Pages are rendered on the server and work without scripts; scripts update
//! them live. All assets are embedded in the binary, and the content security
//! policy allows no others. Operator actions call the same functions as the admin
//! API: same roles, same checks, same audit log.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod assets;
mod census;
mod console;
mod draw;
mod fields;
mod forecasts;
mod form_submission;
mod live;
mod page;
mod pages;
mod ports;
mod session;
mod story;
mod titles;

pub use console::{Console, ConsoleSettings};
pub use pages::router;
pub use ports::{Running, RunningSettings};
pub use session::enter_path;
pub use story::{Chapter, ChapterState, DemoVerdict, Story};
