//! What is heard of an execution: each change as it comes, for as long as it
//! runs. A connection that is lost is made again.

use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::body::{Execution, HistoryEvent};
use super::history_after;
use super::sse::Reader;
use crate::cli::client::{Client, Request};
use crate::cli::failure::Failure;
use crate::cli::stream::Stream;

/// Three times as long as the server is silent at the most.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Before the first further attempt; then twice as long each time.
const AGAIN_FIRST: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Something that was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// How the execution stands now.
    Seen(Box<Seen>),
    /// The connection is lost; it is tried again.
    Lost(Failure),
}

/// How an execution stands, and what happened since.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) execution: Execution,
    /// The API's own words.
    pub(super) document: String,
    /// Events that were not told before, in their order.
    pub(super) events: Vec<HistoryEvent>,
}

/// Whose changes are to be heard, and how.
pub(super) struct Feed<'a> {
    pub(super) client: &'a Client,
    pub(super) id: &'a str,
    /// Whether the history is asked for as well.
    pub(super) history: bool,
    pub(super) patience: Duration,
    /// Whether the server was there a moment ago.
    pub(super) met: bool,
    pub(super) listener: Sender<Heard>,
}

impl Feed<'_> {
    /// Listens until the execution has ended.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut last = 0;
        let mut stream = match self.open().await {
            Err(failure) if self.met && failure.is_passing() => {
                self.tell(Heard::Lost(failure)).await;
                self.open_again().await?
            }
            // That nobody is there at first is told at once.
            opened => opened?,
        };
        loop {
            let lost = match self.read(stream, &mut last).await {
                Ok(true) => return Ok(()),
                Ok(false) => Failure::unreachable(
                    "the server ended the connection".to_owned(),
                    "is the server running there?",
                ),
                Err(failure) if failure.is_passing() => failure,
                Err(failure) => return Err(failure),
            };
            self.tell(Heard::Lost(lost)).await;
            stream = self.open_again().await?;
        }
    }

    async fn open(&self) -> Result<Stream<'_>, Failure> {
        let request = Request::get(&["executions", self.id, "watch"]);
        self.client.open(request).await
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

    /// Reads a stream to its end; says whether the execution has ended.
    async fn read(&self, mut stream: Stream<'_>, last: &mut u64) -> Result<bool, Failure> {
        let mut reader = Reader::default();
        while let Some(piece) = stream.next(SILENCE_MAX).await? {
            for sent in reader.take(&piece) {
                if sent.event != "execution" && sent.event != "end" {
                    continue;
                }
                let execution: Execution = serde_json::from_str(&sent.data).map_err(unknown)?;
                let length = execution.history_length;
                let events = if self.history && length > *last {
                    history_after(self.client, self.id, *last, length).await?
                } else {
                    Vec::new()
                };
                *last = events.last().map_or(*last, |event| event.id);
                let seen = Seen {
                    execution,
                    document: sent.data,
                    events,
                };
                self.tell(Heard::Seen(Box::new(seen))).await;
                if sent.event == "end" {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn tell(&self, heard: Heard) {
        // Who listens no more has stopped us already.
        let _ = self.listener.send(heard).await;
    }
}

fn unknown(bad: serde_json::Error) -> Failure {
    Failure::refused_here(
        "unexpected-answer",
        "The answer is none that this version knows",
        bad.to_string(),
        "compare ballast --version with the server's; --json shows the answers as they are",
    )
}
