//! Listens to server-sent events; reconnects when the connection is lost.

use std::time::Duration;

use super::client::{Client, Request};
use super::failure::CliError;
use super::sse::{ServerEvent, ServerEventReader};
use super::stream::ResponseStream;

/// Three times the server's heartbeat interval.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The first retry delay; it doubles with each attempt.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Which events to listen to, and how.
pub(crate) struct EventListener<'a> {
    pub(crate) client: &'a Client,
    /// The path of the event stream.
    pub(crate) path: &'a [&'a str],
    pub(crate) patience: Duration,
    /// Whether the server was reachable a moment ago.
    pub(crate) was_reachable: bool,
}

impl EventListener<'_> {
    /// Calls `sent` with each event until it returns true, and `lost` when the connection is lost.
    pub(crate) async fn run(
        &self,
        mut sent: impl AsyncFnMut(ServerEvent) -> Result<bool, CliError>,
        mut lost: impl AsyncFnMut(CliError),
    ) -> Result<(), CliError> {
        let mut stream = match self.open().await {
            Err(failure) if self.was_reachable && failure.is_retryable() => {
                lost(failure).await;
                self.open_again().await?
            }
            // Report immediately that the server is unreachable at the start.
            opened => opened?,
        };
        loop {
            let why = match read_events(stream, &mut sent).await {
                Ok(true) => return Ok(()),
                Ok(false) => CliError::unreachable(
                    "the server closed the connection".to_owned(),
                    "is the server running?",
                ),
                Err(failure) if failure.is_retryable() => failure,
                Err(failure) => return Err(failure),
            };
            lost(why).await;
            stream = self.open_again().await?;
        }
    }

    async fn open(&self) -> Result<ResponseStream<'_>, CliError> {
        self.client.open(Request::get(self.path)).await
    }

    async fn open_again(&self) -> Result<ResponseStream<'_>, CliError> {
        let mut pause = AGAIN_FIRST;
        let mut last = None;
        let trying = async {
            loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
                match self.open().await {
                    Err(failure) if failure.is_retryable() => last = Some(failure),
                    opened => return opened,
                }
            }
        };
        let opened = tokio::time::timeout(self.patience, trying).await;
        opened.unwrap_or_else(|_| {
            Err(last.unwrap_or_else(|| {
                let next = "raise --patience to keep trying";
                CliError::unreachable("the connection was lost".to_owned(), next)
            }))
        })
    }
}

/// Reads a stream to its end; returns whether the last event arrived.
async fn read_events(
    mut stream: ResponseStream<'_>,
    sent: &mut impl AsyncFnMut(ServerEvent) -> Result<bool, CliError>,
) -> Result<bool, CliError> {
    let mut reader = ServerEventReader::default();
    while let Some(piece) = stream.next(SILENCE_MAX).await? {
        for event in reader.push(&piece) {
            if sent(event).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The error for an event that this version cannot read.
pub(crate) fn unreadable_event(bad: serde_json::Error) -> CliError {
    CliError::rejected_locally(
        "unexpected-answer",
        "Unexpected response",
        bad.to_string(),
        "compare ballast --version with the server's; --json shows the raw responses",
    )
}
