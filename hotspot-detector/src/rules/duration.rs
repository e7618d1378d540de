//! Durations: CEL syntax in conditions, human syntax in settings.

/// Parses the syntax of CEL's `duration()`: `2s`, `1.5s`, `1h30m`, `250ms`. Returns
/// milliseconds.
pub(crate) fn cel_ms(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let ms = match &rest[..letters] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1_000.0,
            "ms" => 1.0,
            "us" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        sum += number * ms;
        rest = &rest[letters..];
    }
    Some(sum)
}

/// Parses `10m`, `1h 30m`, `2 days` into milliseconds.
pub(crate) fn human_ms(text: &str) -> Option<u64> {
    let duration = humantime::parse_duration(text.trim()).ok()?;
    u64::try_from(duration.as_millis()).ok()
}

/// Formats milliseconds: `10m`, `1h 30m`, `1.5s`, `250ms`.
#[must_use]
pub(crate) fn format_duration(ms: f64) -> String {
    if !ms.is_finite() || ms < 0.0 {
        return "?".to_owned();
    }
    if ms < 1.0 {
        return format!("{:.0}us", ms * 1_000.0);
    }
    if ms < 1_000.0 {
        return format!("{ms:.0}ms");
    }
    if ms < 60_000.0 {
        let seconds = (ms / 100.0).round() / 10.0;
        return format!("{seconds}s");
    }
    let seconds = (ms / 1_000.0).round() as u64;
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let said: Vec<_> = parts
        .iter()
        .skip_while(|(many, _)| *many == 0)
        .take(2)
        .filter(|(many, _)| *many > 0)
        .map(|(many, unit)| format!("{many}{unit}"))
        .collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, ms) in [
            ("2s", 2_000.0),
            ("1.5s", 1_500.0),
            ("1h30m", 5_400_000.0),
            ("250ms", 250.0),
        ] {
            assert_eq!(cel_ms(text), Some(ms), "{text}");
        }
        for text in ["", "2", "s", "2 s", "1x", "..s", "-2s"] {
            assert_eq!(cel_ms(text), None, "{text}");
        }
        assert_eq!(human_ms("1h 30m"), Some(5_400_000));
        let said: Vec<_> = [
            0.5,
            250.0,
            1_500.0,
            2_000.0,
            600_000.0,
            5_400_000.0,
            90_061_000.0,
        ]
        .map(format_duration)
        .into();
        assert_eq!(
            said,
            ["500us", "250ms", "1.5s", "2s", "10m", "1h 30m", "1d 1h"]
        );
    }
}
