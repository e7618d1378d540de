//! What every SQLite file of Ballast has in common: how it is opened and
//! migrated, one writer that commits requests in groups, and a check that the
//! open file is still the one in its directory.
//!
//! ```text
//!   request ──► WriteQueue ──► writer task ──► GroupHandler: one transaction
//!                              (one connection,     for many requests, one sync
//!                              reopened after
//!                              a failure)
//!   reads   ──► a pool of read-only connections
//! ```
//! It knows no tables. Its two users bring their schema, their requests and their
//! transactions: the registry (`control-plane`), whose writer caches counters between
//! groups, and the execution store (`state-machines`), whose writer reads all it needs
//! in each group and also limits a group by bytes.

mod check;
mod connection;
mod file_identity;
mod open;
mod queue;

pub use check::{SqliteCheckError, open_to_check};
pub use connection::WriterConnection;
pub use file_identity::FileIdentity;
pub use open::{SqliteFile, SqliteFileOptions, SqliteOpenError};
pub use queue::{GroupHandler, QueueClosed, WriteQueue};
