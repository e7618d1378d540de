//! What there is: everything that a move touches, as small as it can be.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::moving::{MoveId, Route};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::{Op, Wish};
use ballast_vote_shard::shard::{Fence, Order};

/// A shard's number: 0 owns the slice at first.
pub(super) type ShardNo = u8;
/// A client's number; each is one voter.
pub(super) type Voter = u8;

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The slice's record in the registry.
    pub route: Route<ShardNo>,
    /// The shards.
    pub shards: Vec<Shard>,
    /// What each router believes: owner and epoch.
    pub routers: Vec<(ShardNo, Epoch)>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The workers; a later one has a later lease.
    pub workers: Vec<Worker>,
    /// The move that is wanted, and what of it.
    pub wanted: Wanted,
    /// What is on its way.
    pub mail: BTreeSet<Letter>,
    /// Faults that may still happen.
    pub faults: Faults,
}

/// A shard: what it remembers of the slice, and the rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shard {
    /// The fence.
    pub fence: Option<Fence>,
    /// The voters' rows.
    pub rows: Rows,
}

/// The rows of a shard.
pub(super) type Rows = BTreeMap<Voter, Row>;

/// A voter's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The epoch it was written at.
    pub epoch: Epoch,
    /// Which of the voter's choices it holds: its revision.
    pub choice: u8,
    /// How often the voter is in the counts.
    pub counted: u8,
}

/// A client: one voter, who changes its mind a few times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    /// Which choice it wants to make.
    pub wants: u8,
    /// Whether that is on its way.
    pub sent: bool,
    /// The last choice that was acknowledged; 0 for none.
    pub acknowledged: u8,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Whether it has begun.
    pub alive: bool,
    /// Whether it waits for what it did last.
    pub waits: bool,
    /// What it believes the record to be, if it believes its own notes.
    pub notes: Option<Box<Route<ShardNo>>>,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The move.
    pub move_id: MoveId,
    /// What of it.
    pub wish: Wish,
    /// How many more moves follow.
    pub more: u8,
}

/// Something on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Letter {
    /// A vote, sent by a router to the shard that it believes in.
    Vote {
        /// Who.
        voter: Voter,
        /// To which shard.
        shard: ShardNo,
        /// At which epoch.
        epoch: Epoch,
        /// Which choice.
        choice: u8,
    },
    /// What a worker does.
    Work {
        /// Which worker.
        worker: u8,
        /// What it does.
        work: Work,
    },
}

/// What a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// It changes the record, if that is still what was seen.
    Swap {
        /// What was seen.
        seen: Box<Route<ShardNo>>,
        /// What it becomes.
        then: Box<Route<ShardNo>>,
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
}

/// Faults that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A worker is taken for dead, and another takes over beside it.
    pub takeovers: u8,
    /// A letter arrives twice.
    pub copies: u8,
    /// A letter or its answer is lost, or is so late that its sender gives up
    /// on it.
    pub losses: u8,
    /// Somebody wants something else.
    pub wishes: u8,
}

impl World {
    /// The shard that holds the truth: the owner of the record.
    pub fn truth(&self) -> &Shard {
        &self.shards[usize::from(self.route.owner)]
    }

    /// Whether nothing of a move is left.
    pub fn is_calm(&self) -> bool {
        use ballast_vote_shard::shard::Holding;
        let owner = self.route.owner;
        self.route.moving.is_none()
            && self.shards.iter().enumerate().all(|(number, shard)| {
                let is_owner = number == usize::from(owner);
                match &shard.fence {
                    Some(fence) if is_owner => {
                        fence.holding == Holding::Owner && fence.epoch == self.route.epoch
                    }
                    Some(fence) => fence.holding == Holding::Gone && shard.rows.is_empty(),
                    None => !is_owner && shard.rows.is_empty(),
                }
            })
    }
}
