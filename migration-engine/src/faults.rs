//! Crash points: places where a test can make the process abort.
//!
//! Only built with the feature `faults`. The environment variable `BALLAST_DIE_AT`
//! names the place, such as `swapped Sealing` or `order Activate`, and optionally how
//! often to pass it first: `ordered Seal:3`.

use std::fmt::Debug;

/// Does nothing: the feature `faults` is off.
#[cfg(not(feature = "faults"))]
pub(crate) fn crash_point(_: &str, _: impl Debug) {}

/// Aborts the process if `BALLAST_DIE_AT` names this place.
#[cfg(feature = "faults")]
pub(crate) fn crash_point(place: &str, about: impl Debug) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Ok(wanted) = std::env::var("BALLAST_DIE_AT") else {
        return;
    };
    let (wanted, times) = match wanted.rsplit_once(':') {
        Some((wanted, times)) => (wanted.to_owned(), times.parse().unwrap_or(0)),
        None => (wanted, 0),
    };
    let here = format!("{place} {about:?}");
    let Some((verb, what)) = wanted.split_once(' ') else {
        return;
    };
    if verb == place && here.contains(what) && PASSED.fetch_add(1, Ordering::AcqRel) >= times {
        std::process::abort();
    }
}
