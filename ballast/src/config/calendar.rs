//! `[calendar]`: how Ballast prepares for polls that expect many voters.

use std::time::Duration;

use ballast_control_plane::calendar::CalendarSettings;
use ballast_hotspot_detector::forecast::PollReadiness;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

/// Before a rush, plan for this share of a lane's capacity.
const LANE_SHARE: f64 = 0.5;

/// How Ballast prepares for polls that expect many voters: it adds lanes before they open, and does
/// not move their tenants during a rush.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Calendar {
    /// Polls that expect fewer voters need no preparation.
    #[schemars(range(min = 1))]
    pub(crate) audience_min: u64,
    /// How long before the opening lanes are added and migrations must end.
    pub(crate) lead: HumanDuration,
    /// Length of the rush at the opening and before the closing.
    pub(crate) rush: HumanDuration,
    /// Share of the voters that votes in one rush.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) rush_share: f64,
    /// How long after the closing migrations resume.
    pub(crate) rest: HumanDuration,
}

impl Default for Calendar {
    fn default() -> Self {
        let CalendarSettings {
            audience_min,
            ready,
        } = CalendarSettings::default();
        let human = |seconds: i64| HumanDuration(Duration::from_secs(seconds.unsigned_abs()));
        Self {
            audience_min,
            lead: human(ready.lead_seconds),
            rush: human(ready.rush_seconds),
            rush_share: ready.rush_share,
            rest: human(ready.rest_seconds),
        }
    }
}

impl Calendar {
    /// Converts to the control plane's settings.
    pub(crate) fn settings(&self, lane_votes_max: f64) -> CalendarSettings {
        let seconds = |human: HumanDuration| i64::try_from(human.0.as_secs()).unwrap_or(i64::MAX);
        CalendarSettings {
            audience_min: self.audience_min,
            ready: PollReadiness {
                rush_share: self.rush_share,
                rush_seconds: seconds(self.rush),
                votes_per_lane: lane_votes_max * LANE_SHARE,
                lead_seconds: seconds(self.lead),
                rest_seconds: seconds(self.rest),
            },
        }
    }

    /// The first invalid value, with its key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.audience_min == 0 {
            return Err(("calendar.audience_min", "must be at least 1".to_owned()));
        }
        if !(0.01..=1.0).contains(&self.rush_share) {
            let message = "must be a share of the voters, from 0.01 to 1".to_owned();
            return Err(("calendar.rush_share", message));
        }
        let week = Duration::from_secs(7 * 86_400);
        for (key, time, least) in [
            ("calendar.lead", self.lead, Duration::ZERO),
            ("calendar.rush", self.rush, Duration::from_secs(1)),
            ("calendar.rest", self.rest, Duration::ZERO),
        ] {
            if !(least..=week).contains(&time.0) {
                let least = humantime::format_duration(least);
                return Err((key, format!("must be from {least} to a week")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_holds_and_what_cannot_be_is_named() {
        let usual = Calendar::default().settings(1_000.0);
        assert_eq!(usual, CalendarSettings::default());
        let wrong = |text: &str| {
            let set: Calendar = toml::from_str(text).unwrap();
            set.check().err().map(|(key, _)| key)
        };
        assert_eq!(wrong("lead = \"0s\""), None);
        for (text, key) in [
            ("audience_min = 0", "calendar.audience_min"),
            ("rush_share = 2.0", "calendar.rush_share"),
            ("rush = \"0s\"", "calendar.rush"),
            ("lead = \"8d\"", "calendar.lead"),
        ] {
            assert_eq!(wrong(text), Some(key), "{text}");
        }
    }
}
