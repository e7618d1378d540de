//! Throttles and cancels archive work.

use async_trait::async_trait;

use super::ArchiveProgress;

/// Called regularly during archive work: it may wait to leave capacity to
/// others, send a heartbeat, or end the work.
#[async_trait]
pub trait ArchiveThrottle: Send {
    /// `bytes` more were read or written.
    async fn advance(&mut self, bytes: u64) -> Result<(), ArchiveStopped>;

    /// Reports progress.
    fn report_progress(&mut self, _done: &ArchiveProgress, _all: &ArchiveProgress) {}
}

/// The work was ended. Finished parts stay, and it can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the archive work was ended")]
pub struct ArchiveStopped;

/// No throttling.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unthrottled;

#[async_trait]
impl ArchiveThrottle for Unthrottled {
    async fn advance(&mut self, _: u64) -> Result<(), ArchiveStopped> {
        Ok(())
    }
}
