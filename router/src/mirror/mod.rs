//! Writes that count only when both sides of a move have them (`--window sync`).
//!
//! ```text
//!   owner has it ──► whoever is there first carries, for all who came before:
//!                    owner's changes ──► copy        (one round)
//!                ──► answered when a round that began afterwards is over
//! ```
//! An answer may depend on what was written long before it, such as `already`. So
//! it is not the write that is carried, but everything that the owner has taken up
//! to there; and a round goes on where the one before it ended.
//!
//! The copy takes it only while it is this move's. A slice that is taken back
//! without its owner is prepared for the way back first: from then on nothing
//! that only the owner has is acknowledged any more, whatever a router believes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::ShardId;
use ballast_domain::moving::{MoveId, Moving};
use ballast_domain::routes::Streamed;
use ballast_domain::tenant::{Epoch, Slice, SliceId};
use ballast_vote_shard::shard::{Cursor, Fenced, Order, Unfit};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};

use crate::State;
use crate::deliver::Place;

/// About how much is carried at once.
const PAGE_BYTES: usize = 1 << 20;

/// The copy that must have a write, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    shard_id: ShardId,
    move_id: MoveId,
}

impl Copy {
    /// The copy of a slice, if its route asks for one.
    pub(crate) fn of(slice: &Slice) -> Option<Self> {
        let moving: &Moving = slice.moving.as_ref()?;
        Some(Self {
            shard_id: moving.also_durable_on()?.clone(),
            move_id: moving.move_id.clone(),
        })
    }
}

/// What is carried for one move of a slice, since a cutover.
#[derive(Debug)]
struct Mirror {
    move_id: MoveId,
    epoch: Epoch,
    /// How many have asked for a round.
    asked: AtomicU64,
    turn: tokio::sync::Mutex<Rounds>,
}

/// How far it is.
#[derive(Debug, Default)]
struct Rounds {
    /// Where the next one begins, once that is known.
    cursor: Option<Cursor>,
    /// The highest token that the copy has seen: this is nobody's lease.
    token: u64,
    /// Those who asked up to here have what they wanted.
    done: u64,
    /// Those who asked up to here were told that it failed.
    failed: u64,
}

/// What is carried, by slice.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(Mutex<HashMap<SliceId, Arc<Mirror>>>);

impl Mirrors {
    fn of(&self, place: &Place, copy: &Copy) -> Arc<Mirror> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = &place.at;
        let known = all.get(&at.slice).filter(|known| {
            known.move_id == copy.move_id && known.epoch == at.epoch || known.epoch > at.epoch
        });
        if let Some(known) = known {
            return known.clone();
        }
        let mirror = Arc::new(Mirror {
            move_id: copy.move_id.clone(),
            epoch: at.epoch,
            asked: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
        });
        all.insert(at.slice.clone(), mirror.clone());
        mirror
    }

    pub(crate) fn forget(&self, slice: &SliceId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(slice);
    }
}

impl State {
    /// Waits until everything that the owner has taken is on the copy, too, if the
    /// route asks for that. When it cannot be, the route may be another one.
    pub(crate) async fn mirrored(&self, place: &Place) -> ShardResult<()> {
        let Some(copy) = &place.copy else {
            return Ok(());
        };
        let mirror = self.parts.mirrors.of(place, copy);
        let epoch = place.at.epoch;
        // Told as what has the route read anew: it is neither the owner's failure,
        // nor is it to be waited for longer than the record says.
        let behind = ShardError::Fenced(Fenced::Behind { epoch });
        if (&mirror.move_id, mirror.epoch) != (&copy.move_id, epoch) {
            // By a stale route.
            return Err(behind);
        }
        let ticket = mirror.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut rounds = mirror.turn.lock().await;
        if rounds.done >= ticket {
            return Ok(());
        }
        if rounds.failed >= ticket {
            return Err(behind);
        }
        // All who have asked by now have their writes at the owner.
        let asked = mirror.asked.load(Ordering::SeqCst);
        match self.carry(place, copy, &mut rounds).await {
            Ok(()) => {
                rounds.done = asked;
                Ok(())
            }
            Err(error) => {
                rounds.failed = asked;
                let (slice, shard) = (&place.at.slice, &copy.shard_id);
                tracing::debug!(%slice, %shard, %error, "the copy does not have it yet");
                Err(behind)
            }
        }
    }

    /// Carries what the owner has taken since the round before.
    async fn carry(&self, place: &Place, copy: &Copy, rounds: &mut Rounds) -> ShardResult<()> {
        let slice = &place.at.slice;
        let shard = self.parts.shards.shard(&copy.shard_id)?;
        let mut cursor = match rounds.cursor.take() {
            Some(cursor) => cursor,
            None => self.begin(copy).await?,
        };
        let mut is_taken = false;
        loop {
            let page = match place.shard.export(slice, &cursor, PAGE_BYTES).await {
                Err(ShardError::CursorTooOld) => {
                    cursor = Cursor::Start;
                    continue;
                }
                other => other.inspect_err(|_| rounds.cursor = Some(cursor.clone()))?,
            };
            if !page.changes.is_empty() {
                // Only whoever has it all goes on from behind it.
                rounds.cursor = Some(cursor);
                let order = Order {
                    move_id: copy.move_id.clone(),
                    token: rounds.token,
                };
                match shard.import(slice, &order, &page.changes).await {
                    Err(ShardError::Unfit(Unfit::Late { highest })) => {
                        rounds.token = highest;
                        let order = Order {
                            token: highest,
                            ..order
                        };
                        shard.import(slice, &order, &page.changes).await?;
                    }
                    other => other?,
                }
                is_taken = true;
            }
            cursor = page.next;
            rounds.cursor = Some(cursor.clone());
            if page.caught_up {
                break;
            }
        }
        match is_taken {
            true => Ok(()),
            // There was nothing new. But what the owner says is the truth only as
            // long as nobody has taken the slice back without it.
            false => is_kept_for(&*shard, copy, slice).await,
        }
    }

    /// Where the first round begins.
    async fn begin(&self, copy: &Copy) -> ShardResult<Cursor> {
        let id = copy.move_id.there();
        match self.parts.source.streamed_back(&id).await {
            Ok(Streamed::UpTo(position)) => Ok(Cursor::Changes { position }),
            Ok(Streamed::Unknown) => Ok(Cursor::Start),
            Ok(Streamed::NotYet) => Err(ShardError::unavailable("the cutover is being noted")),
            Err(_) => Err(ShardError::unavailable("the move's record cannot be read")),
        }
    }
}

/// That the copy is still this move's.
async fn is_kept_for(shard: &dyn VoteShard, copy: &Copy, slice: &SliceId) -> ShardResult<()> {
    let fence = shard.fence(slice).await?;
    let fence = fence.ok_or(ShardError::Unfit(Unfit::Unknown))?;
    let order = Order {
        move_id: copy.move_id.clone(),
        token: fence.token,
    };
    fence.may_import(&order).map_err(ShardError::Unfit)
}

#[cfg(test)]
mod tests;
