//! The fate of messages: in fair weather they are only delayed; in a storm they are also
//! lost, duplicated, and delayed for long.

use std::cell::Cell;
use std::time::Duration;

use crate::chance;

thread_local! {
    static STORM: Cell<bool> = const { Cell::new(false) };
    static FAIR_SINCE: Cell<u64> = const { Cell::new(0) };
}

/// How long a storm's effects may last: messages in flight arrive, and held requests time
/// out.
pub(crate) const CALM_AFTER_MS: u64 = 45_000;

/// Starts a storm.
pub(crate) fn storm() {
    STORM.set(true);
    FAIR_SINCE.set(0);
}

/// Ends the storm.
pub(crate) fn fair() {
    STORM.set(false);
    FAIR_SINCE.set(crate::trace::now_ms());
}

/// A world in which there was never a storm.
pub(crate) fn always_fair() {
    STORM.set(false);
    FAIR_SINCE.set(u64::MAX);
}

/// Whether a storm may be the reason that a request sent at this time fails.
pub(crate) fn excuses(sent_ms: u64) -> bool {
    match FAIR_SINCE.get() {
        u64::MAX => false,
        since => STORM.get() || sent_ms < since + CALM_AFTER_MS,
    }
}

/// The fate of a message.
pub(crate) struct MessageFate {
    /// The message is lost.
    pub(crate) lost: bool,
    /// The message arrives again, after this time.
    pub(crate) again: Option<Duration>,
    /// The answer is lost.
    pub(crate) unanswered: bool,
    pub(crate) there: Duration,
    pub(crate) back: Duration,
}

/// Draws the fate of the next message.
pub(crate) fn draw_fate() -> MessageFate {
    draw_fate_repeating(40)
}

/// Draws the fate of a message that is duplicated with this probability, per mille.
pub(crate) fn draw_fate_repeating(again: u64) -> MessageFate {
    let stormy = STORM.get();
    let per_mille = |often| stormy && chance::happens(often);
    MessageFate {
        lost: per_mille(25),
        again: per_mille(again).then(late),
        unanswered: per_mille(25),
        there: way(),
        back: way(),
    }
}

/// Draws a one-way delay.
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

/// Draws the delay of a change notification.
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
