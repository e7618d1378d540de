//! Messages that were sent to the execution.

use super::Holder;
use super::times::HandedOver;
use crate::core::{Event, TaskId};
use crate::engine::journal::Due;
use crate::engine::message::{Meaning, Message};
use crate::engine::{Progress, TaskProgress};
use crate::store;

impl Holder {
    pub(super) async fn fetch_mail(&mut self) {
        match self
            .shared
            .store
            .messages(std::slice::from_ref(&self.held.lease))
            .await
        {
            Ok(mail) => {
                for mail in mail {
                    self.open(mail.messages);
                }
            }
            Err(error) => {
                self.held.has_mail();
                self.shared.back_off(0, &error).await;
            }
        }
    }

    pub(super) fn open(&mut self, mail: Vec<store::Message>) {
        for message in mail {
            if message.number <= self.read {
                continue;
            }
            self.read = message.number;
            let meaning = match serde_json::from_str::<Message>(&message.body) {
                Ok(read) => read.meaning(&self.journal.execution),
                Err(error) => {
                    tracing::warn!(
                        execution = self.held.lease.id,
                        message = message.number,
                        error = &error as &(dyn std::error::Error + 'static),
                        "a message cannot be read and is left out"
                    );
                    Meaning::Nothing
                }
            };
            let event = self.meant(meaning);
            let message = message.number;
            self.due.push_back(Due { event, message });
        }
    }

    fn meant(&mut self, meaning: Meaning) -> Option<Event> {
        match meaning {
            Meaning::Event(event) => {
                if let Event::TaskSucceeded { task, .. } | Event::TaskFailed { task, .. } = &event {
                    self.stop(*task);
                }
                Some(event)
            }
            Meaning::Look(task) => {
                self.children.look_at(task);
                None
            }
            Meaning::Alive(task, progress) => {
                self.is_alive(task, progress);
                None
            }
            Meaning::Nothing => None,
        }
    }

    fn is_alive(&mut self, task: TaskId, progress: Progress) {
        let at_ms = self.shared.clock.now_ms();
        if let Some(HandedOver {
            heartbeat: Some((_, since)),
            ..
        }) = self.handed_over.get_mut(&task)
        {
            *since = at_ms;
        }
        if let Some(flight) = self.journal.execution.task(task) {
            self.held.tell(TaskProgress {
                task,
                state: flight.order.state.clone(),
                begun_at_ms: flight.ordered_at_ms,
                at_ms,
                per_second: None,
                progress,
            });
            self.shared.watched.changed(&self.held.lease.id);
        }
    }
}
