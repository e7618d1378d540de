//! How fast the work on archives may go on, and whether it still may.

use async_trait::async_trait;

use super::ArchiveProgress;

/// Told again and again how the work goes: it may wait, so that neighbours
/// have room, give a sign of life, or end the work.
#[async_trait]
pub trait ArchiveThrottle: Send {
    /// So many more bytes were read or written.
    async fn advance(&mut self, bytes: u64) -> Result<(), ArchiveStopped>;

    /// So much is done, of so much.
    fn report_progress(&mut self, _done: &ArchiveProgress, _all: &ArchiveProgress) {}
}

/// The work was ended. What was done stays, and it can be taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work on the archive was ended")]
pub struct ArchiveStopped;

/// As fast as it goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unthrottled;

#[async_trait]
impl ArchiveThrottle for Unthrottled {
    async fn advance(&mut self, _: u64) -> Result<(), ArchiveStopped> {
        Ok(())
    }
}
