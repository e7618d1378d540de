//! An answer that has no end of its own: it is read piece by piece.

use std::time::Duration;

use super::client::Client;
use super::failure::Failure;

/// An answer that is read as it comes, for as long as it comes.
pub(crate) struct Stream<'a> {
    pub(super) client: &'a Client,
    pub(super) answer: reqwest::Response,
}

impl Stream<'_> {
    /// The next piece; none at the end. A stream that says nothing for so
    /// long counts as lost.
    pub(crate) async fn next(&mut self, silence: Duration) -> Result<Option<Vec<u8>>, Failure> {
        match tokio::time::timeout(silence, self.answer.chunk()).await {
            Ok(Ok(piece)) => Ok(piece.map(|bytes| bytes.to_vec())),
            Ok(Err(bad)) => Err(self.client.unreachable(bad)),
            Err(_) => Err(Failure::unreachable(
                format!("{} has said nothing for {silence:?}", self.client.base),
                "is the server running there?",
            )),
        }
    }
}
