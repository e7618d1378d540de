//! Whether a slice is worse off at its target than it may be: its calls fail,
//! or take too long. Pure.
//!
//! One bad look is a spike. Several in a row, with enough calls each, are a
//! breach; and only if it was clearly better before the cutover, because a
//! tenant that was as slow on its old shard gains nothing by going back.

use ballast_domain::answers::{Answers, AroundCutover};
use serde::{Deserialize, Serialize};

/// A look with fewer calls says nothing.
const CALLS_MIN: u64 = 20;
/// Bad looks in a row that are a breach.
const STRIKES: u32 = 3;
/// How much worse than before the cutover it has to be.
const WORSE: u64 = 2;

/// What a tenant's calls may suffer at a move's target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// The share of calls that may fail; any when absent.
    pub failed_share: Option<f64>,
    /// What 99 of 100 calls may take, in milliseconds; any when absent.
    pub p99_ms: Option<u64>,
    /// How long the target may be away where both sides acknowledge, in
    /// milliseconds: nothing is lost by going back without it. Any time when absent.
    pub away_ms: Option<u64>,
}

/// What the looks before have found.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strikes {
    /// Bad looks in a row.
    bad: u32,
    /// Where the next look begins.
    calls: [u64; Answers::BANDS],
    failed: u64,
}

impl Strikes {
    fn seen(&self) -> Answers {
        Answers {
            took: self.calls,
            failed: self.failed,
        }
    }

    /// Looks once more; what is wrong, if it is a breach.
    pub fn look(&mut self, around: &AroundCutover, budget: &Budget) -> Option<String> {
        let new = around.after.since(&self.seen());
        if new.calls() < CALLS_MIN {
            return None;
        }
        (self.calls, self.failed) = (around.after.took, around.after.failed);
        let Some(wrong) = over(&new, &around.before, budget) else {
            self.bad = 0;
            return None;
        };
        self.bad += 1;
        (self.bad >= STRIKES).then_some(wrong)
    }
}

/// What is over budget, in words.
fn over(new: &Answers, before: &Answers, budget: &Budget) -> Option<String> {
    let known = before.calls() >= CALLS_MIN;
    let share = new.failed_share();
    #[allow(clippy::cast_precision_loss, reason = "a share is an estimate")]
    let worse = !known || share > WORSE as f64 * before.failed_share();
    if let Some(most) = budget.failed_share
        && share > most
        && worse
    {
        return Some(format!(
            "{:.1} % of its calls failed, and {:.1} % may",
            share * 100.0,
            most * 100.0
        ));
    }
    let (p99, most) = (new.p99_ms()?, budget.p99_ms?);
    let usual = before.p99_ms().filter(|_| known);
    let worse = usual.is_none_or(|usual| p99 > WORSE * usual);
    (p99 > most && worse).then(|| {
        let usual = usual.map_or_else(String::new, |usual| format!(" (before it was {usual} ms)"));
        format!("its calls take up to {p99} ms{usual}, and {most} ms may be")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        failed_share: Some(0.05),
        p99_ms: Some(500),
        away_ms: None,
    };

    fn answers(fast: u64, slow: u64, failed: u64) -> Answers {
        let mut answers = Answers {
            failed,
            ..Answers::default()
        };
        answers.took[Answers::band(2)] = fast;
        answers.took[Answers::band(900)] = slow;
        answers
    }

    /// Looks several times, each after so many more calls.
    fn looks(before: Answers, each: Answers, times: u64) -> Vec<bool> {
        let mut strikes = Strikes::default();
        let told = (1..=times).map(|round| {
            let mut after = each;
            for count in &mut after.took {
                *count *= round;
            }
            after.failed *= round;
            let around = AroundCutover { before, after };
            strikes.look(&around, &BUDGET).is_some()
        });
        told.collect()
    }

    #[test]
    fn failures_in_a_row_are_a_breach_and_a_spike_is_none() {
        let before = answers(100, 0, 0);
        assert_eq!(
            looks(before, answers(90, 0, 10), 4),
            [false, false, true, true]
        );
        assert_eq!(looks(before, answers(99, 0, 1), 4), [false; 4]);
        let mut strikes = Strikes::default();
        let mut after = Answers::default();
        for round in 0..12_u64 {
            after.took[1] += 90;
            // Two bad looks, then a good one.
            after.failed += if round % 3 < 2 { 10 } else { 0 };
            let around = AroundCutover { before, after };
            assert_eq!(strikes.look(&around, &BUDGET), None, "{round}");
        }
    }

    #[test]
    fn slow_calls_are_a_breach_unless_they_were_as_slow_before() {
        let slow = answers(10, 90, 0);
        assert!(looks(answers(100, 0, 0), slow, 3)[2]);
        assert!(
            looks(Answers::default(), slow, 3)[2],
            "nothing is known of before"
        );
        assert!(!looks(answers(0, 100, 0), slow, 5).contains(&true));
        assert!(!looks(answers(0, 0, 100), answers(50, 0, 50), 5).contains(&true));
    }

    #[test]
    fn few_calls_say_nothing_until_they_are_many() {
        let before = answers(100, 0, 0);
        let told = looks(before, answers(0, 0, 5), 14);
        assert_eq!(told.iter().position(|told| *told), Some(11), "{told:?}");
    }

    #[test]
    fn without_a_budget_nothing_is_too_much() {
        let mut strikes = Strikes::default();
        let around = AroundCutover {
            before: Answers::default(),
            after: answers(0, 0, 100),
        };
        for _ in 0..5 {
            assert_eq!(strikes.look(&around, &Budget::default()), None);
        }
    }
}
