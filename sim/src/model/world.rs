//! What there is: everything that a move touches, as small as it can be.

use super::small::{Fence, Held, Op, Order, Route, ShardNo};

/// The most clients there can be, each one voter.
pub(super) const CLIENTS: usize = 2;
/// The most workers.
pub(super) const WORKERS: usize = 3;
/// The most letters without a sender.
pub(super) const STRAYS: usize = 2;

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The slice's record in the registry.
    pub route: Route,
    /// The shards.
    pub shards: [Shard; 2],
    /// What routers may believe: the epochs, one bit each, at which the record
    /// ever named this shard the owner.
    pub heard: [u32; 2],
    /// Those of them at which the record ever said that this shard alone
    /// acknowledges.
    pub alone: [u32; 2],
    /// The last choice of each client that was acknowledged; 0 for none.
    pub acknowledged: [u8; CLIENTS],
    /// What must stay whatever is given up: the last choice of each client that
    /// was acknowledged before the move or its cutover, or was streamed back
    /// since.
    pub kept: [u8; CLIENTS],
    /// The shard that was given up, and whether it owned the slice then.
    pub lost: Option<(ShardNo, bool)>,
    /// The shard whose copy was left to be removed later, and the epoch at which
    /// it was.
    pub behind: Option<(ShardNo, u8)>,
    /// The workers; a later one has a later lease.
    pub workers: [Worker; WORKERS],
    /// Letters whose sender no longer waits for them: they arrive at any time,
    /// any number of times, or never.
    pub strays: [Option<Work>; STRAYS],
    /// What may still happen.
    pub left: Left,
}

/// What may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    /// Moves that begin, ordered or turned round.
    pub moves: u8,
    /// Seals that are put off.
    pub retreats: u8,
    /// Letters that lose their sender.
    pub strays: u8,
    /// Times that a copy is found wrong and made anew.
    pub repairs: u8,
    /// Owners that are given up.
    pub give_ups: u8,
    /// Copies that are left to be removed later.
    pub leaves: u8,
}

/// A shard: what it remembers of the slice, and the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shard {
    /// The fence.
    pub fence: Option<Fence>,
    /// The voters' rows.
    pub rows: Rows,
}

/// The rows of a shard, one for each voter.
pub(super) type Rows = [Row; CLIENTS];

/// A voter's row; there is none while its epoch is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Row {
    /// The epoch it was written at.
    pub epoch: u8,
    /// Which of the voter's choices it holds: its revision.
    pub choice: u8,
    /// How often the voter is in the counts.
    pub counted: u8,
}

/// A worker. It remembers nothing between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Worker {
    /// The record that it has read, when it has not looked at the shards yet.
    pub seen: Option<Route>,
    /// What it waits for.
    pub letter: Option<Work>,
}

/// What a worker does: a letter on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// It changes the record, if that is still what was seen.
    Swap {
        /// What was seen.
        seen: Route,
        /// What it becomes.
        then: Route,
    },
    /// It tells a shard.
    Tell {
        /// Which shard.
        shard: ShardNo,
        /// What.
        op: Op,
        /// On whose behalf.
        order: Order,
    },
    /// It brings rows to a shard.
    Bring {
        /// Which shard.
        shard: ShardNo,
        /// The rows.
        rows: Rows,
        /// On whose behalf.
        order: Order,
    },
    /// It has a shard forget its rows, so that they are brought anew.
    Discard {
        /// Which shard.
        shard: ShardNo,
        /// The highest epoch that the sender knew of.
        known: u8,
        /// On whose behalf.
        order: Order,
    },
}

impl Row {
    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        self.epoch > 0
    }

    /// Its version.
    pub fn version(&self) -> (u8, u8) {
        (self.epoch, self.choice)
    }
}

impl Shard {
    /// What the slice is to it.
    pub fn holding(&self) -> Option<Held> {
        self.fence.map(|fence| fence.holding)
    }

    /// Whether these rows would bring it something.
    pub fn lacks(&self, rows: &Rows) -> bool {
        let mut both = rows.iter().zip(&self.rows);
        both.any(|(new, known)| new.is_some() && known.version() < new.version())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        !self.rows.iter().any(Row::is_some)
    }
}

impl World {
    /// The shard that holds the truth: the owner of the record.
    pub fn truth(&self) -> &Shard {
        &self.shards[usize::from(self.route.owner)]
    }

    /// Whether this shard was given up.
    pub fn is_lost(&self, number: usize) -> bool {
        self.lost
            .is_some_and(|(lost, _)| usize::from(lost) == number)
    }

    /// Whether nothing of a move is left.
    pub fn is_calm(&self) -> bool {
        let owner = usize::from(self.route.owner);
        self.route.moving.is_none()
            && self
                .shards
                .iter()
                .enumerate()
                .all(|(number, shard)| match &shard.fence {
                    // What was given up is kept; it only must know.
                    fence if self.is_lost(number) => fence
                        .is_none_or(|fence| matches!(fence.holding, Held::Retired | Held::Gone)),
                    Some(fence) if number == owner => {
                        fence.holding == Held::Owner && fence.epoch == self.route.epoch
                    }
                    Some(fence) => fence.holding == Held::Gone && shard.is_empty(),
                    None => number != owner && shard.is_empty(),
                })
    }

    /// The same without what is on its way.
    pub fn without_mail(mut self) -> Self {
        self.strays = [None; STRAYS];
        for worker in &mut self.workers {
            worker.letter = None;
        }
        self
    }

    /// The one world that stands for all that differ only in which voter is
    /// called the first, and in the order of letters that have none.
    pub(super) fn canonical(mut self) -> Self {
        // Those that are there first.
        self.strays.sort_unstable_by(|one, two| two.cmp(one));
        // So that where there is one voter, it stays the first.
        if self.column(1) > self.column(0) {
            self.acknowledged.swap(0, 1);
            self.kept.swap(0, 1);
            for rows in self.all_rows() {
                rows.swap(0, 1);
            }
            self.strays.sort_unstable_by(|one, two| two.cmp(one));
        }
        self
    }

    /// Everything that there is about a voter.
    fn column(&self, voter: usize) -> (u8, u8, [Row; 2 + WORKERS + STRAYS]) {
        let mut column = [Row::default(); 2 + WORKERS + STRAYS];
        let shards = self.shards.iter().map(|shard| Some(&shard.rows));
        let workers = self.workers.iter().map(|worker| worker.letter.as_ref());
        let letters = workers.chain(self.strays.iter().map(Option::as_ref));
        let rows = shards.chain(letters.map(|letter| letter.and_then(Work::rows)));
        for (place, rows) in column.iter_mut().zip(rows) {
            *place = rows.map_or(Row::default(), |rows| rows[voter]);
        }
        (self.acknowledged[voter], self.kept[voter], column)
    }

    fn all_rows(&mut self) -> impl Iterator<Item = &mut Rows> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.letter);
        let letters = workers.chain(&mut self.strays).flatten();
        let shards = self.shards.iter_mut().map(|shard| &mut shard.rows);
        shards.chain(letters.filter_map(|letter| match letter {
            Work::Bring { rows, .. } => Some(rows),
            _ => None,
        }))
    }
}

impl Work {
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Bring { rows, .. } => Some(rows),
            _ => None,
        }
    }
}
