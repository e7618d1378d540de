//! The book: what clients were told, and what must be there because of it.
//! Each voter of each poll is a register that one client writes, one choice
//! after the other.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::{ItemId, PollId, TenantId};

use crate::chance;

/// How votes are taken in a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) changeable: bool,
    pub(crate) choices: usize,
}

/// A poll that is voted in.
#[derive(Debug, Clone)]
pub(crate) struct Booth {
    pub(crate) tenant: TenantId,
    pub(crate) key: String,
    pub(crate) poll: PollId,
    pub(crate) items: Vec<ItemId>,
    pub(crate) rules: Rules,
    pub(crate) is_closed: bool,
}

/// What a voter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    For(usize),
    Withdraw(usize),
}

/// What a client must be told.
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
pub(crate) struct Row {
    pub(crate) items: BTreeSet<usize>,
    pub(crate) revision: u32,
}

impl Row {
    /// What a choice makes of it, and what is told.
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

/// A voter, and what may be found of them.
#[derive(Debug, Clone)]
pub(crate) struct Voter {
    pub(crate) booth: usize,
    pub(crate) name: String,
    pub(crate) row: Row,
    /// What may be there instead: the client gave up on its last choice.
    pub(crate) or: Option<Row>,
    /// Choices that were made.
    pub(crate) made: u32,
    pub(crate) is_done: bool,
}

impl Voter {
    pub(crate) fn new(booth: usize, name: String) -> Self {
        Self {
            booth,
            name,
            row: Row::default(),
            or: None,
            made: 0,
            is_done: false,
        }
    }

    /// The next choice, with what it makes of the row and what is told. One
    /// that changes nothing is the last: such an answer is not remembered, so
    /// a copy of it that comes late could say something else.
    pub(crate) fn next(&self, booth: &Booth) -> (Choice, Row, Expected) {
        let item = chance::below(booth.items.len() as u64) as usize;
        let chosen: Vec<usize> = self.row.items.iter().copied().collect();
        let choice = match chance::below(4) {
            0 if booth.rules.changeable && !chosen.is_empty() => {
                Choice::Withdraw(*chance::one_of(&chosen))
            }
            _ => Choice::For(item),
        };
        let (row, told) = self.row.after(booth.rules, choice);
        (choice, row, told)
    }

    /// Notes that a choice was answered.
    pub(crate) fn told(&mut self, row: Row) {
        // Requests beyond these are forgotten, and could be made again.
        let is_last = row == self.row || row.revision as usize >= REQUESTS_REMEMBERED;
        self.is_done = is_last;
        self.row = row;
        self.made += 1;
    }

    /// Notes that nobody knows whether a choice was taken.
    pub(crate) fn gave_up(&mut self, row: Row) {
        self.or = Some(row);
        self.is_done = true;
    }

    /// What may be found.
    pub(crate) fn may_be(&self, found: &Row) -> bool {
        *found == self.row || self.or.as_ref() == Some(found)
    }
}

/// All voters, by poll and name.
pub(crate) type Ledger = BTreeMap<(PollId, String), Voter>;
