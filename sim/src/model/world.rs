//! The state of the model: everything that a migration touches, as small as possible.

use super::small::{ModelCommand, ModelFence, ModelHolding, ModelRoute, ModelToken, ShardNumber};

/// The maximum number of clients, each of which is one voter.
pub(super) const CLIENTS: usize = 2;
/// The maximum number of workers.
pub(super) const WORKERS: usize = 3;
/// The maximum number of messages without a sender.
pub(super) const STRAYS: usize = 2;

/// A state of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelWorld {
    /// The slice's record in the registry.
    pub route: ModelRoute,
    /// The shards.
    pub shards: [ModelShard; 2],
    /// What routers may believe: for each shard the epochs, one bit each, at which the
    /// record ever named it the owner.
    pub heard: [u32; 2],
    /// Those epochs at which the record ever said that the owner alone acknowledges.
    pub alone: [u32; 2],
    /// The last choice of each client that was acknowledged; 0 for none.
    pub acknowledged: [u8; CLIENTS],
    /// What abandoning an owner must not lose: the last choice of each client that was
    /// acknowledged before the migration or its cutover, or streamed back since.
    pub kept: [u8; CLIENTS],
    /// The shard that was abandoned, and whether it owned the slice then.
    pub lost: Option<(ShardNumber, bool)>,
    /// The shard whose copy was left to be removed later, and the epoch of that.
    pub behind: Option<(ShardNumber, u8)>,
    /// The workers; a later one has a later lease.
    pub workers: [ModelWorker; WORKERS],
    /// Messages whose sender no longer waits for them: they arrive at any time, any
    /// number of times, or never.
    pub strays: [Option<Message>; STRAYS],
    /// How many bounded events may still happen.
    pub left: RemainingBudget,
}

/// How many bounded events may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemainingBudget {
    /// Migrations that start, forward or reverse.
    pub moves: u8,
    /// Postponed seals.
    pub retreats: u8,
    /// Messages that lose their sender.
    pub strays: u8,
    /// Repairs of a damaged copy.
    pub repairs: u8,
    /// Abandoned owners.
    pub abandonments: u8,
    /// Copies left to be removed later.
    pub leaves: u8,
}

/// A shard: its fence and its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ModelShard {
    /// The fence.
    pub fence: Option<ModelFence>,
    /// The voters' rows.
    pub rows: ModelRows,
}

/// The rows of a shard, one for each voter.
pub(super) type ModelRows = [ModelRow; CLIENTS];

/// A voter's row; absent while its epoch is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ModelRow {
    /// The epoch it was written at.
    pub epoch: u8,
    /// Which of the voter's choices it holds: its revision.
    pub choice: u8,
    /// How often the voter is counted.
    pub counted: u8,
}

/// A worker. It keeps nothing between two observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ModelWorker {
    /// The record that it has read, if it has not read the shards yet.
    pub seen: Option<ModelRoute>,
    /// The message that it waits for.
    pub message: Option<Message>,
}

/// A message of a worker, in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// Replaces the record, if it is still the one that was read.
    UpdateRecord {
        /// The record that was read.
        seen: ModelRoute,
        /// The new record.
        then: ModelRoute,
    },
    /// Sends a shard a command.
    Command {
        /// The shard.
        shard: ShardNumber,
        /// The command.
        op: ModelCommand,
        /// The sender's token.
        order: ModelToken,
    },
    /// Imports rows into a shard.
    Import {
        /// The shard.
        shard: ShardNumber,
        /// The rows.
        rows: ModelRows,
        /// The sender's token.
        order: ModelToken,
    },
    /// Makes a shard discard its rows, so that they are copied again.
    Discard {
        /// The shard.
        shard: ShardNumber,
        /// The highest epoch that the sender knew of.
        known: u8,
        /// The sender's token.
        order: ModelToken,
    },
}

impl ModelRow {
    /// Whether the row exists.
    pub fn is_some(&self) -> bool {
        self.epoch > 0
    }

    /// Its version.
    pub fn version(&self) -> (u8, u8) {
        (self.epoch, self.choice)
    }
}

impl ModelShard {
    /// What the fence says.
    pub fn holding(&self) -> Option<ModelHolding> {
        self.fence.map(|fence| fence.holding)
    }

    /// Whether one of these rows is new to the shard.
    pub fn lacks(&self, rows: &ModelRows) -> bool {
        let mut both = rows.iter().zip(&self.rows);
        both.any(|(new, known)| new.is_some() && known.version() < new.version())
    }

    /// Whether the shard has no rows.
    pub fn is_empty(&self) -> bool {
        !self.rows.iter().any(ModelRow::is_some)
    }
}

impl ModelWorld {
    /// The recorded owner, whose rows are the truth.
    pub fn truth(&self) -> &ModelShard {
        &self.shards[usize::from(self.route.owner)]
    }

    /// Whether this shard was abandoned.
    pub fn is_lost(&self, number: usize) -> bool {
        self.lost
            .is_some_and(|(lost, _)| usize::from(lost) == number)
    }

    /// Whether nothing of a migration is left.
    pub fn is_calm(&self) -> bool {
        let owner = usize::from(self.route.owner);
        self.route.moving.is_none()
            && self
                .shards
                .iter()
                .enumerate()
                .all(|(number, shard)| match &shard.fence {
                    // An abandoned shard keeps its data, but must know.
                    fence if self.is_lost(number) => fence.is_none_or(|fence| {
                        matches!(fence.holding, ModelHolding::Retired | ModelHolding::Gone)
                    }),
                    Some(fence) if number == owner => {
                        fence.holding == ModelHolding::Owner && fence.epoch == self.route.epoch
                    }
                    Some(fence) => fence.holding == ModelHolding::Gone && shard.is_empty(),
                    None => number != owner && shard.is_empty(),
                })
    }

    /// The same world without messages in flight.
    pub fn without_messages(mut self) -> Self {
        self.strays = [None; STRAYS];
        for worker in &mut self.workers {
            worker.message = None;
        }
        self
    }

    /// The representative of all worlds that differ only in the numbering of the voters
    /// and the order of the strays.
    pub(super) fn canonical(mut self) -> Self {
        // Present strays first.
        self.strays.sort_unstable_by(|one, two| two.cmp(one));
        // A single voter stays the first one.
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

    /// All state of a voter.
    fn column(&self, voter: usize) -> (u8, u8, [ModelRow; 2 + WORKERS + STRAYS]) {
        let mut column = [ModelRow::default(); 2 + WORKERS + STRAYS];
        let shards = self.shards.iter().map(|shard| Some(&shard.rows));
        let workers = self.workers.iter().map(|worker| worker.message.as_ref());
        let messages = workers.chain(self.strays.iter().map(Option::as_ref));
        let rows = shards.chain(messages.map(|message| message.and_then(Message::rows)));
        for (place, rows) in column.iter_mut().zip(rows) {
            *place = rows.map_or(ModelRow::default(), |rows| rows[voter]);
        }
        (self.acknowledged[voter], self.kept[voter], column)
    }

    fn all_rows(&mut self) -> impl Iterator<Item = &mut ModelRows> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.message);
        let messages = workers.chain(&mut self.strays).flatten();
        let shards = self.shards.iter_mut().map(|shard| &mut shard.rows);
        shards.chain(messages.filter_map(|message| match message {
            Message::Import { rows, .. } => Some(rows),
            _ => None,
        }))
    }
}

impl Message {
    fn rows(&self) -> Option<&ModelRows> {
        match self {
            Self::Import { rows, .. } => Some(rows),
            _ => None,
        }
    }
}
