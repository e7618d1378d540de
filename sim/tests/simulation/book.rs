//! The book: the answers to clients, and what must therefore be stored. Each voter of each
//! poll is a register that one client writes, one choice after the other.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::{ItemId, PollId, TenantId};

use crate::chance;

/// A poll's voting rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) changeable: bool,
    pub(crate) choices: usize,
}

/// A poll of the simulation.
#[derive(Debug, Clone)]
pub(crate) struct TestPoll {
    pub(crate) tenant: TenantId,
    pub(crate) key: String,
    pub(crate) poll: PollId,
    pub(crate) items: Vec<ItemId>,
    pub(crate) rules: Rules,
    pub(crate) is_closed: bool,
}

/// A voter's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    For(usize),
    Withdraw(usize),
}

/// The response that a client must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) outcome: &'static str,
    pub(crate) revision: Option<u32>,
}

impl Expected {
    pub(crate) fn refused() -> Self {
        Self {
            status: 409,
            outcome: "refused",
            revision: None,
        }
    }
}

/// A voter's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExpectedRow {
    pub(crate) items: BTreeSet<usize>,
    pub(crate) revision: u32,
}

impl ExpectedRow {
    /// Returns the row after a choice, and the expected response.
    pub(crate) fn after(&self, rules: Rules, choice: Choice) -> (Self, Expected) {
        let changed = |items: BTreeSet<usize>, outcome| {
            let revision = self.revision + 1;
            let told = Expected {
                status: 200,
                outcome,
                revision: Some(revision),
            };
            (Self { items, revision }, told)
        };
        let same = |told| (self.clone(), told);
        let mut items = self.items.clone();
        match choice {
            Choice::For(item) if items.contains(&item) => same(Expected {
                status: 200,
                outcome: "already",
                revision: Some(self.revision),
            }),
            Choice::For(item) if items.len() < rules.choices => {
                items.insert(item);
                changed(items, "counted")
            }
            Choice::For(item) if rules.changeable && rules.choices == 1 => {
                changed(BTreeSet::from([item]), "counted")
            }
            Choice::For(_) => same(Expected::refused()),
            Choice::Withdraw(item) if rules.changeable && items.contains(&item) => {
                items.remove(&item);
                changed(items, "withdrawn")
            }
            Choice::Withdraw(_) => same(Expected::refused()),
        }
    }
}

/// A voter, and the rows that may be stored for it.
#[derive(Debug, Clone)]
pub(crate) struct Voter {
    pub(crate) test_poll: usize,
    pub(crate) name: String,
    pub(crate) row: ExpectedRow,
    /// The alternative row, if the client gave up on its last choice.
    pub(crate) or: Option<ExpectedRow>,
    /// The number of choices made.
    pub(crate) made: u32,
    pub(crate) is_done: bool,
}

impl Voter {
    pub(crate) fn new(test_poll: usize, name: String) -> Self {
        Self {
            test_poll,
            name,
            row: ExpectedRow::default(),
            or: None,
            made: 0,
            is_done: false,
        }
    }

    /// Draws the next choice, with the row after it and the expected response. A choice
    /// that changes nothing is the voter's last one: its answer is not remembered, so a
    /// late duplicate could get a different one.
    pub(crate) fn next(&self, test_poll: &TestPoll) -> (Choice, ExpectedRow, Expected) {
        let item = chance::below(test_poll.items.len() as u64) as usize;
        let chosen: Vec<usize> = self.row.items.iter().copied().collect();
        let choice = match chance::below(4) {
            0 if test_poll.rules.changeable && !chosen.is_empty() => {
                Choice::Withdraw(*chance::pick(&chosen))
            }
            _ => Choice::For(item),
        };
        let (row, told) = self.row.after(test_poll.rules, choice);
        (choice, row, told)
    }

    /// Records that a choice was answered.
    pub(crate) fn record_answer(&mut self, row: ExpectedRow) {
        // A row remembers only this many requests, so later ones could be applied twice.
        let is_last = row == self.row || row.revision as usize >= REQUESTS_REMEMBERED;
        self.is_done = is_last;
        self.row = row;
        self.made += 1;
    }

    /// Records that it is unknown whether a choice was accepted.
    pub(crate) fn gave_up(&mut self, row: ExpectedRow) {
        self.or = Some(row);
        self.is_done = true;
    }

    /// Whether this row may be stored.
    pub(crate) fn may_be(&self, found: &ExpectedRow) -> bool {
        *found == self.row || self.or.as_ref() == Some(found)
    }
}

/// All voters, by poll and name.
pub(crate) type Ledger = BTreeMap<(PollId, String), Voter>;
