//! Formatting of numbers, times and states.

use ballast_domain::Timestamp;
use ballast_domain::migration::MigrationStatus;
use maud::{Markup, html};

/// `1,234,567`.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 vote`, `1,234 votes`: a number with its noun.
pub(crate) fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(value))
}

/// `12.3 k`, for narrow places.
pub(crate) fn short(value: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let tenths = value / (unit / 10);
        match tenths {
            0..1_000 => format!("{}.{} {name}", tenths / 10, tenths % 10),
            _ => format!("{} {name}", tenths / 10),
        }
    };
    match value {
        0..10_000 => number(value),
        10_000..1_000_000 => scaled(1_000, "k"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "M"),
        _ => scaled(1_000_000_000, "G"),
    }
}

/// `3.4 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = value.saturating_mul(10);
    while scaled >= 10_240 && unit + 1 < UNITS.len() {
        scaled /= 1_024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    match (unit, scaled) {
        (0, _) => format!("{value} B"),
        (_, 0..100) => format!("{}.{} {name}", scaled / 10, scaled % 10),
        _ => format!("{} {name}", scaled / 10),
    }
}

/// `1 h 5 min`, from milliseconds.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{}.{} s", seconds, (ms % 1_000) / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A relative time such as `5 min ago`, with the timestamp as its title.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    let ms = now.unix_ms() - at.unix_ms();
    let text = match u64::try_from(ms) {
        Ok(ago) if ago < 1_500 => "just now".to_owned(),
        Ok(ago) => format!("{} ago", coarse(ago)),
        Err(_) => format!("in {}", coarse(ms.unsigned_abs())),
    };
    html! { time datetime=(at) title=(at) { (text) } }
}

/// A duration in one unit.
fn coarse(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        172_800..63_072_000 => format!("{} d", seconds / 86_400),
        _ => format!("{} years", seconds / 31_556_952),
    }
}

/// A coloured state badge.
pub(crate) fn badge(kind: &str, text: &str) -> Markup {
    html! { span class=(format!("badge {kind}")) { (text) } }
}

/// A migration's status badge.
pub(crate) fn status(status: MigrationStatus) -> Markup {
    let (kind, text) = match status {
        MigrationStatus::Running => ("info", "running"),
        MigrationStatus::Waiting => ("warn", "waiting"),
        MigrationStatus::Completed => ("good", "completed"),
        MigrationStatus::RolledBack => ("bad", "rolled back"),
        MigrationStatus::Reversed => ("warn", "reversed"),
        MigrationStatus::Cancelled => ("calm", "cancelled"),
        MigrationStatus::Failed => ("bad", "failed"),
    };
    badge(kind, text)
}

/// A meter bar. The width is an SVG attribute, because inline styles are forbidden by
/// the content security policy.
pub(crate) fn bar(part: u64, whole: u64, label: &str) -> Markup {
    let share = if whole == 0 {
        0.0
    } else {
        to_f64(part) / to_f64(whole)
    };
    let width = format!("{:.1}", (share * 100.0).clamp(0.0, 100.0));
    let class = match share {
        0.8.. => "fill bad",
        0.65.. => "fill warn",
        _ => "fill",
    };
    html! {
        svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect class="track" width="100" height="6" {}
            rect class=(class) width=(width) height="6" {}
        }
    }
}

/// A progress bar, without warning colours.
pub(crate) fn progress(part: u64, whole: u64, label: &str) -> Markup {
    let share = if whole == 0 {
        0.0
    } else {
        to_f64(part) / to_f64(whole)
    };
    let width = format!("{:.1}", (share * 100.0).clamp(0.0, 100.0));
    html! {
        svg class="meter tall" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect class="track" width="100" height="6" {}
            rect class="fill" width=(width) height="6" {}
        }
    }
}

/// A lossy conversion, precise enough for drawing.
#[allow(
    clippy::cast_precision_loss,
    reason = "drawing needs no full precision"
)]
pub(crate) fn to_f64(value: u64) -> f64 {
    value as f64
}

/// Rounds to a whole number; negative values become 0.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "drawing needs no fractions"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// A table that scrolls horizontally in narrow places.
pub(crate) fn listing(label: &str, head: &Markup, rows: &Markup) -> Markup {
    html! {
        div class="scroll" role="region" aria-label=(label) tabindex="0" {
            table {
                thead { tr { (head) } }
                tbody { (rows) }
            }
        }
    }
}

/// The note for an empty list.
pub(crate) fn nothing(title: &str, then: &Markup) -> Markup {
    html! {
        div class="empty" {
            p { strong { (title) } }
            div class="muted" { (then) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_shortened() {
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(short(9_999), "9,999");
        assert_eq!(short(12_345), "12.3 k");
        assert_eq!(short(123_456), "123 k");
        assert_eq!(short(4_560_000), "4.5 M");
        assert_eq!(short(u64::MAX), "18446744073 G");
    }

    #[test]
    fn sizes_and_spans_have_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(200 << 20), "200 MiB");
        assert_eq!(span(31), "31 ms");
        assert_eq!(span(1_250), "1.2 s");
        assert_eq!(span(61_000), "1 min 1 s");
        assert_eq!(span(3_700_000), "1 h 1 min");
    }

    #[test]
    fn moments_are_relative_to_now() {
        let at = |ms| Timestamp::from_unix_ms(ms);
        let relative = |from, now| moment(at(from), at(now)).into_string();
        assert!(relative(0, 0).contains("just now"));
        assert!(relative(0, 60_000).contains("1 min ago"));
        assert!(relative(60_000, 0).contains("in 1 min"));
        assert!(relative(2_275_948_800_000, 0).contains("in 72 years"));
    }

    #[test]
    fn texts_are_escaped() {
        let shown = badge("good", "<script>alert(1)</script>").into_string();
        assert!(!shown.contains("<script"), "{shown}");
    }
}
