//! A streaming response, read piece by piece.

use std::time::Duration;

use super::client::Client;
use super::failure::CliError;

/// A streaming response.
pub(crate) struct ResponseStream<'a> {
    pub(super) client: &'a Client,
    pub(super) answer: reqwest::Response,
}

impl ResponseStream<'_> {
    /// The next piece, or `None` at the end. A stream that is silent for this long counts as lost.
    pub(crate) async fn next(&mut self, silence: Duration) -> Result<Option<Vec<u8>>, CliError> {
        match tokio::time::timeout(silence, self.answer.chunk()).await {
            Ok(Ok(piece)) => Ok(piece.map(|bytes| bytes.to_vec())),
            Ok(Err(bad)) => Err(self.client.unreachable(bad)),
            Err(_) => Err(CliError::unreachable(
                format!("{} has said nothing for {silence:?}", self.client.base),
                "is the server running?",
            )),
        }
    }
}
