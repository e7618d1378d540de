//! The state machine of one rule on one subject. Pure: time is an input.

use ballast_domain::Timestamp;
use serde::Serialize;

use crate::load::Interval;
use crate::rules::{HotspotRule, Truth};

/// The state of a rule on a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum RuleState {
    /// The condition does not hold.
    Quiet {
        /// The end of the cooldown.
        until: Option<Timestamp>,
    },
    /// The condition holds, but not yet for long enough.
    Pending {
        /// When the condition began to hold.
        since: Timestamp,
        /// How long it has held.
        held: HoldTime,
    },
    /// It is a hotspot.
    Firing {
        /// When the condition began to hold.
        since: Timestamp,
        /// When it became a hotspot.
        fired: Timestamp,
        /// When it was last evaluated.
        seen: Timestamp,
    },
    /// It has eased, but not yet for long enough.
    Clearing {
        /// When the condition began to hold.
        since: Timestamp,
        /// When it became a hotspot.
        fired: Timestamp,
        /// How long it has eased.
        held: HoldTime,
    },
}

/// How long a condition is known to have held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldTime {
    /// The time in milliseconds, without gaps.
    pub ms: u64,
    /// When it was last observed.
    pub seen: Timestamp,
    /// Whether there was no gap since.
    pub unbroken: bool,
}

/// The durations of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the condition must hold, in milliseconds.
    pub for_ms: u64,
    /// How long it must have eased.
    pub clear_for_ms: u64,
    /// The cooldown after it cleared.
    pub cooldown_ms: u64,
    /// The evaluation interval. A longer measurement counts as several evaluations.
    pub step_ms: u64,
    /// A longer time between two measurements is a gap.
    pub gap_ms: u64,
}

impl Timing {
    /// The durations of a rule that is evaluated at every step.
    #[must_use]
    pub fn for_rule(rule: &HotspotRule, step_ms: u64) -> Self {
        Self {
            for_ms: rule.for_ms,
            clear_for_ms: rule.clear_for_ms,
            cooldown_ms: rule.cooldown_ms,
            step_ms,
            gap_ms: step_ms / 2,
        }
    }
}

/// A state transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HotspotTransition {
    /// The condition began to hold.
    Noticed,
    /// It did not hold for long enough.
    Passed,
    /// It became a hotspot.
    Fired,
    /// The hotspot began to ease.
    Easing,
    /// The easing hotspot is hot again.
    Relapsed,
    /// The hotspot ended.
    Cleared,
    /// The subject or the rule no longer exists.
    Gone,
}

impl RuleState {
    /// The initial state.
    pub const QUIET: Self = Self::Quiet { until: None };

    /// Whether it is a hotspot.
    #[must_use]
    pub fn is_hotspot(&self) -> bool {
        matches!(self, Self::Firing { .. } | Self::Clearing { .. })
    }

    /// When the condition began to hold, if it does.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Quiet { .. } => None,
            Self::Pending { since, .. }
            | Self::Firing { since, .. }
            | Self::Clearing { since, .. } => Some(*since),
        }
    }

    /// How long the condition has held without being a hotspot.
    pub(super) fn held_ms(&self) -> u64 {
        match self {
            Self::Pending { held, .. } => held.ms,
            _ => 0,
        }
    }

    fn last_judged(&self) -> Option<Timestamp> {
        match self {
            Self::Quiet { .. } => None,
            Self::Pending { held, .. } | Self::Clearing { held, .. } => Some(held.seen),
            Self::Firing { seen, .. } => Some(*seen),
        }
    }
}

impl HoldTime {
    /// Starts with the first interval in which the condition holds.
    fn new(over: Interval, timing: &Timing) -> Self {
        Self {
            ms: held_within(over, timing),
            seen: over.end(),
            unbroken: true,
        }
    }

    /// Extends by an interval, without the gap before it.
    fn extend(self, over: Interval, timing: &Timing) -> Self {
        let counts = self.unbroken && ms_between(self.seen, over.start) <= timing.gap_ms;
        let more = match counts {
            true => ms_between(self.seen, over.end()),
            false => held_within(over, timing),
        };
        Self {
            ms: self.ms.saturating_add(more),
            seen: over.end(),
            unbroken: true,
        }
    }

    /// When it began, if it held without gaps.
    fn since(self) -> Timestamp {
        let ms = i64::try_from(self.ms).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(self.seen.unix_ms().saturating_sub(ms))
    }

    fn interrupted(self) -> Self {
        Self {
            unbroken: false,
            ..self
        }
    }
}

/// The time covered by one interval alone: from its first evaluation to its last.
fn held_within(over: Interval, timing: &Timing) -> u64 {
    over.ms.saturating_sub(timing.step_ms)
}

fn ms_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.unix_ms().saturating_sub(from.unix_ms())).unwrap_or(0)
}

fn plus(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}

/// The state after evaluating an interval: `when` says whether it is hot, `over` whether it
/// has eased. An evaluation that is not later than the last one changes nothing.
#[must_use]
pub fn apply(
    state: RuleState,
    measured: Interval,
    when: Truth,
    over: Truth,
    timing: &Timing,
) -> (RuleState, Option<HotspotTransition>) {
    let at = measured.end();
    if state.last_judged().is_some_and(|seen| at <= seen) {
        return (state, None);
    }
    match state {
        RuleState::Quiet { until } => quiet(until, measured, when, timing),
        RuleState::Pending { since, held } => pending(since, held, measured, when, timing),
        RuleState::Firing { since, fired, .. } => match over {
            Truth::True => {
                let held = HoldTime::new(measured, timing);
                clear_or_wait(since, fired, held, Some(HotspotTransition::Easing), timing)
            }
            Truth::False | Truth::Unknown => {
                let seen = at;
                (RuleState::Firing { since, fired, seen }, None)
            }
        },
        RuleState::Clearing { since, fired, held } => match over {
            Truth::True => clear_or_wait(since, fired, held.extend(measured, timing), None, timing),
            Truth::False => {
                let seen = at;
                (
                    RuleState::Firing { since, fired, seen },
                    Some(HotspotTransition::Relapsed),
                )
            }
            Truth::Unknown => {
                let held = held.interrupted();
                (RuleState::Clearing { since, fired, held }, None)
            }
        },
    }
}

fn quiet(
    until: Option<Timestamp>,
    measured: Interval,
    when: Truth,
    timing: &Timing,
) -> (RuleState, Option<HotspotTransition>) {
    let cooling = until.filter(|until| measured.end() < *until);
    if when != Truth::True || cooling.is_some() {
        return (RuleState::Quiet { until: cooling }, None);
    }
    let held = HoldTime::new(measured, timing);
    fire_or_wait(held.since(), held, Some(HotspotTransition::Noticed), timing)
}

fn pending(
    since: Timestamp,
    held: HoldTime,
    measured: Interval,
    when: Truth,
    timing: &Timing,
) -> (RuleState, Option<HotspotTransition>) {
    match when {
        Truth::False => (RuleState::QUIET, Some(HotspotTransition::Passed)),
        Truth::Unknown => {
            let held = held.interrupted();
            (RuleState::Pending { since, held }, None)
        }
        // After a long gap earlier observations are void.
        Truth::True if ms_between(held.seen, measured.start) > timing.for_ms.max(timing.gap_ms) => {
            let held = HoldTime::new(measured, timing);
            fire_or_wait(held.since(), held, None, timing)
        }
        Truth::True => fire_or_wait(since, held.extend(measured, timing), None, timing),
    }
}

fn fire_or_wait(
    since: Timestamp,
    held: HoldTime,
    change: Option<HotspotTransition>,
    timing: &Timing,
) -> (RuleState, Option<HotspotTransition>) {
    if held.ms < timing.for_ms {
        return (RuleState::Pending { since, held }, change);
    }
    let firing = RuleState::Firing {
        since,
        fired: held.seen,
        seen: held.seen,
    };
    (firing, Some(HotspotTransition::Fired))
}

fn clear_or_wait(
    since: Timestamp,
    fired: Timestamp,
    held: HoldTime,
    change: Option<HotspotTransition>,
    timing: &Timing,
) -> (RuleState, Option<HotspotTransition>) {
    if held.ms < timing.clear_for_ms {
        return (RuleState::Clearing { since, fired, held }, change);
    }
    let until = (timing.cooldown_ms > 0).then(|| plus(held.seen, timing.cooldown_ms));
    (RuleState::Quiet { until }, Some(HotspotTransition::Cleared))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
