//! What becomes due by time: timers, timeouts, missed heartbeats, and checks of
//! other executions.

use super::ExecutionDriver;
use crate::core::{Effect, ExecutionEvent, NestedStart, TaskId};
use crate::engine::journal::PendingEvent;

/// A task that waits for a callback.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedCallback {
    ends_at_ms: Option<i64>,
    /// The heartbeat timeout, and when the last heartbeat came.
    pub(super) heartbeat: Option<(i64, i64)>,
}

impl AwaitedCallback {
    /// When the task times out next, and whether by a missed heartbeat.
    fn next_timeout(&self) -> Option<(i64, bool)> {
        let silence = self
            .heartbeat
            .map(|(length, since)| (since.saturating_add(length), true));
        let end = self.ends_at_ms.map(|end| (end, false));
        silence.into_iter().chain(end).min()
    }
}

impl ExecutionDriver {
    /// Updates the timers from effects. This happens before the append, so that the
    /// step knows whether it may park.
    pub(super) fn track_timers(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::SetTimer { timer, at_ms } => {
                    self.timers.insert(*timer, *at_ms);
                }
                Effect::StopTimer { timer } => {
                    self.timers.remove(timer);
                }
                Effect::StopTask { task } => {
                    self.callbacks.remove(task);
                }
                _ => {}
            }
        }
    }

    /// Starts to wait for a task's callback. Its timeout counts from its order,
    /// which an earlier worker may have made durable.
    pub(super) fn await_callback(&mut self, task: TaskId) {
        let Some(flight) = self.journal.execution.task(task) else {
            return;
        };
        let now = self.shared.clock.now_ms();
        let ends_at_ms = flight
            .order
            .timeout_ms
            .map(|length| flight.ordered_at_ms.saturating_add(length));
        let heartbeat = flight.order.heartbeat_ms.map(|length| (length, now));
        // Child executions send no heartbeats.
        let heartbeat =
            heartbeat.filter(|_| NestedStart::from_resource(&flight.order.resource).is_none());
        let handed = AwaitedCallback {
            ends_at_ms,
            heartbeat,
        };
        self.callbacks.insert(task, handed);
    }

    /// When the next timer, timeout or check is due.
    pub(super) fn next_time(&self) -> Option<i64> {
        let timers = self.timers.values().copied();
        let handed = self.callbacks.values();
        let handed = handed.filter_map(|task| Some(task.next_timeout()?.0));
        let looks = self.children.next_check();
        timers.chain(handed).chain(looks).min()
    }

    /// Turns expired timers and timeouts into events, in order of their time.
    pub(super) fn collect_due(&mut self, now: i64) {
        if self.next_time().is_none_or(|next| next > now) {
            return;
        }
        self.children.collect_due(now);
        let mut come: Vec<(i64, ExecutionEvent)> = Vec::new();
        self.timers.retain(|timer, at_ms| {
            let is_due = *at_ms <= now;
            if is_due {
                come.push((*at_ms, ExecutionEvent::TimerFired { timer: *timer }));
            }
            !is_due
        });
        self.callbacks
            .retain(|task, handed| match handed.next_timeout() {
                Some((at_ms, heartbeat)) if at_ms <= now => {
                    let task = *task;
                    come.push((at_ms, ExecutionEvent::TaskTimedOut { task, heartbeat }));
                    false
                }
                _ => true,
            });
        come.sort_by_key(|(at_ms, _)| *at_ms);
        let events = come
            .into_iter()
            .map(|(_, event)| PendingEvent::from_event(event));
        self.due.extend(events);
    }
}
