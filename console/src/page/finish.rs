//! When migrations would be over, with each cause of the time by itself.

use ballast_control_plane::migrations::finish::FinishEstimate;
use ballast_domain::Timestamp;
use maud::{Markup, html};

use super::format::{counted, moment, span};

/// When migrations would be over; nothing if none would begin.
pub(crate) fn finish_estimate(finish: &FinishEstimate, now: Timestamp) -> Markup {
    let Some((cutover, ends)) = finish.cutover_at.zip(finish.ends_at) else {
        return html! {};
    };
    let at_least = if finish.approvals > 0 {
        "not before "
    } else {
        ""
    };
    html! {
        p class="small" {
            "Moved by " (at_least) (moment(cutover, now)) ", over by " (at_least) (moment(ends, now)) ": "
            (span(finish.copying_ms)) " of copying"
            @if finish.at_once > 1 { ", " (finish.at_once) " at a time" }
            @if finish.maintenance_wait_ms > 0 {
                "; " (span(finish.maintenance_wait_ms)) " of waiting for maintenance windows"
                @if let Some(window) = &finish.maintenance { " (" (window) " UTC)" }
            }
            @if finish.windows_wait_ms > 0 {
                "; " (span(finish.windows_wait_ms)) " of waiting for migration windows to end"
            }
            "; a migration window of " (span(finish.window_ms))
            @if finish.approvals > 0 {
                "; and " (counted(finish.approvals, "approval")) " first, which may take any time"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_of_the_time_is_named() {
        let at = |ms| Some(Timestamp::from_unix_ms(ms));
        let mut finish = FinishEstimate {
            copying_ms: 5_000,
            at_once: 4,
            window_ms: 7_200_000,
            maintenance_wait_ms: 3_600_000,
            maintenance: Some("Sun 02:00-04:00".to_owned()),
            cutover_at: at(3_605_000),
            ends_at: at(10_805_000),
            ..FinishEstimate::default()
        };
        let show = |finish: &FinishEstimate| {
            finish_estimate(finish, Timestamp::from_unix_ms(0)).into_string()
        };
        let shown = show(&finish);
        for part in ["4 at a time", "Sun 02:00-04:00 UTC", "window of 2 h"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(!shown.contains("not before"), "{shown}");
        finish.approvals = 1;
        let shown = show(&finish);
        assert!(
            shown.contains("not before") && shown.contains("1 approval"),
            "{shown}"
        );
        assert_eq!(show(&FinishEstimate::default()), "");
    }
}
