//! Whether a tenant's calls fail more often or take longer on the target than the
//! budget allows. Pure.
//!
//! One bad sample is a spike. Several in a row, with enough calls each, are a breach,
//! but only if the calls were clearly better before the cutover: a tenant that was as
//! slow on its old shard gains nothing by going back.

use ballast_domain::call_stats::{CallStats, CutoverCallStats};
use serde::{Deserialize, Serialize};

/// A sample with fewer calls is not judged.
const CALLS_MIN: u64 = 20;
/// Consecutive bad samples that make a breach.
const STRIKES: u32 = 3;
/// By what factor calls must be worse than before the cutover.
const WORSE: u64 = 2;

/// How bad a tenant's calls may get on a migration's target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServiceBudget {
    /// The share of calls that may fail; unlimited when absent.
    pub failed_share: Option<f64>,
    /// The latency p99 of calls, in milliseconds; unlimited when absent.
    pub p99_ms: Option<u64>,
    /// How long the target may be unreachable if both sides acknowledge writes, in
    /// milliseconds: then nothing is lost by going back without it. Unlimited when
    /// absent.
    pub away_ms: Option<u64>,
}

/// The state between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStrikes {
    /// Consecutive bad samples.
    bad: u32,
    /// The counts at the last sample.
    calls: [u64; CallStats::BANDS],
    failed: u64,
}

impl BudgetStrikes {
    fn last_observed(&self) -> CallStats {
        CallStats {
            took: self.calls,
            failed: self.failed,
        }
    }

    /// Takes another sample, and describes the breach if there is one.
    pub fn observe(&mut self, around: &CutoverCallStats, budget: &ServiceBudget) -> Option<String> {
        let new = around.after.difference_from(&self.last_observed());
        if new.calls() < CALLS_MIN {
            return None;
        }
        (self.calls, self.failed) = (around.after.took, around.after.failed);
        let Some(wrong) = describe_breach(&new, &around.before, budget) else {
            self.bad = 0;
            return None;
        };
        self.bad += 1;
        (self.bad >= STRIKES).then_some(wrong)
    }
}

/// Describes what exceeds the budget, if anything does.
fn describe_breach(new: &CallStats, before: &CallStats, budget: &ServiceBudget) -> Option<String> {
    let known = before.calls() >= CALLS_MIN;
    let share = new.failed_share();
    #[allow(clippy::cast_precision_loss, reason = "a share is an estimate")]
    let worse = !known || share > WORSE as f64 * before.failed_share();
    if let Some(most) = budget.failed_share
        && share > most
        && worse
    {
        return Some(format!(
            "{:.1} % of its calls failed, the budget is {:.1} %",
            share * 100.0,
            most * 100.0
        ));
    }
    let (p99, most) = (new.p99_ms()?, budget.p99_ms?);
    let usual = before.p99_ms().filter(|_| known);
    let worse = usual.is_none_or(|usual| p99 > WORSE * usual);
    (p99 > most && worse).then(|| {
        let usual = usual.map_or_else(String::new, |usual| format!(" ({usual} ms before)"));
        format!("the latency p99 of its calls is {p99} ms{usual}, the budget is {most} ms")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: ServiceBudget = ServiceBudget {
        failed_share: Some(0.05),
        p99_ms: Some(500),
        away_ms: None,
    };

    fn answers(fast: u64, slow: u64, failed: u64) -> CallStats {
        let mut answers = CallStats {
            failed,
            ..CallStats::default()
        };
        answers.took[CallStats::band(2)] = fast;
        answers.took[CallStats::band(900)] = slow;
        answers
    }

    /// Takes several samples, each after the same number of further calls.
    fn observe_times(before: CallStats, each: CallStats, times: u64) -> Vec<bool> {
        let mut strikes = BudgetStrikes::default();
        let breaches = (1..=times).map(|round| {
            let mut after = each;
            for count in &mut after.took {
                *count *= round;
            }
            after.failed *= round;
            let around = CutoverCallStats { before, after };
            strikes.observe(&around, &BUDGET).is_some()
        });
        breaches.collect()
    }

    #[test]
    fn failures_in_a_row_are_a_breach_and_a_spike_is_none() {
        let before = answers(100, 0, 0);
        assert_eq!(
            observe_times(before, answers(90, 0, 10), 4),
            [false, false, true, true]
        );
        assert_eq!(observe_times(before, answers(99, 0, 1), 4), [false; 4]);
        let mut strikes = BudgetStrikes::default();
        let mut after = CallStats::default();
        for round in 0..12_u64 {
            after.took[1] += 90;
            // Two bad samples, then a good one.
            after.failed += if round % 3 < 2 { 10 } else { 0 };
            let around = CutoverCallStats { before, after };
            assert_eq!(strikes.observe(&around, &BUDGET), None, "{round}");
        }
    }

    #[test]
    fn slow_calls_are_a_breach_unless_they_were_as_slow_before() {
        let slow = answers(10, 90, 0);
        assert!(observe_times(answers(100, 0, 0), slow, 3)[2]);
        assert!(
            observe_times(CallStats::default(), slow, 3)[2],
            "nothing is known of before"
        );
        assert!(!observe_times(answers(0, 100, 0), slow, 5).contains(&true));
        assert!(!observe_times(answers(0, 0, 100), answers(50, 0, 50), 5).contains(&true));
    }

    #[test]
    fn few_calls_say_nothing_until_they_are_many() {
        let before = answers(100, 0, 0);
        let breaches = observe_times(before, answers(0, 0, 5), 14);
        assert_eq!(
            breaches.iter().position(|breaches| *breaches),
            Some(11),
            "{breaches:?}"
        );
    }

    #[test]
    fn without_a_budget_nothing_is_too_much() {
        let mut strikes = BudgetStrikes::default();
        let around = CutoverCallStats {
            before: CallStats::default(),
            after: answers(0, 0, 100),
        };
        for _ in 0..5 {
            assert_eq!(strikes.observe(&around, &ServiceBudget::default()), None);
        }
    }
}
