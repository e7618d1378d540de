//! A voter's row as a register: is there an order of the attempts that explains every answer and
//! the row at the end (linearizability)?
//!
//! The rules of voting are implemented here again on purpose: the product's own code must not judge
//! the product. An answered attempt takes effect at one moment between sending and answer. An
//! attempt without an answer takes effect at any moment between sending and the end of the process
//! that received it, or never.

use std::collections::HashSet;

use super::history::{Attempt, VoteOutcome, VoteRequest};

/// How many requests a row remembers.
const REMEMBERED: usize = 4;
/// The maximum number of attempts for which all orders are tried.
const ATTEMPTS_MAX: usize = 40;

/// What a poll allows.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Choices per voter.
    pub choices: usize,
    /// Whether votes may be changed.
    pub changeable: bool,
}

/// An attempt and what is known of the poll around it.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The attempt.
    pub attempt: Attempt,
    /// It took effect before this moment, or never.
    pub until: u64,
    /// Whether the poll may have been open when the attempt took effect.
    pub may_be_open: bool,
    /// Whether the poll may have been closed when the attempt took effect.
    pub may_be_closed: bool,
}

/// A row: chosen items, number of changes, last requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RegisterRow {
    /// The items, in rising order.
    pub items: Vec<usize>,
    /// How often it changed.
    pub revision: u32,
    requests: Vec<(usize, u32)>,
}

/// Whether the steps explain the row at the end: its items and revision, or that there is no row.
pub fn explains(rules: Rules, steps: &[Step], end: Option<(&[usize], u32)>) -> bool {
    let steps = relevant_steps(steps);
    assert!(steps.len() <= ATTEMPTS_MAX, "too many attempts: {steps:?}");
    let search = Search {
        rules,
        steps: &steps,
        end,
    };
    search.from(0, 0, &RegisterRow::default(), &mut HashSet::new())
}

/// Removes attempts that never reached the process. Of several unanswered attempts with the same
/// request to the same process it keeps the first: repeats change nothing. (A row remembers a named
/// request for longer than any voter here continues, and unnamed ones are sent only to polls whose
/// votes cannot be withdrawn.)
fn relevant_steps(steps: &[Step]) -> Vec<Step> {
    let mut relevant: Vec<Step> = Vec::new();
    for step in steps {
        let (ask, outcome) = (step.attempt.ask, step.attempt.outcome);
        let stands_for = |other: &Step| {
            let same = (other.attempt.ask, other.attempt.outcome, other.until);
            outcome == VoteOutcome::Unknown && same == (ask, outcome, step.until)
        };
        if outcome != VoteOutcome::NeverSent && !relevant.iter().any(stands_for) {
            relevant.push(*step);
        }
    }
    relevant
}

struct Search<'a> {
    rules: Rules,
    steps: &'a [Step],
    end: Option<(&'a [usize], u32)>,
}

impl Search<'_> {
    /// Tries every step that may come next. `latest` is the latest sending among the steps done.
    fn from(
        &self,
        done: u64,
        latest: u64,
        row: &RegisterRow,
        seen: &mut HashSet<(u64, RegisterRow)>,
    ) -> bool {
        if self.is_end(done, row) {
            return true;
        }
        if !seen.insert((done, row.clone())) {
            return false;
        }
        let left = || (0..self.steps.len()).filter(move |place| done & (1 << place) == 0);
        let first_answer = left()
            .filter(|place| self.steps[*place].attempt.outcome != VoteOutcome::Unknown)
            .map(|place| self.steps[place].until)
            .min()
            .unwrap_or(u64::MAX);
        left().any(|place| {
            let step = &self.steps[place];
            let sent = step.attempt.sent.tick;
            if sent > first_answer || latest > step.until {
                return false;
            }
            let next = self.after(place, step, row);
            next.is_some_and(|next| self.from(done | 1 << place, latest.max(sent), &next, seen))
        })
    }

    /// Whether all answered steps are done and the row is as it is at the end.
    fn is_end(&self, done: u64, row: &RegisterRow) -> bool {
        let settled = self.steps.iter().enumerate().all(|(place, step)| {
            done & (1 << place) != 0 || step.attempt.outcome == VoteOutcome::Unknown
        });
        settled
            && match self.end {
                None => row.items.is_empty(),
                Some((items, revision)) => row.items == items && row.revision == revision,
            }
    }

    /// The row after a step; `None` when the step's outcome is impossible here.
    fn after(&self, place: usize, step: &Step, row: &RegisterRow) -> Option<RegisterRow> {
        let (ask, outcome) = (step.attempt.ask, step.attempt.outcome);
        let matches_revision =
            |revision: u32, found: Option<u32>| found.is_none_or(|found| found == revision);
        let same = |fits: bool| fits.then(|| row.clone());
        if let Some((_, revision)) = row
            .requests
            .iter()
            .find(|(other, _)| self.is_same(*other, place))
        {
            return same(match outcome {
                VoteOutcome::Applied(found) => matches_revision(*revision, found),
                VoteOutcome::Unknown => true,
                _ => false,
            });
        }
        let chosen = row.items.contains(&ask.item);
        if chosen && !ask.withdraw {
            return same(match outcome {
                VoteOutcome::Already(found) => matches_revision(row.revision, found),
                VoteOutcome::Unknown => true,
                _ => false,
            });
        }
        match outcome {
            VoteOutcome::Closed => return same(step.may_be_closed),
            _ if !step.may_be_open => return None,
            _ => {}
        }
        let Some(items) = self.changed(row, ask) else {
            let expected = match ask.withdraw {
                true => VoteOutcome::NotChosen,
                false => VoteOutcome::AlreadyVoted,
            };
            return same(outcome == expected || outcome == VoteOutcome::Unknown);
        };
        let mut next = row.clone();
        next.items = items;
        next.revision += 1;
        next.requests.push((place, next.revision));
        if next.requests.len() > REMEMBERED {
            next.requests.remove(0);
        }
        match outcome {
            VoteOutcome::Applied(found) => matches_revision(next.revision, found).then_some(next),
            VoteOutcome::Unknown => Some(next),
            _ => None,
        }
    }

    /// Whether two attempts belong to one request.
    fn is_same(&self, one: usize, two: usize) -> bool {
        let (one, two) = (self.steps[one].attempt.ask, self.steps[two].attempt.ask);
        one == two && one.request.is_some()
    }

    fn changed(&self, row: &RegisterRow, ask: VoteRequest) -> Option<Vec<usize>> {
        let mut items = row.items.clone();
        if ask.withdraw {
            let there = items.contains(&ask.item);
            items.retain(|item| *item != ask.item);
            return there.then_some(items);
        }
        if items.len() >= self.rules.choices {
            if !(self.rules.changeable && self.rules.choices == 1) {
                return None;
            }
            items.clear();
        }
        items.push(ask.item);
        items.sort_unstable();
        Some(items)
    }
}
