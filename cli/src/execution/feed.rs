//! What is heard of an execution: each change as it comes, for as long as it
//! runs. A connection that is lost is made again.

use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::body::{Execution, HistoryEvent};
use super::history_after;
use crate::client::Client;
use crate::failure::Failure;
use crate::listen::{Listening, unknown};

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
        let listening = Listening {
            client: self.client,
            path: &["executions", self.id, "watch"],
            patience: self.patience,
            met: self.met,
        };
        let mut last = 0;
        let sent = async |sent: crate::sse::Sent| {
            if sent.event != "execution" && sent.event != "end" {
                return Ok(false);
            }
            let execution: Execution = serde_json::from_str(&sent.data).map_err(unknown)?;
            let length = execution.history_length;
            let events = if self.history && length > last {
                history_after(self.client, self.id, last, length).await?
            } else {
                Vec::new()
            };
            last = events.last().map_or(last, |event| event.id);
            let seen = Seen {
                execution,
                document: sent.data,
                events,
            };
            self.tell(Heard::Seen(Box::new(seen))).await;
            Ok(sent.event == "end")
        };
        let lost = async |failure| self.tell(Heard::Lost(failure)).await;
        listening.run(sent, lost).await
    }

    async fn tell(&self, heard: Heard) {
        // Who listens no more has stopped us already.
        let _ = self.listener.send(heard).await;
    }
}
