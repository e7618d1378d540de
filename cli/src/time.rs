//! Parses and formats times for people. The current time is a parameter.

use std::str::FromStr;
use std::time::Duration;

use ballast_domain::Timestamp;

/// A time argument: a time, or a distance from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArg {
    /// A time.
    At(Timestamp),
    /// A distance from now.
    Off(Duration),
}

impl TimeArg {
    /// The time, with a distance in the past.
    pub(crate) fn past(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Off(distance) => shift(now, distance, -1),
        }
    }

    /// The time, with a distance in the future.
    pub(crate) fn future(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Off(distance) => shift(now, distance, 1),
        }
    }
}

fn shift(now: Timestamp, distance: Duration, sign: i64) -> Timestamp {
    let ms = i64::try_from(distance.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms.saturating_mul(sign)))
}

impl FromStr for TimeArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "now" {
            return Ok(Self::Off(Duration::ZERO));
        }
        if let Ok(moment) = text.parse() {
            return Ok(Self::At(moment));
        }
        // A date means its start.
        if text.len() == 10
            && let Ok(moment) = format!("{text}T00:00:00Z").parse()
        {
            return Ok(Self::At(moment));
        }
        let distance = text.strip_suffix("ago").unwrap_or(text).trim();
        humantime::parse_duration(distance)
            .map(Self::Off)
            .map_err(|_| {
                "expected a time such as 2026-11-16T09:30:00Z, 2026-11-16, 30d or 2h".to_owned()
            })
    }
}

/// A duration such as `50ms` or `24h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a duration such as 50ms, 90s, 24h or 7d; 0s means none".to_owned())
}

/// Whole seconds of a duration such as `24h`.
pub(crate) fn parse_seconds(text: &str) -> Result<i64, String> {
    parse_duration(text)
        .and_then(|duration| i64::try_from(duration.as_secs()).map_err(|bad| bad.to_string()))
}

/// `3 min ago`, `in 2 days`: the distance of a time from now.
pub(crate) fn format_relative(moment: Timestamp, now: Timestamp) -> String {
    let seconds = (now.unix_ms() - moment.unix_ms()) / 1_000;
    let distance = seconds.unsigned_abs();
    let (count, unit) = match distance {
        0..5 => return "just now".to_owned(),
        5..60 => (distance, "s"),
        60..3_600 => (distance / 60, "min"),
        3_600..172_800 => (distance / 3_600, "h"),
        172_800..5_184_000 => (distance / 86_400, "days"),
        5_184_000..63_072_000 => (distance / 2_592_000, "months"),
        _ => (distance / 31_536_000, "years"),
    };
    if seconds >= 0 {
        format!("{count} {unit} ago")
    } else {
        format!("in {count} {unit}")
    }
}

/// `2 min 13 s`: a duration in its two largest units.
pub(crate) fn format_duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {:02} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {:02} min", minutes % 60),
        _ if days == 1 => format!("1 day {} h", hours % 24),
        _ => format!("{days} days {} h", hours % 24),
    }
}

/// `09:30:00 UTC`, with the date unless it is today.
pub(crate) fn format_clock(moment: Timestamp, now: Timestamp) -> String {
    let (formatted, today) = (format_exact(moment), format_exact(now));
    match (formatted.split_once(' '), today.split_once(' ')) {
        (Some((day, time)), Some((other, _))) if day == other => time.to_owned(),
        _ => formatted,
    }
}

/// `2026-11-16 09:30:00 UTC`.
pub(crate) fn format_exact(moment: Timestamp) -> String {
    let text = moment.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..8).unwrap_or(time)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

    #[test]
    fn moments_are_read_as_people_type_them() {
        let hours_ago = Timestamp::from_unix_ms(NOW.unix_ms() - 7_200_000);
        for text in ["2h", "2h ago", " 2 hours ago ", "120min"] {
            let when: TimeArg = text.parse().unwrap();
            assert_eq!(when.past(NOW), hours_ago, "{text}");
        }
        assert_eq!("now".parse::<TimeArg>().unwrap().past(NOW), NOW);
        let day: TimeArg = "2026-11-16".parse().unwrap();
        assert_eq!(day.future(NOW).to_string(), "2026-11-16T00:00:00.000Z");
        let month: TimeArg = "30d".parse().unwrap();
        assert_eq!(month.future(NOW), NOW.plus_seconds(30 * 86_400));
        for bad in ["", "yesterday", "2026-13-01", "2 parsecs"] {
            assert!(bad.parse::<TimeArg>().is_err(), "{bad}");
        }
    }

    #[test]
    fn distances_are_told_in_one_unit() {
        let formatted = |seconds| format_relative(NOW.plus_seconds(seconds), NOW);
        assert_eq!(formatted(-2), "just now");
        assert_eq!(formatted(-200), "3 min ago");
        assert_eq!(formatted(-90_000), "25 h ago");
        assert_eq!(formatted(86_400 * 30), "in 30 days");
        assert_eq!(formatted(-86_400 * 800), "2 years ago");
    }

    #[test]
    fn spans_are_told_in_two_units() {
        let formatted =
            [0, 12_900, 133_000, 3_600_000, 90_061_000, 200_000_000].map(format_duration);
        let words = [
            "0 s",
            "12 s",
            "2 min 13 s",
            "1 h 00 min",
            "1 day 1 h",
            "2 days 7 h",
        ];
        assert_eq!(formatted, words);
        assert_eq!(format_duration(-5), "0 s", "clocks differ");
        assert_eq!(format_clock(NOW, NOW), format_exact(NOW)[11..]);
        assert_eq!(
            format_clock(NOW.plus_seconds(86_400), NOW).len(),
            format_exact(NOW).len()
        );
    }

    #[test]
    fn an_overlap_is_a_duration() {
        assert_eq!(parse_seconds("24h"), Ok(86_400));
        assert_eq!(parse_seconds("0s"), Ok(0));
        for bad in ["soon", "", "5", "-5s", "1 parsec", "99999999999999999999s"] {
            let why = parse_seconds(bad).unwrap_err();
            assert!(why.contains("such as 50ms"), "{bad}: {why}");
        }
    }
}
