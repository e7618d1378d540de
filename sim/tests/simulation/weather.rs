//! What becomes of messages: in fair weather they are only late, in a storm
//! they are also lost, sent twice, and much too late.

use std::cell::Cell;
use std::time::Duration;

use crate::chance;

thread_local! {
    static STORM: Cell<bool> = const { Cell::new(false) };
    static FAIR_SINCE: Cell<u64> = const { Cell::new(0) };
}

/// How long after a storm its traces may still be felt: what is on its way
/// arrives, and what is held gives up.
pub(crate) const CALM_AFTER_MS: u64 = 45_000;

/// A storm begins.
pub(crate) fn storm() {
    STORM.set(true);
    FAIR_SINCE.set(0);
}

/// Fair weather, from now on.
pub(crate) fn fair() {
    STORM.set(false);
    FAIR_SINCE.set(crate::trace::now_ms());
}

/// A world in which there was never a storm.
pub(crate) fn always_fair() {
    STORM.set(false);
    FAIR_SINCE.set(u64::MAX);
}

/// Whether something sent then may fail for reasons of the weather.
pub(crate) fn excuses(sent_ms: u64) -> bool {
    match FAIR_SINCE.get() {
        u64::MAX => false,
        since => STORM.get() || sent_ms < since + CALM_AFTER_MS,
    }
}

/// What becomes of a message.
pub(crate) struct Fate {
    /// It does not arrive.
    pub(crate) lost: bool,
    /// It arrives again, so much later.
    pub(crate) again: Option<Duration>,
    /// Its answer does not arrive.
    pub(crate) unanswered: bool,
    pub(crate) there: Duration,
    pub(crate) back: Duration,
}

/// The next message's.
pub(crate) fn fate() -> Fate {
    fate_of(40)
}

/// The next message's, which so many times in a thousand comes again.
pub(crate) fn fate_of(again: u64) -> Fate {
    let stormy = STORM.get();
    let per_mille = |often| stormy && chance::happens(often);
    Fate {
        lost: per_mille(25),
        again: per_mille(again).then(late),
        unanswered: per_mille(25),
        there: way(),
        back: way(),
    }
}

/// How long a way takes.
pub(crate) fn way() -> Duration {
    if STORM.get() && chance::happens(60) {
        return late();
    }
    chance::ms(0, if STORM.get() { 15 } else { 3 })
}

fn late() -> Duration {
    match chance::below(4) {
        0 => chance::ms(1, 20),
        1 | 2 => chance::ms(20, 2_500),
        _ => chance::ms(2_500, 25_000),
    }
}

/// How late news of a changed route are.
pub(crate) fn news() -> Duration {
    match STORM.get() && chance::happens(300) {
        true => chance::ms(0, 5_000),
        false => chance::ms(0, 30),
    }
}

/// Whether there is a storm.
pub(crate) fn is_stormy() -> bool {
    STORM.get()
}
