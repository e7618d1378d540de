//! Timestamps: the subset of RFC 3339 that the specification allows.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Parses a timestamp: RFC 3339 with an upper-case `T` between date and time, and an
/// offset or an upper-case `Z` at the end.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    // The parser is more lenient than the specification: it accepts any separator,
    // and both letters in lower case.
    if text.as_bytes().get(10) != Some(&b'T') || text.ends_with('z') {
        return None;
    }
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_narrow_form_is_a_timestamp() {
        for good in [
            "2016-03-14T01:59:00Z",
            "2016-03-14T01:59:00.123456Z",
            "2020-01-01T15:00:00+06:00",
        ] {
            assert!(parse_timestamp(good).is_some(), "{good}");
        }
        for bad in [
            "2016-03-14t01:59:00Z",
            "2016-03-14T01:59:00z",
            "2016-03-14 01:59:00Z",
            "2016-03-14T01:59:00",
            "2016-03-14",
            "05-12-2016T21:29:29Z",
            "2016-12-05T25:29:29Z",
            "",
        ] {
            assert!(parse_timestamp(bad).is_none(), "{bad}");
        }
        assert_eq!(
            parse_timestamp("2020-01-01T15:00:00+01:00"),
            parse_timestamp("2020-01-01T14:00:00Z")
        );
    }
}
