//! The progress of a drain: how many tenants have moved away, and how long the shard
//! still holds copies.

use ballast_control_plane::drains::drain::DrainState;
use ballast_domain::Timestamp;
use maud::{Markup, html};

use crate::page::format::{number, progress, span};

/// The progress of a drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DrainProgress {
    /// Slices that the shard owned when the drain began.
    all: u64,
    /// Slices that it still owns.
    left: u64,
    /// Copies of moved slices that the shard still holds.
    copies: u64,
    /// When the last migration window ends.
    until: Option<Timestamp>,
}

impl DrainProgress {
    /// The drain's progress; `None` if no drain is running.
    pub(super) fn from_state(drain: &DrainState) -> Option<Self> {
        drain.execution_id.as_ref()?;
        Some(Self {
            all: drain.slices_at_start.unwrap_or(drain.slices_left),
            left: drain.slices_left,
            copies: drain.copies,
            until: drain.copies_until,
        })
    }

    pub(super) fn show(&self, now: Timestamp) -> Markup {
        let gone = self.all.saturating_sub(self.left);
        let percent = gone.saturating_mul(100).checked_div(self.all);
        let label = format!("{gone} of {} tenants moved", self.all);
        let ends_in = |until: Timestamp| {
            let left = until.unix_ms().saturating_sub(now.unix_ms());
            span(left.max(0).unsigned_abs())
        };
        html! {
            (progress(gone, self.all, &label))
            p class="small" {
                strong { (number(gone)) " of " (number(self.all)) " tenants moved"
                    @if let Some(percent) = percent { ", " (percent) " %" } }
                @if self.copies > 0 {
                    "; the shard keeps copies of " (number(self.copies)) " until their migration windows end"
                    @if let Some(until) = self.until { ", the last in " (ends_in(until)) }
                    ". It can be removed after that"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_share_moved_and_the_copies_kept() {
        let at = Timestamp::from_unix_ms;
        let drained = DrainProgress {
            all: 40,
            left: 28,
            copies: 9,
            until: Some(at(7_020_000)),
        };
        let shown = drained.show(at(0)).into_string();
        assert!(shown.contains("12 of 40 tenants moved, 30 %"), "{shown}");
        assert!(shown.contains("keeps copies of 9") && shown.contains("in 1 h 57 min"));
        let nothing = DrainProgress {
            all: 3,
            left: 3,
            ..DrainProgress::default()
        };
        assert!(nothing.show(at(0)).into_string().contains("0 of 3 tenants"));
    }
}
