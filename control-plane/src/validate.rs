//! Checks of request fields; errors carry the field's pointer and the reason.

use ballast_domain::bounds::{
    CONCURRENT_QUERIES_MAX, EXPIRES_IN_SECONDS_MAX, NAME_CHARS_MAX, ORIGIN_CHARS_MAX, ORIGINS_MAX,
    RETENTION_DAYS_MAX, SECONDARY_REGIONS_MAX, SLICES_PER_SHARD_MAX, VOTES_PER_SECOND_MAX,
    WEIGHT_MAX, WEIGHT_MIN, ZONES_MAX,
};
use ballast_domain::error::suggest_nearest;
use ballast_domain::limits::TenantLimits;
use ballast_domain::residency::Residency;
use ballast_domain::{Error, ErrorCode, RegionId, Result, Timestamp, ZoneId};

use crate::fleet::VersionedFleet;

/// Text for people: not empty, not too long, no control characters.
pub fn text(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    if value.trim().is_empty() {
        Err(Error::invalid_field(pointer, "it is empty"))
    } else if value.chars().count() > chars_max {
        Err(Error::invalid_field(
            pointer,
            format!("it is longer than {chars_max} characters"),
        ))
    } else if value.chars().any(is_unprintable) {
        Err(Error::invalid_field(
            pointer,
            "it contains control characters",
        ))
    } else {
        Ok(())
    }
}

/// Control characters, bidirectional overrides and invisible characters.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text for programs: any characters, but not too long.
pub fn length(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    if value.chars().count() > chars_max {
        let message = format!("it is longer than {chars_max} characters");
        return Err(Error::invalid_field(pointer, message));
    }
    Ok(())
}

/// A display name.
pub fn name(pointer: &str, value: &str) -> Result<()> {
    text(pointer, value, NAME_CHARS_MAX)
}

/// A capacity weight.
pub fn weight(pointer: &str, value: f64) -> Result<()> {
    if value.is_finite() && (WEIGHT_MIN..=WEIGHT_MAX).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid_field(
            pointer,
            format!("{value} is not a weight: use a number from {WEIGHT_MIN} to {WEIGHT_MAX}"),
        ))
    }
}

/// A number in `1..=max`.
pub fn count(pointer: &str, value: u64, max: u64) -> Result<()> {
    if (1..=max).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid_field(
            pointer,
            format!("{value} is not from 1 to {max}"),
        ))
    }
}

/// A density limit.
pub fn max_slices(pointer: &str, value: u64) -> Result<()> {
    count(pointer, value, SLICES_PER_SHARD_MAX)
}

/// A tenant's limits.
pub fn limits(limits: &TenantLimits) -> Result<()> {
    let checks = [
        (
            "/limits/votesPerSecond",
            limits.votes_per_second,
            VOTES_PER_SECOND_MAX,
        ),
        (
            "/limits/concurrentQueries",
            limits.concurrent_queries,
            CONCURRENT_QUERIES_MAX,
        ),
        (
            "/limits/retentionDays",
            limits.retention_days,
            RETENTION_DAYS_MAX,
        ),
    ];
    checks
        .into_iter()
        .filter_map(|(pointer, value, max)| value.map(|value| (pointer, value, max)))
        .try_for_each(|(pointer, value, max)| count(pointer, value, max))
}

/// A list without duplicates and not too long.
pub fn distinct<T: PartialEq + std::fmt::Display>(
    pointer: &str,
    list: &[T],
    max: usize,
) -> Result<()> {
    if list.len() > max {
        return Err(Error::invalid_field(
            pointer,
            format!("it has more than {max} entries"),
        ));
    }
    for (place, value) in list.iter().enumerate() {
        if list[..place].contains(value) {
            return Err(Error::invalid_field(
                &format!("{pointer}/{place}"),
                format!("{value} is listed twice"),
            ));
        }
    }
    Ok(())
}

/// Browser origins: `*`, or `scheme://host[:port]` without a path.
pub fn origins(origins: &[String]) -> Result<()> {
    distinct("/corsOrigins", origins, ORIGINS_MAX)?;
    for (place, origin) in origins.iter().enumerate() {
        if !is_origin(origin) {
            return Err(Error::invalid_field(
                &format!("/corsOrigins/{place}"),
                format!(
                    "{origin:?} is not an origin: write https://vote.example.com, or * for all"
                ),
            ));
        }
    }
    Ok(())
}

fn is_origin(origin: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    origin == "*"
        || (origin.len() <= ORIGIN_CHARS_MAX
            && ["https://", "http://"]
                .iter()
                .find_map(|scheme| origin.strip_prefix(scheme))
                .is_some_and(|host| !host.is_empty() && host.chars().all(plain)))
}

/// A region that contains at least one shard.
pub fn known_region(pointer: &str, region: &RegionId, fleet: &VersionedFleet) -> Result<()> {
    let regions = fleet.regions();
    if regions.contains(region) {
        return Ok(());
    }
    let near = suggest_nearest(region.as_str(), regions.iter().map(RegionId::as_str));
    let message = format!("there is no shard in region {:?}{near}", region.as_str());
    Err(Error::new(ErrorCode::UnknownRegion, message.clone()).with_field(pointer, message))
}

/// Zones that at least one shard carries each.
pub fn known_zones(pointer: &str, zones: &[ZoneId], fleet: &VersionedFleet) -> Result<()> {
    distinct(pointer, zones, ZONES_MAX)?;
    let known = fleet.zones();
    for (place, zone) in zones.iter().enumerate() {
        if !known.contains(zone) {
            let near = suggest_nearest(zone.as_str(), known.iter().map(ZoneId::as_str));
            let message = format!("no shard has zone {:?}{near}", zone.as_str());
            return Err(Error::new(ErrorCode::UnknownZone, message.clone())
                .with_field(&format!("{pointer}/{place}"), message));
        }
    }
    Ok(())
}

/// A residency policy whose regions are known and distinct.
pub fn residency(residency: &Residency, home: &RegionId, fleet: &VersionedFleet) -> Result<()> {
    let pointer = "/residency/secondaryRegions";
    let secondaries = residency.secondary_regions();
    distinct(pointer, secondaries, SECONDARY_REGIONS_MAX)?;
    for (place, region) in secondaries.iter().enumerate() {
        let pointer = format!("{pointer}/{place}");
        if region == home {
            return Err(Error::invalid_field(
                &pointer,
                "it is the home region itself",
            ));
        }
        known_region(&pointer, region, fleet)?;
    }
    Ok(())
}

/// An expiry time, given as a moment or as a number of seconds from now.
pub fn expiry(
    at: Option<Timestamp>,
    in_seconds: Option<i64>,
    now: Timestamp,
) -> Result<Option<Timestamp>> {
    match (at, in_seconds) {
        (Some(_), Some(_)) => Err(Error::invalid_field(
            "/expiresInSeconds",
            "give it or expiresAt, not both",
        )),
        (Some(moment), None) => future("/expiresAt", moment, now).map(|()| Some(moment)),
        (None, Some(seconds)) if (1..=EXPIRES_IN_SECONDS_MAX).contains(&seconds) => {
            Ok(Some(now.plus_seconds(seconds)))
        }
        (None, Some(seconds)) => Err(Error::invalid_field(
            "/expiresInSeconds",
            format!("{seconds} is not from 1 to {EXPIRES_IN_SECONDS_MAX} (100 years)"),
        )),
        (None, None) => Ok(None),
    }
}

/// A moment in the future.
pub fn future(pointer: &str, moment: Timestamp, now: Timestamp) -> Result<()> {
    if moment > now {
        Ok(())
    } else {
        Err(Error::invalid_field(
            pointer,
            format!("{moment} has passed"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_weights_are_rejected() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1e-9] {
            assert!(weight("/weight", bad).is_err(), "{bad}");
        }
        for good in [0.001, 1.0, 2.5, 1e6] {
            assert!(weight("/weight", good).is_ok(), "{good}");
        }
    }

    #[test]
    fn origins_are_scheme_and_host() {
        for good in [
            "*",
            "https://a.example",
            "http://localhost:3000",
            "http://[::1]:80",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "https://",
            "https://a/b",
            "https://a b",
            "null",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
