//! Backups: made while votes arrive, verified, restored.
//!
//! ```text
//!   create   shards first (each: newest checkpoint, sorted files, log after
//!            it; then the files of the closed polls that the copy names), then
//!            the registry, then the manifest
//!   verify   every checksum, every row, and the counts of the manifest
//!   restore  into an empty directory; every epoch is raised, so that routers
//!            of the old world are fenced
//! ```
//! The registry is copied last: it knows every tenant whose votes are in the
//! copies of the shards. All of it works on files, so it needs no running
//! instance and does not mind one.

mod archives;
mod command;
mod create;
mod manifest;
mod restore;
mod verify;

pub(crate) use command::{BackupCommand, RestoreArgs};
pub(crate) use restore::RESTORING;
