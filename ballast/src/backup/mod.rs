//! Backups: created while votes arrive, verified, restored.
//!
//! ```text
//!   create   shards first (each: newest checkpoint, sorted files, log after
//!            it; then the files of the closed polls that the copy names), then
//!            the registry, then the manifest
//!   verify   every checksum, every row, and the counts of the manifest
//!   restore  into an empty directory; every epoch is raised, so that routers
//!            of the old world are fenced
//! ```
//! The registry is copied last, so that it knows every tenant whose votes are in the copies of the
//! shards. Everything works on files, with or without a running instance.

mod archives;
mod command;
mod create;
mod manifest;
mod restore;
mod verify;

pub(crate) use command::{BackupCommand, RestoreArgs};
pub(crate) use restore::RESTORING;
