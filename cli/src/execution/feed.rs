//! Streams the changes of an execution until it ends; reconnects when the connection is lost.

use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::body::{Execution, HistoryEvent};
use super::fetch_history_after;
use crate::client::Client;
use crate::failure::CliError;
use crate::listen::{EventListener, unreadable_event};

/// An update from the stream.
#[derive(Debug)]
pub(super) enum FeedEvent {
    /// The execution changed.
    Changed(Box<ExecutionSnapshot>),
    /// The connection is lost; the feed reconnects.
    Disconnected(CliError),
}

/// The state of an execution, and the events since the last snapshot.
#[derive(Debug)]
pub(super) struct ExecutionSnapshot {
    pub(super) execution: Execution,
    /// The API's own document.
    pub(super) document: String,
    /// New events, in order.
    pub(super) events: Vec<HistoryEvent>,
}

/// Which execution to stream, and how.
pub(super) struct ExecutionFeed<'a> {
    pub(super) client: &'a Client,
    pub(super) id: &'a str,
    /// Whether to fetch the history too.
    pub(super) history: bool,
    pub(super) patience: Duration,
    /// Whether the server was reachable a moment ago.
    pub(super) was_reachable: bool,
    pub(super) listener: Sender<FeedEvent>,
}

impl ExecutionFeed<'_> {
    /// Listens until the execution has ended.
    pub(super) async fn run(self) -> Result<(), CliError> {
        let listening = EventListener {
            client: self.client,
            path: &["executions", self.id, "watch"],
            patience: self.patience,
            was_reachable: self.was_reachable,
        };
        let mut last = 0;
        let sent = async |sent: crate::sse::ServerEvent| {
            if sent.event != "execution" && sent.event != "end" {
                return Ok(false);
            }
            let execution: Execution =
                serde_json::from_str(&sent.data).map_err(unreadable_event)?;
            let length = execution.history_length;
            let events = if self.history && length > last {
                fetch_history_after(self.client, self.id, last, length).await?
            } else {
                Vec::new()
            };
            last = events.last().map_or(last, |event| event.id);
            let snapshot = ExecutionSnapshot {
                execution,
                document: sent.data,
                events,
            };
            self.publish(FeedEvent::Changed(Box::new(snapshot))).await;
            Ok(sent.event == "end")
        };
        let lost = async |failure| self.publish(FeedEvent::Disconnected(failure)).await;
        listening.run(sent, lost).await
    }

    async fn publish(&self, event: FeedEvent) {
        // If the receiver is gone, this task is being dropped too.
        let _ = self.listener.send(event).await;
    }
}
