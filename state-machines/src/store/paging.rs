//! Builds a page of a history while a store reads entry after entry. Pure.

use super::limits::{HISTORY_MAX, HISTORY_PAGE_BYTES};
use super::query::{HistoryPage, HistoryQuery};

/// A page under construction.
#[derive(Debug)]
pub(super) struct HistoryPageBuilder {
    newest_first: bool,
    limit: usize,
    /// The id of the history's last event.
    last: u64,
    /// The id of the next event; outside of `1..=last` at the end.
    next: u64,
    bytes: usize,
    page: HistoryPage,
}

impl HistoryPageBuilder {
    /// Starts a page of a history whose next event will be `next_history_id`.
    pub(super) fn new(query: &HistoryQuery, next_history_id: u64) -> Self {
        let last = next_history_id - 1;
        let next = match (query.newest_first, query.after) {
            (false, after) => after.unwrap_or(0).saturating_add(1),
            (true, None) => last,
            (true, Some(after)) => last.min(after.saturating_sub(1)),
        };
        Self {
            newest_first: query.newest_first,
            limit: query.limit.clamp(1, HISTORY_MAX),
            last,
            next,
            bytes: 0,
            page: HistoryPage {
                events: Vec::new(),
                last_id: query.after,
                more: false,
            },
        }
    }

    /// The id of the next event to add; `None` when the page is full or the history
    /// ends.
    pub(super) fn next(&self) -> Option<u64> {
        let full = self.page.events.len() >= self.limit || self.bytes >= HISTORY_PAGE_BYTES;
        (self.has_next() && !full).then_some(self.next)
    }

    /// Adds those of an entry's events that belong on the page.
    pub(super) fn add_events(&mut self, first_history_id: u64, events: &[&str]) {
        while let Some(id) = self.next()
            && let Some(place) = id.checked_sub(first_history_id)
            && let Some(event) = events.get(place as usize)
        {
            self.bytes += event.len();
            self.page.events.push((*event).to_owned());
            self.page.last_id = Some(id);
            self.next = if self.newest_first { id - 1 } else { id + 1 };
        }
    }

    /// The finished page.
    pub(super) fn finish(mut self) -> HistoryPage {
        self.page.more = self.has_next();
        self.page
    }

    fn has_next(&self) -> bool {
        (1..=self.last).contains(&self.next)
    }
}
