//! A voter's row as a register: is there an order of the attempts that
//! explains every answer and what is there at the end?
//!
//! The rules are written here once more, on purpose: what the product decides
//! is not judged by the product's own code. An attempt takes effect at one
//! moment between being sent and being answered; one whose answer was lost at
//! any moment from its sending until the process it was sent to was gone, or
//! never.

use std::collections::HashSet;

use super::book::{Ask, Attempt, Said};

/// Requests that a row remembers.
const REMEMBERED: usize = 4;
/// More attempts than this are not tried in all orders.
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
    /// It has happened before this moment, or never.
    pub until: u64,
    /// Whether the poll may have been open when it was judged.
    pub may_be_open: bool,
    /// Whether the poll may have ended when it was judged.
    pub may_be_closed: bool,
}

/// A row: what was chosen, how often it changed, who changed it last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// The items, in rising order.
    pub items: Vec<usize>,
    /// How often it changed.
    pub revision: u32,
    requests: Vec<(usize, u32)>,
}

/// Whether the steps explain a row's end: its items and revision, or that
/// there is none.
pub fn explains(rules: Rules, steps: &[Step], end: Option<(&[usize], u32)>) -> bool {
    let steps = those_that_matter(steps);
    assert!(steps.len() <= ATTEMPTS_MAX, "too many attempts: {steps:?}");
    let search = Search {
        rules,
        steps: &steps,
        end,
    };
    search.from(0, 0, &Row::default(), &mut HashSet::new())
}

/// Without those that reached nobody. Of those without an answer that asked
/// the same of the same process, the first stands for all: the second time
/// nothing changes. (A named request is remembered for longer than any voter
/// here goes on, and a nameless one is sent only where votes stay.)
fn those_that_matter(steps: &[Step]) -> Vec<Step> {
    let mut matter: Vec<Step> = Vec::new();
    for step in steps {
        let (ask, said) = (step.attempt.ask, step.attempt.said);
        let stands_for = |other: &Step| {
            let same = (other.attempt.ask, other.attempt.said, other.until);
            said == Said::Unknown && same == (ask, said, step.until)
        };
        if said != Said::NeverSent && !matter.iter().any(stands_for) {
            matter.push(*step);
        }
    }
    matter
}

struct Search<'a> {
    rules: Rules,
    steps: &'a [Step],
    end: Option<(&'a [usize], u32)>,
}

impl Search<'_> {
    /// Tries every step that may come next. `latest` is the latest sending
    /// among those done.
    fn from(&self, done: u64, latest: u64, row: &Row, seen: &mut HashSet<(u64, Row)>) -> bool {
        if self.is_end(done, row) {
            return true;
        }
        if !seen.insert((done, row.clone())) {
            return false;
        }
        let left = || (0..self.steps.len()).filter(move |place| done & (1 << place) == 0);
        let first_answer = left()
            .filter(|place| self.steps[*place].attempt.said != Said::Unknown)
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

    /// All that was answered has happened, and this is what is there.
    fn is_end(&self, done: u64, row: &Row) -> bool {
        let settled =
            self.steps.iter().enumerate().all(|(place, step)| {
                done & (1 << place) != 0 || step.attempt.said == Said::Unknown
            });
        settled
            && match self.end {
                None => row.items.is_empty(),
                Some((items, revision)) => row.items == items && row.revision == revision,
            }
    }

    /// The row after a step; `None` when the answer cannot have been this.
    fn after(&self, place: usize, step: &Step, row: &Row) -> Option<Row> {
        let (ask, said) = (step.attempt.ask, step.attempt.said);
        let told = |revision: u32, told: Option<u32>| told.is_none_or(|told| told == revision);
        let same = |fits: bool| fits.then(|| row.clone());
        if let Some((_, revision)) = row
            .requests
            .iter()
            .find(|(other, _)| self.is_same(*other, place))
        {
            return same(match said {
                Said::Done(found) => told(*revision, found),
                Said::Unknown => true,
                _ => false,
            });
        }
        let chosen = row.items.contains(&ask.item);
        if chosen && !ask.withdraw {
            return same(match said {
                Said::Already(found) => told(row.revision, found),
                Said::Unknown => true,
                _ => false,
            });
        }
        match said {
            Said::Closed => return same(step.may_be_closed),
            _ if !step.may_be_open => return None,
            _ => {}
        }
        let Some(items) = self.changed(row, ask) else {
            let expected = match ask.withdraw {
                true => Said::NotChosen,
                false => Said::AlreadyVoted,
            };
            return same(said == expected || said == Said::Unknown);
        };
        let mut next = row.clone();
        next.items = items;
        next.revision += 1;
        next.requests.push((place, next.revision));
        if next.requests.len() > REMEMBERED {
            next.requests.remove(0);
        }
        match said {
            Said::Done(found) => told(next.revision, found).then_some(next),
            Said::Unknown => Some(next),
            _ => None,
        }
    }

    /// Whether two attempts are of one request.
    fn is_same(&self, one: usize, two: usize) -> bool {
        let (one, two) = (self.steps[one].attempt.ask, self.steps[two].attempt.ask);
        one == two && one.request.is_some()
    }

    fn changed(&self, row: &Row, ask: Ask) -> Option<Vec<usize>> {
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
