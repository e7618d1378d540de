//! Which events of a history are on a page, decided purely, while a store
//! reads one entry after the other.

use super::limits::{HISTORY_MAX, HISTORY_PAGE_BYTES};
use super::shown::{HistoryPage, HistoryQuery};

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct Paging {
    newest_first: bool,
    limit: usize,
    /// The id of the last event there is.
    last: u64,
    /// The id of the event that comes next; none there is, at the end.
    next: u64,
    bytes: usize,
    page: HistoryPage,
}

impl Paging {
    /// Begins a page of a history that goes on with event `next_history_id`.
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

    /// The event to go on with; `None` when the page is full or there are no
    /// more.
    pub(super) fn next(&self) -> Option<u64> {
        let full = self.page.events.len() >= self.limit || self.bytes >= HISTORY_PAGE_BYTES;
        (self.is_there() && !full).then_some(self.next)
    }

    /// Takes what belongs on the page of an entry's events.
    pub(super) fn take(&mut self, first_history_id: u64, events: &[&str]) {
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

    /// The page.
    pub(super) fn finish(mut self) -> HistoryPage {
        self.page.more = self.is_there();
        self.page
    }

    fn is_there(&self) -> bool {
        (1..=self.last).contains(&self.next)
    }
}
