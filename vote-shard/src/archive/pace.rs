//! How fast the work on archives may go on, and whether it still may.

use async_trait::async_trait;

use super::Report;

/// Told again and again how the work goes: it may wait, so that neighbours
/// have room, give a sign of life, or end the work.
#[async_trait]
pub trait Pace: Send {
    /// So many more bytes were read or written.
    async fn went_on(&mut self, bytes: u64) -> Result<(), Stopped>;

    /// So much is done, of so much.
    fn so_far(&mut self, _done: &Report, _all: &Report) {}
}

/// The work was ended. What was done stays, and it can be taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work on the archive was ended")]
pub struct Stopped;

/// As fast as it goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullSpeed;

#[async_trait]
impl Pace for FullSpeed {
    async fn went_on(&mut self, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}
