//! Renders when migrations would be over.

use ballast_domain::Timestamp;
use serde::Deserialize;

use super::certificate::format_milliseconds;
use crate::output::Screen;
use crate::table::{count_noun, moment_long, sanitize};

/// When migrations would be over.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FinishBody {
    copying_ms: u64,
    at_once: u64,
    window_ms: u64,
    windows_wait_ms: u64,
    maintenance_wait_ms: u64,
    maintenance: Option<String>,
    approvals: u64,
    cutover_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

impl FinishBody {
    /// When all of it is over, with each cause of the time by itself; `None` if nothing
    /// would move.
    pub(crate) fn describe(&self, screen: &Screen) -> Option<String> {
        let (cutover, ends) = self.cutover_at.zip(self.ends_at)?;
        let mut parts = vec![match self.at_once {
            1 => format!("copying {}", format_milliseconds(self.copying_ms)),
            more => format!(
                "copying {}, {more} at a time",
                format_milliseconds(self.copying_ms)
            ),
        }];
        if self.maintenance_wait_ms > 0 {
            let window = self.maintenance.as_deref().map(sanitize);
            let window = window.map_or_else(String::new, |window| format!(" ({window} UTC)"));
            parts.push(format!(
                "waiting {} for maintenance windows{window}, unless started with --now",
                format_milliseconds(self.maintenance_wait_ms)
            ));
        }
        if self.windows_wait_ms > 0 {
            parts.push(format!(
                "waiting {} for windows to end (moves.windows_max)",
                format_milliseconds(self.windows_wait_ms)
            ));
        }
        parts.push(format!(
            "a window of {}",
            format_milliseconds(self.window_ms)
        ));
        let at_least = match self.approvals {
            0 => "",
            waiting => {
                let waiting = count_noun(waiting, "approval");
                parts.push(format!("and {waiting} first, which may take any time"));
                "not before "
            }
        };
        Some(format!(
            "moved by {at_least}{}, all is done by {at_least}{}: {}",
            moment_long(screen, cutover),
            moment_long(screen, ends),
            parts.join("; ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cause_of_the_time_is_named() {
        let finish = |body| serde_json::from_value::<FinishBody>(body).unwrap();
        let screen = Screen::plain();
        assert_eq!(finish(json!({})).describe(&screen), None);
        let all = finish(json!({"copyingMs": 204, "atOnce": 4, "windowMs": 7_200_000,
            "windowsWaitMs": 60_000, "maintenanceWaitMs": 489_600_000,
            "maintenance": "Sun 02:00-04:00", "approvals": 1,
            "cutoverAt": "2026-11-22T02:00:00.204Z", "endsAt": "2026-11-22T04:00:00.204Z"}));
        insta::assert_snapshot!(all.describe(&screen).unwrap());
    }
}
