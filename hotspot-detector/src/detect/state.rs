//! The state of one rule on one subject. Pure: time arrives as data.

use ballast_domain::Timestamp;
use serde::Serialize;

use crate::load::Interval;
use crate::rules::{Rule, Truth};

/// Where a rule stands on a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum State {
    /// Nothing is the matter.
    Quiet {
        /// Until then it is not raised again.
        until: Option<Timestamp>,
    },
    /// The condition holds, not yet for long enough.
    Pending {
        /// Since when.
        since: Timestamp,
        /// How long it is known to have held.
        held: Held,
    },
    /// It is a hotspot.
    Firing {
        /// Since when the condition has held.
        since: Timestamp,
        /// When it became a hotspot.
        fired: Timestamp,
        /// When it was last judged.
        seen: Timestamp,
    },
    /// It looks over, not yet for long enough.
    Clearing {
        /// Since when the condition held.
        since: Timestamp,
        /// When it became a hotspot.
        fired: Timestamp,
        /// How long it is known to have been over.
        held: Held,
    },
}

/// For how long something is known to have held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// So long, in milliseconds; gaps are left out.
    pub ms: u64,
    /// When it was last seen.
    pub seen: Timestamp,
    /// Whether it has been seen at every step since.
    pub unbroken: bool,
}

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The condition must hold so long, in milliseconds.
    pub for_ms: u64,
    /// It must be over so long.
    pub clear_for_ms: u64,
    /// It is not raised again for so long.
    pub cooldown_ms: u64,
    /// How often it is judged. What was measured over a longer time stands for
    /// all the judgements that there would have been in it.
    pub step_ms: u64,
    /// More than this between the end of what was judged and the beginning of
    /// what is judged next is a gap.
    pub gap_ms: u64,
}

impl Timing {
    /// The times of a rule that is judged at every step.
    #[must_use]
    pub fn of(rule: &Rule, step_ms: u64) -> Self {
        Self {
            for_ms: rule.for_ms,
            clear_for_ms: rule.clear_for_ms,
            cooldown_ms: rule.cooldown_ms,
            step_ms,
            gap_ms: step_ms / 2,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// The condition has begun to hold.
    Noticed,
    /// It did not hold for long enough.
    Passed,
    /// It is a hotspot now.
    Fired,
    /// It looks over.
    Easing,
    /// It was not over after all.
    Relapsed,
    /// It is over.
    Cleared,
    /// The subject or the rule is gone.
    Gone,
}

impl State {
    /// Nothing is the matter and nothing was.
    pub const QUIET: Self = Self::Quiet { until: None };

    /// Whether it is a hotspot.
    #[must_use]
    pub fn is_hotspot(&self) -> bool {
        matches!(self, Self::Firing { .. } | Self::Clearing { .. })
    }

    /// Since when the condition has held, if it does.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Quiet { .. } => None,
            Self::Pending { since, .. }
            | Self::Firing { since, .. }
            | Self::Clearing { since, .. } => Some(*since),
        }
    }

    /// How long the condition is known to have held without being a hotspot.
    pub(super) fn held_ms(&self) -> u64 {
        match self {
            Self::Pending { held, .. } => held.ms,
            _ => 0,
        }
    }

    fn seen(&self) -> Option<Timestamp> {
        match self {
            Self::Quiet { .. } => None,
            Self::Pending { held, .. } | Self::Clearing { held, .. } => Some(held.seen),
            Self::Firing { seen, .. } => Some(*seen),
        }
    }
}

impl Held {
    /// It holds for the first time, in what was measured over this interval.
    fn new(over: Interval, timing: &Timing) -> Self {
        Self {
            ms: alone(over, timing),
            seen: over.end(),
            unbroken: true,
        }
    }

    /// It has held until now, unless nobody looked.
    fn on(self, over: Interval, timing: &Timing) -> Self {
        let counts = self.unbroken && between(self.seen, over.start) <= timing.gap_ms;
        let more = match counts {
            true => between(self.seen, over.end()),
            false => alone(over, timing),
        };
        Self {
            ms: self.ms.saturating_add(more),
            seen: over.end(),
            unbroken: true,
        }
    }

    /// Since when, if it has held all the time.
    fn since(self) -> Timestamp {
        let ms = i64::try_from(self.ms).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(self.seen.unix_ms().saturating_sub(ms))
    }

    fn broken(self) -> Self {
        Self {
            unbroken: false,
            ..self
        }
    }
}

/// How long something is known to have held from one interval alone: from the
/// first judgement in it to the last.
fn alone(over: Interval, timing: &Timing) -> u64 {
    over.ms.saturating_sub(timing.step_ms)
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.unix_ms().saturating_sub(from.unix_ms())).unwrap_or(0)
}

fn plus(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}

/// The state after a judgement of what was measured in an interval: `when` says
/// whether it is hot, `over` whether it is so no more. A judgement that is not
/// later than the last one changes nothing.
#[must_use]
pub fn apply(
    state: State,
    measured: Interval,
    when: Truth,
    over: Truth,
    timing: &Timing,
) -> (State, Option<Change>) {
    let at = measured.end();
    if state.seen().is_some_and(|seen| at <= seen) {
        return (state, None);
    }
    match state {
        State::Quiet { until } => quiet(until, measured, when, timing),
        State::Pending { since, held } => pending(since, held, measured, when, timing),
        State::Firing { since, fired, .. } => match over {
            Truth::True => {
                let held = Held::new(measured, timing);
                over_for(since, fired, held, Some(Change::Easing), timing)
            }
            Truth::False | Truth::Unknown => {
                let seen = at;
                (State::Firing { since, fired, seen }, None)
            }
        },
        State::Clearing { since, fired, held } => match over {
            Truth::True => over_for(since, fired, held.on(measured, timing), None, timing),
            Truth::False => {
                let seen = at;
                (State::Firing { since, fired, seen }, Some(Change::Relapsed))
            }
            Truth::Unknown => {
                let held = held.broken();
                (State::Clearing { since, fired, held }, None)
            }
        },
    }
}

fn quiet(
    until: Option<Timestamp>,
    measured: Interval,
    when: Truth,
    timing: &Timing,
) -> (State, Option<Change>) {
    let cooling = until.filter(|until| measured.end() < *until);
    if when != Truth::True || cooling.is_some() {
        return (State::Quiet { until: cooling }, None);
    }
    let held = Held::new(measured, timing);
    hot_for(held.since(), held, Some(Change::Noticed), timing)
}

fn pending(
    since: Timestamp,
    held: Held,
    measured: Interval,
    when: Truth,
    timing: &Timing,
) -> (State, Option<Change>) {
    match when {
        Truth::False => (State::QUIET, Some(Change::Passed)),
        Truth::Unknown => {
            let held = held.broken();
            (State::Pending { since, held }, None)
        }
        // After so long a gap what was seen before proves nothing.
        Truth::True if between(held.seen, measured.start) > timing.for_ms.max(timing.gap_ms) => {
            let held = Held::new(measured, timing);
            hot_for(held.since(), held, None, timing)
        }
        Truth::True => hot_for(since, held.on(measured, timing), None, timing),
    }
}

fn hot_for(
    since: Timestamp,
    held: Held,
    change: Option<Change>,
    timing: &Timing,
) -> (State, Option<Change>) {
    if held.ms < timing.for_ms {
        return (State::Pending { since, held }, change);
    }
    let firing = State::Firing {
        since,
        fired: held.seen,
        seen: held.seen,
    };
    (firing, Some(Change::Fired))
}

fn over_for(
    since: Timestamp,
    fired: Timestamp,
    held: Held,
    change: Option<Change>,
    timing: &Timing,
) -> (State, Option<Change>) {
    if held.ms < timing.clear_for_ms {
        return (State::Clearing { since, fired, held }, change);
    }
    let until = (timing.cooldown_ms > 0).then(|| plus(held.seen, timing.cooldown_ms));
    (State::Quiet { until }, Some(Change::Cleared))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
