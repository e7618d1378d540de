//! What is due by itself: timers, tasks that take too long or are silent, and
//! looks at other executions.

use super::Holder;
use crate::core::{Effect, Event, Nested, TaskId};
use crate::engine::journal::Due;

/// A task that somebody else works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandedOver {
    ends_at_ms: Option<i64>,
    /// How long it may be silent, and since when it is.
    pub(super) heartbeat: Option<(i64, i64)>,
}

impl HandedOver {
    /// When it will have taken too long, and whether it will have been silent
    /// for too long.
    fn due(&self) -> Option<(i64, bool)> {
        let silence = self
            .heartbeat
            .map(|(length, since)| (since.saturating_add(length), true));
        let end = self.ends_at_ms.map(|end| (end, false));
        silence.into_iter().chain(end).min()
    }
}

impl Holder {
    /// Timers are set before a step is made, so that it knows whether it may
    /// park; they do nothing until then.
    pub(super) fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::SetTimer { timer, at_ms } => {
                    self.timers.insert(*timer, *at_ms);
                }
                Effect::StopTimer { timer } => {
                    self.timers.remove(timer);
                }
                Effect::StopTask { task } => {
                    self.handed_over.remove(task);
                }
                _ => {}
            }
        }
    }

    /// A task is somebody else's from now on. Its time runs from when it was
    /// ordered, in whoever's memory it is.
    pub(super) fn hand_over(&mut self, task: TaskId) {
        let Some(flight) = self.journal.execution.task(task) else {
            return;
        };
        let now = self.shared.clock.now_ms();
        let ends_at_ms = flight
            .order
            .timeout_ms
            .map(|length| flight.ordered_at_ms.saturating_add(length));
        let heartbeat = flight.order.heartbeat_ms.map(|length| (length, now));
        // What the engine itself waits for need not tell that it is alive.
        let heartbeat = heartbeat.filter(|_| Nested::of(&flight.order.resource).is_none());
        let handed = HandedOver {
            ends_at_ms,
            heartbeat,
        };
        self.handed_over.insert(task, handed);
    }

    /// When something will be due by itself.
    pub(super) fn next_time(&self) -> Option<i64> {
        let timers = self.timers.values().copied();
        let handed = self.handed_over.values();
        let handed = handed.filter_map(|task| Some(task.due()?.0));
        let looks = self.children.next_look();
        timers.chain(handed).chain(looks).min()
    }

    /// What the time brings.
    pub(super) fn times_come(&mut self, now: i64) {
        if self.next_time().is_none_or(|next| next > now) {
            return;
        }
        self.children.times_come(now);
        let mut come: Vec<(i64, Event)> = Vec::new();
        self.timers.retain(|timer, at_ms| {
            let is_due = *at_ms <= now;
            if is_due {
                come.push((*at_ms, Event::TimerFired { timer: *timer }));
            }
            !is_due
        });
        self.handed_over.retain(|task, handed| match handed.due() {
            Some((at_ms, heartbeat)) if at_ms <= now => {
                let task = *task;
                come.push((at_ms, Event::TaskTimedOut { task, heartbeat }));
                false
            }
            _ => true,
        });
        come.sort_by_key(|(at_ms, _)| *at_ms);
        let events = come.into_iter().map(|(_, event)| Due::event(event));
        self.due.extend(events);
    }
}
