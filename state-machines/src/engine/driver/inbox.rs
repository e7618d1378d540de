//! Reads messages from the execution's inbox.

use super::ExecutionDriver;
use super::timers::AwaitedCallback;
use crate::core::{ExecutionEvent, TaskId};
use crate::engine::journal::PendingEvent;
use crate::engine::message::{InboxMessage, MessageEffect};
use crate::engine::{ProgressReport, TaskProgress};
use crate::store;

impl ExecutionDriver {
    pub(super) async fn fetch_messages(&mut self) {
        match self
            .shared
            .store
            .unread_messages(std::slice::from_ref(&self.held.lease))
            .await
        {
            Ok(unread) => {
                for unread in unread {
                    self.read_messages(unread.messages);
                }
            }
            Err(error) => {
                self.held.notify_message();
                self.shared.back_off(0, &error).await;
            }
        }
    }

    pub(super) fn read_messages(&mut self, messages: Vec<store::StoredMessage>) {
        for message in messages {
            if message.number <= self.messages_read {
                continue;
            }
            self.messages_read = message.number;
            let effect = match serde_json::from_str::<InboxMessage>(&message.body) {
                Ok(read) => read.into_effect(&self.journal.execution),
                Err(error) => {
                    tracing::warn!(
                        execution = self.held.lease.id,
                        message = message.number,
                        error = &error as &(dyn std::error::Error + 'static),
                        "ignoring a message that cannot be parsed"
                    );
                    MessageEffect::Ignore
                }
            };
            let event = self.apply_message(effect);
            let message = message.number;
            self.due.push_back(PendingEvent { event, message });
        }
    }

    fn apply_message(&mut self, effect: MessageEffect) -> Option<ExecutionEvent> {
        match effect {
            MessageEffect::Event(event) => {
                if let ExecutionEvent::TaskSucceeded { task, .. }
                | ExecutionEvent::TaskFailed { task, .. } = &event
                {
                    self.stop_task(*task);
                }
                Some(event)
            }
            MessageEffect::CheckChild(task) => {
                self.children.mark_for_check(task);
                None
            }
            MessageEffect::Heartbeat(task, progress) => {
                self.record_heartbeat(task, progress);
                None
            }
            MessageEffect::Ignore => None,
        }
    }

    fn record_heartbeat(&mut self, task: TaskId, progress: ProgressReport) {
        let at_ms = self.shared.clock.now_ms();
        if let Some(AwaitedCallback {
            heartbeat: Some((_, since)),
            ..
        }) = self.callbacks.get_mut(&task)
        {
            *since = at_ms;
        }
        if let Some(flight) = self.journal.execution.task(task) {
            self.held.record_progress(TaskProgress {
                task,
                state: flight.order.state.clone(),
                begun_at_ms: flight.ordered_at_ms,
                at_ms,
                per_second: None,
                progress,
            });
            self.shared.change_notifier.notify(&self.held.lease.id);
        }
    }
}
