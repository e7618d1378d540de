//! Maintenance windows: when migrations may begin. Pure; in UTC.
//!
//! `daily 01:00-05:00`, `Sun 02:00-04:00`, `Mon-Fri 22:00-06:00`: the days are those on
//! which the window begins. A window whose end is before its start ends on the next day.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY_MINUTES: i64 = 24 * 60;
const WEEK_MINUTES: i64 = 7 * DAY_MINUTES;
/// 1970 began on a Thursday.
const EPOCH_DAY: i64 = 3;

/// A period that repeats every week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// The days on which it begins, Monday first.
    days: [bool; 7],
    /// The minute of the day at which it begins.
    from: i64,
    /// How many minutes it lasts.
    minutes: i64,
    text: String,
}

/// The error for a text that is not a maintenance window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a maintenance window: {why}; examples: \"daily 01:00-05:00\", \"Mon-Fri 22:00-06:00\" (UTC)"
)]
pub struct BadWindow {
    text: String,
    why: &'static str,
}

impl MaintenanceWindow {
    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.minutes_since_opening(now) < self.minutes
    }

    /// The seconds until it opens; 0 while it is open.
    #[must_use]
    pub fn opens_in_seconds(&self, now: Timestamp) -> u64 {
        if self.is_open(now) {
            return 0;
        }
        let now_s = now.unix_ms().div_euclid(1_000);
        let week_s = WEEK_MINUTES * 60;
        let at = (now_s + EPOCH_DAY * DAY_MINUTES * 60).rem_euclid(week_s);
        let waits = self
            .openings()
            .map(|minute| (minute * 60 - at).rem_euclid(week_s));
        waits.min().unwrap_or(week_s).unsigned_abs()
    }

    fn openings(&self) -> impl Iterator<Item = i64> {
        let days = self.days.iter().zip(0..).filter(|(open, _)| **open);
        days.map(|(_, day)| day * DAY_MINUTES + self.from)
    }

    fn minutes_since_opening(&self, now: Timestamp) -> i64 {
        let minute = now.unix_ms().div_euclid(60_000) + EPOCH_DAY * DAY_MINUTES;
        let since = self
            .openings()
            .map(|opening| (minute - opening).rem_euclid(WEEK_MINUTES));
        since.min().unwrap_or(WEEK_MINUTES)
    }
}

impl FromStr for MaintenanceWindow {
    type Err = BadWindow;

    fn from_str(text: &str) -> Result<Self, BadWindow> {
        let bad = |why| BadWindow {
            text: text.to_owned(),
            why,
        };
        let (days, hours) = text
            .trim()
            .split_once(' ')
            .ok_or_else(|| bad("the days or the hours are missing"))?;
        let days = parse_days(days).ok_or_else(|| bad("it has an invalid day"))?;
        let (from, until) = hours
            .trim()
            .split_once('-')
            .ok_or_else(|| bad("the end of the hours is missing"))?;
        let read = |text| parse_minute(text).ok_or_else(|| bad("it has an invalid time"));
        let (from, until) = (read(from)?, read(until)?);
        if from == until {
            return Err(bad("it ends when it begins"));
        }
        Ok(Self {
            days,
            from: from % DAY_MINUTES,
            minutes: (until - from).rem_euclid(DAY_MINUTES),
            text: text.trim().to_owned(),
        })
    }
}

fn parse_days(text: &str) -> Option<[bool; 7]> {
    if text.eq_ignore_ascii_case("daily") {
        return Some([true; 7]);
    }
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut days = [false; 7];
    for part in text.split(',') {
        match part.split_once('-') {
            None => days[day(part)?] = true,
            Some((first, last)) => {
                let (mut at, last) = (day(first)?, day(last)?);
                days[at] = true;
                while at != last {
                    at = (at + 1) % 7;
                    days[at] = true;
                }
            }
        }
    }
    Some(days)
}

fn parse_minute(text: &str) -> Option<i64> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let two = |text: &str| (text.len() == 2).then(|| text.parse::<u8>().ok())?;
    let (hours, minutes) = (i64::from(two(hours)?), i64::from(two(minutes)?));
    (hours <= 24 && minutes < 60 && hours * 60 + minutes <= DAY_MINUTES)
        .then_some(hours * 60 + minutes)
}

impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(text: &str) -> MaintenanceWindow {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_open_in_its_hours_only() {
        // A Monday.
        let cases = [
            ("daily 01:00-05:00", "2026-11-16T01:00:00Z", true),
            ("daily 01:00-05:00", "2026-11-16T05:00:00Z", false),
            ("Sun 02:00-04:00", "2026-11-16T03:00:00Z", false),
            ("Sun 02:00-04:00", "2026-11-15T03:59:59Z", true),
            ("Sun 22:00-06:00", "2026-11-16T05:59:00Z", true),
            ("Sun 22:00-06:00", "2026-11-16T06:00:00Z", false),
            ("Mon-Fri 22:00-24:00", "2026-11-16T23:59:00Z", true),
            ("Fri-Mon 00:00-01:00", "2026-11-16T00:30:00Z", true),
            ("Tue,Thu 00:00-01:00", "2026-11-16T00:30:00Z", false),
        ];
        for (text, moment, open) in cases {
            assert_eq!(window(text).is_open(at(moment)), open, "{text} at {moment}");
        }
    }

    #[test]
    fn it_says_when_it_opens() {
        let now = at("2026-11-16T06:00:00Z");
        assert_eq!(
            window("daily 01:00-05:00").opens_in_seconds(now),
            19 * 3_600
        );
        assert_eq!(window("Mon 06:00-07:00").opens_in_seconds(now), 0);
        assert_eq!(
            window("Mon 05:00-06:00").opens_in_seconds(now),
            7 * 86_400 - 3_600
        );
    }

    #[test]
    fn invalid_windows_are_refused() {
        for text in [
            "",
            "01:00-05:00",
            "daily 1:00-05:00",
            "daily 01:00",
            "Mo 01:00-02:00",
            "daily 25:00-26:00",
            "daily 01:60-02:00",
            "daily 02:00-02:00",
            "daily 24:01-02:00",
        ] {
            assert!(text.parse::<MaintenanceWindow>().is_err(), "{text}");
        }
    }
}
