//! Listening to something for as long as it lasts: server-sent events, one by
//! one. A connection that is lost is made again.

use std::time::Duration;

use super::client::{Client, Request};
use super::failure::Failure;
use super::sse::{Reader, Sent};
use super::stream::Stream;

/// Three times as long as the server is silent at the most.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Before the first further attempt; then twice as long each time.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// What is listened to, and how.
pub(crate) struct Listening<'a> {
    pub(crate) client: &'a Client,
    /// Where its events come from.
    pub(crate) path: &'a [&'a str],
    pub(crate) patience: Duration,
    /// Whether the server was there a moment ago.
    pub(crate) met: bool,
}

impl Listening<'_> {
    /// Hands out each event, until `sent` says that it was the last one; and
    /// each loss of the connection.
    pub(crate) async fn run(
        &self,
        mut sent: impl AsyncFnMut(Sent) -> Result<bool, Failure>,
        mut lost: impl AsyncFnMut(Failure),
    ) -> Result<(), Failure> {
        let mut stream = match self.open().await {
            Err(failure) if self.met && failure.is_passing() => {
                lost(failure).await;
                self.open_again().await?
            }
            // That nobody is there at first is told at once.
            opened => opened?,
        };
        loop {
            let why = match read(stream, &mut sent).await {
                Ok(true) => return Ok(()),
                Ok(false) => Failure::unreachable(
                    "the server ended the connection".to_owned(),
                    "is the server running there?",
                ),
                Err(failure) if failure.is_passing() => failure,
                Err(failure) => return Err(failure),
            };
            lost(why).await;
            stream = self.open_again().await?;
        }
    }

    async fn open(&self) -> Result<Stream<'_>, Failure> {
        self.client.open(Request::get(self.path)).await
    }

    async fn open_again(&self) -> Result<Stream<'_>, Failure> {
        let mut pause = AGAIN_FIRST;
        let mut last = None;
        let trying = async {
            loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
                match self.open().await {
                    Err(failure) if failure.is_passing() => last = Some(failure),
                    opened => return opened,
                }
            }
        };
        let opened = tokio::time::timeout(self.patience, trying).await;
        opened.unwrap_or_else(|_| {
            Err(last.unwrap_or_else(|| {
                let next = "--patience tries for longer";
                Failure::unreachable("the connection was lost".to_owned(), next)
            }))
        })
    }
}

/// Reads a stream to its end; says whether the last event was told.
async fn read(
    mut stream: Stream<'_>,
    sent: &mut impl AsyncFnMut(Sent) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let mut reader = Reader::default();
    while let Some(piece) = stream.next(SILENCE_MAX).await? {
        for event in reader.take(&piece) {
            if sent(event).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// An event that this version cannot read.
pub(crate) fn unknown(bad: serde_json::Error) -> Failure {
    Failure::refused_here(
        "unexpected-answer",
        "The answer is none that this version knows",
        bad.to_string(),
        "compare ballast --version with the server's; --json shows the answers as they are",
    )
}
