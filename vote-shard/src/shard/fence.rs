//! The fence: what a shard remembers of every slice it ever held.
//!
//! ```text
//!   found ─────────────────────► Owner ◄──── unseal ──┐
//!                                  │                  │
//!                                  └──── seal ──► Sealed ── retire ──► Retired
//!   prepare ─► Importing ── activate ─► Owner                           │  │
//!                ▲ └───────────── purge ──────────► Gone ◄──── purge ───┘  │
//!                └───────────────── prepare, by a later move ─────────────┘
//!
//!   recut, in one step:  Sealed ──► Gone, and others ──► Owner
//! ```
//! Pure: [`Fence`] is the state, its methods are the transitions. The record
//! outlives purge and rollback, and its epoch and token never fall, so that a
//! late worker or a stale router is harmless for ever.

pub use ballast_domain::moving::MoveId;
use ballast_domain::tenant::Epoch;
use serde::{Deserialize, Serialize};

use super::error::Fenced;

/// What a slice is to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Holding {
    /// Its data is being copied here.
    Importing,
    /// The shard owns it.
    Owner,
    /// It takes no writes: a move decides what becomes of it.
    Sealed,
    /// Another shard owns it; the data is still here.
    Retired,
    /// The data is gone; the record stays.
    Gone,
}

/// On whose behalf a slice is changed: the move, and the fencing token of its
/// worker's lease. Tokens rise over all moves of a slice: whoever comes with a
/// lower one than was seen has lost its lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Order {
    /// The move.
    pub move_id: MoveId,
    /// The token.
    pub token: u64,
}

/// What a shard remembers of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// The epoch: never falls.
    pub epoch: Epoch,
    /// What the slice is to the shard.
    pub holding: Holding,
    /// The move that changed it last.
    #[serde(rename = "moveID", default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<MoveId>,
    /// The highest token seen: never falls.
    #[serde(default)]
    pub token: u64,
}

/// An operation does not fit the state of its slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A worker with a newer lease was here.
    #[error("a worker with token {highest} has been here; this one is late")]
    Late {
        /// The highest token.
        highest: u64,
    },
    /// Another move is at work on the slice.
    #[error("the slice belongs to another move")]
    OtherMove,
    /// The state does not allow it.
    #[error("the slice is {holding:?} at epoch {}", epoch.0)]
    State {
        /// What it is.
        holding: Holding,
        /// At which epoch.
        epoch: Epoch,
    },
    /// The shard has never heard of the slice.
    #[error("the shard has never held the slice")]
    Unknown,
    /// Only a closed poll is archived.
    #[error("the poll is open")]
    PollOpen,
    /// A file holds other rows than the shard.
    #[error("the file does not hold the poll's rows")]
    OtherRows,
    /// The slices that are to be cut are not what they should be.
    #[error("the slices cannot be cut so: {0}")]
    Cut(&'static str),
    /// A poll is none of the slice's.
    #[error("a poll does not belong to the slice")]
    OtherSlice,
}

impl Fence {
    /// A slice that has just been created here.
    pub fn founded(epoch: Epoch) -> Self {
        Self {
            epoch,
            holding: Holding::Owner,
            move_id: None,
            token: 0,
        }
    }

    /// Whether a write at this epoch may happen.
    pub fn admits(fence: Option<&Self>, epoch: Epoch) -> Result<(), Fenced> {
        let Some(fence) = fence else {
            return Err(Fenced::Moved { epoch: None });
        };
        let known = fence.epoch;
        match fence.holding {
            _ if epoch > known => Err(Fenced::Behind { epoch: known }),
            Holding::Owner if epoch == known => Ok(()),
            Holding::Sealed => Err(Fenced::Sealed { epoch: known }),
            // The registry has decided, and this shard will be told soon.
            Holding::Importing if epoch == known => Err(Fenced::Behind { epoch: known }),
            _ => Err(Fenced::Moved { epoch: Some(known) }),
        }
    }

    /// Whether what is read here at this epoch is the truth. A sealed slice
    /// does not change, so it is read until the move is decided.
    pub fn serves(fence: Option<&Self>, epoch: Epoch) -> Result<(), Fenced> {
        match fence {
            Some(fence) if fence.holding == Holding::Sealed && epoch <= fence.epoch => Ok(()),
            _ => Self::admits(fence, epoch),
        }
    }

    /// Whether what is read here is the truth only as long as the record still
    /// names this shard, which must be asked after the read. A sealed slice does
    /// not change; but the record may have given it to another shard, which may
    /// have taken votes since, and nobody has told this one.
    #[must_use]
    pub fn must_be_confirmed(fence: Option<&Self>) -> bool {
        fence.is_some_and(|fence| fence.holding == Holding::Sealed)
    }

    /// Importing, for a move that begins. What an earlier move left here is
    /// kept: of each row the newer version stays, and the digests tell.
    pub fn prepare(fence: Option<&Self>, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        if let Some(fence) = fence {
            fence.check_token(order)?;
            let same_move = fence.move_id.as_ref() == Some(&order.move_id);
            match fence.holding {
                Holding::Importing if same_move && fence.epoch == epoch => {}
                Holding::Gone | Holding::Retired | Holding::Importing if epoch > fence.epoch => {}
                _ => return Err(fence.unfit()),
            }
        }
        Ok(Self::under(Holding::Importing, epoch, order))
    }

    /// Sealed at the move's fresh epoch.
    pub fn seal(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_token(order)?;
        match self.holding {
            Holding::Owner if epoch > self.epoch => {}
            Holding::Sealed if self.is_at(epoch, order) => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Sealed, epoch, order))
    }

    /// The owner again, at a newer epoch than the one it was sealed at. One
    /// that was not sealed yet is raised as well: the seal that is on its way
    /// then comes too late.
    pub fn unseal(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_token(order)?;
        match self.holding {
            Holding::Sealed if epoch > self.epoch => self.check_move(order)?,
            Holding::Owner if epoch > self.epoch => {}
            Holding::Owner if self.is_at(epoch, order) => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Owner, epoch, order))
    }

    /// Importing still, at the epoch that the source is sealed at: what is there
    /// is only added to from now on. So what is found equal after this stays so
    /// until it is owned.
    pub fn ready(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_move(order)?;
        match self.holding {
            Holding::Importing if epoch >= self.epoch => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Importing, epoch, order))
    }

    /// The owner of what was imported.
    pub fn activate(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_move(order)?;
        match self.holding {
            Holding::Importing if epoch >= self.epoch => {}
            Holding::Owner if self.is_at(epoch, order) => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Owner, epoch, order))
    }

    /// The owner no longer.
    pub fn retire(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_move(order)?;
        match self.holding {
            Holding::Sealed if epoch >= self.epoch => {}
            Holding::Retired if self.is_at(epoch, order) => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Retired, epoch, order))
    }

    /// Whether data may be taken in for a move.
    pub fn may_import(&self, order: &Order) -> Result<(), Unfit> {
        self.check_move(order)?;
        match self.holding {
            // Into what it left, a move brings back what was written since: so
            // the way back is short.
            Holding::Importing | Holding::Retired => Ok(()),
            _ => Err(self.unfit()),
        }
    }

    /// Whether something may be forgotten in order to be copied anew, by somebody
    /// who knows of no later epoch than this. Whoever looked before the slice was
    /// made ready comes too late.
    pub fn may_discard(&self, known: Epoch, order: &Order) -> Result<(), Unfit> {
        self.may_import(order)?;
        match self.epoch <= known {
            true => Ok(()),
            false => Err(self.unfit()),
        }
    }

    /// Whether data may be removed for a move.
    pub fn may_purge(&self, order: &Order) -> Result<(), Unfit> {
        self.check_token(order)?;
        let same_move = self.move_id.as_ref() == Some(&order.move_id);
        match self.holding {
            Holding::Retired | Holding::Gone => Ok(()),
            Holding::Importing if same_move => Ok(()),
            Holding::Importing => Err(Unfit::OtherMove),
            _ => Err(self.unfit()),
        }
    }

    /// Gone, because others have taken its polls over: only what this order has
    /// sealed at this epoch.
    pub fn cut(&self, epoch: Epoch, order: &Order) -> Result<Self, Unfit> {
        self.check_move(order)?;
        match self.holding {
            Holding::Sealed if self.epoch == epoch => {}
            _ => return Err(self.unfit()),
        }
        Ok(Self::under(Holding::Gone, epoch, order))
    }

    /// The owner of a part of what was cut.
    #[must_use]
    pub fn part(epoch: Epoch, order: &Order) -> Self {
        Self::under(Holding::Owner, epoch, order)
    }

    /// The record that stays when the data is gone, or never came: whatever
    /// was ordered at this epoch or below it comes too late.
    #[must_use]
    pub fn gone(fence: Option<&Self>, epoch: Epoch, order: &Order) -> Self {
        let known = fence.map_or(epoch, |fence| fence.epoch.max(epoch));
        Self::under(Holding::Gone, known, order)
    }

    /// The owner at a higher epoch, as after a restore: whoever knows the old
    /// one is fenced, and a move that had sealed it is not gone on with.
    pub fn restored(&self, epoch: Epoch) -> Result<Self, Unfit> {
        match self.holding {
            Holding::Owner | Holding::Sealed if epoch > self.epoch => Ok(Self {
                epoch,
                holding: Holding::Owner,
                ..self.clone()
            }),
            _ => Err(self.unfit()),
        }
    }

    fn under(holding: Holding, epoch: Epoch, order: &Order) -> Self {
        Self {
            epoch,
            holding,
            move_id: Some(order.move_id.clone()),
            token: order.token,
        }
    }

    fn is_at(&self, epoch: Epoch, order: &Order) -> bool {
        self.epoch == epoch && self.move_id.as_ref() == Some(&order.move_id)
    }

    fn check_token(&self, order: &Order) -> Result<(), Unfit> {
        if order.token < self.token {
            let highest = self.token;
            return Err(Unfit::Late { highest });
        }
        Ok(())
    }

    fn check_move(&self, order: &Order) -> Result<(), Unfit> {
        self.check_token(order)?;
        if self.move_id.as_ref() == Some(&order.move_id) {
            Ok(())
        } else {
            Err(Unfit::OtherMove)
        }
    }

    fn unfit(&self) -> Unfit {
        Unfit::State {
            holding: self.holding,
            epoch: self.epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(move_id: &str, token: u64) -> Order {
        Order {
            move_id: MoveId(move_id.to_owned()),
            token,
        }
    }

    fn owner(epoch: u64) -> Fence {
        Fence::founded(Epoch(epoch))
    }

    #[test]
    fn only_the_owner_at_the_very_epoch_takes_a_write() {
        let sealed = owner(1).seal(Epoch(2), &order("m", 1)).unwrap();
        let importing = Fence::prepare(None, Epoch(2), &order("m", 1)).unwrap();
        let retired = sealed.retire(Epoch(2), &order("m", 1)).unwrap();
        let epoch = |n| Epoch(n);
        let cases = [
            (None, 1, Err(Fenced::Moved { epoch: None })),
            (Some(owner(2)), 2, Ok(())),
            (
                Some(owner(2)),
                1,
                Err(Fenced::Moved {
                    epoch: Some(epoch(2)),
                }),
            ),
            (Some(owner(2)), 3, Err(Fenced::Behind { epoch: epoch(2) })),
            (
                Some(sealed.clone()),
                1,
                Err(Fenced::Sealed { epoch: epoch(2) }),
            ),
            (Some(sealed), 2, Err(Fenced::Sealed { epoch: epoch(2) })),
            (Some(importing), 2, Err(Fenced::Behind { epoch: epoch(2) })),
            (
                Some(retired),
                1,
                Err(Fenced::Moved {
                    epoch: Some(epoch(2)),
                }),
            ),
        ];
        for (fence, at, expected) in cases {
            assert_eq!(
                Fence::admits(fence.as_ref(), Epoch(at)),
                expected,
                "{fence:?} {at}"
            );
        }
    }

    #[test]
    fn a_sealed_slice_is_read_and_a_retired_one_is_not() {
        let sealed = owner(1).seal(Epoch(2), &order("m", 1)).unwrap();
        assert_eq!(Fence::serves(Some(&owner(1)), Epoch(1)), Ok(()));
        assert_eq!(Fence::serves(Some(&sealed), Epoch(1)), Ok(()));
        assert_eq!(Fence::serves(Some(&sealed), Epoch(2)), Ok(()));
        assert!(Fence::serves(Some(&sealed), Epoch(3)).is_err());
        assert!(Fence::must_be_confirmed(Some(&sealed)));
        assert!(!Fence::must_be_confirmed(Some(&owner(1))));
        let retired = sealed.retire(Epoch(2), &order("m", 1)).unwrap();
        for epoch in 1..4 {
            assert!(Fence::serves(Some(&retired), Epoch(epoch)).is_err());
        }
        assert!(Fence::serves(None, Epoch(1)).is_err());
    }

    #[test]
    fn a_late_worker_and_another_move_change_nothing() {
        let sealed = owner(1).seal(Epoch(2), &order("m", 5)).unwrap();
        let late = Err(Unfit::Late { highest: 5 });
        assert_eq!(sealed.unseal(Epoch(3), &order("m", 4)), late);
        let other = Err(Unfit::OtherMove);
        assert_eq!(sealed.unseal(Epoch(3), &order("n", 6)), other);
        assert!(sealed.seal(Epoch(9), &order("n", 6)).is_err());
        assert!(owner(1).may_purge(&order("m", 9)).is_err());
        assert!(sealed.may_purge(&order("m", 9)).is_err());
    }

    #[test]
    fn what_is_ready_is_not_taken_apart_by_whoever_looked_before() {
        let m = order("m", 1);
        let importing = Fence::prepare(None, Epoch(4), &m).unwrap();
        assert_eq!(importing.may_discard(Epoch(4), &m), Ok(()));
        let ready = importing.ready(Epoch(5), &m).unwrap();
        assert_eq!(ready.ready(Epoch(5), &m).unwrap(), ready);
        assert!(ready.may_discard(Epoch(4), &m).is_err());
        assert_eq!(ready.may_import(&m), Ok(()));
        // The seal was put off: whoever has looked since may.
        assert_eq!(ready.may_discard(Epoch(6), &m), Ok(()));
        assert!(ready.ready(Epoch(4), &m).is_err());
        assert!(ready.ready(Epoch(6), &order("n", 2)).is_err());
        let active = ready.activate(Epoch(5), &m).unwrap();
        assert!(active.ready(Epoch(6), &m).is_err());
        assert!(active.may_discard(Epoch(9), &m).is_err());
    }

    #[test]
    fn every_step_can_be_repeated_and_epochs_never_fall() {
        let m = order("m", 1);
        let sealed = owner(3).seal(Epoch(4), &m).unwrap();
        assert_eq!(sealed.seal(Epoch(4), &m).unwrap(), sealed);
        assert!(owner(3).seal(Epoch(3), &m).is_err());
        assert!(sealed.unseal(Epoch(4), &m).is_err());
        let again = sealed.unseal(Epoch(5), &m).unwrap();
        assert_eq!(again.unseal(Epoch(5), &m).unwrap(), again);
        let importing = Fence::prepare(None, Epoch(4), &m).unwrap();
        assert_eq!(
            Fence::prepare(Some(&importing), Epoch(4), &m).unwrap(),
            importing
        );
        let active = importing.activate(Epoch(4), &m).unwrap();
        assert_eq!(active.activate(Epoch(4), &m).unwrap(), active);
        assert!(active.may_import(&m).is_err());
        let retired = sealed.retire(Epoch(4), &m).unwrap();
        let gone = Fence::gone(Some(&retired), Epoch(4), &m);
        assert!(Fence::prepare(Some(&gone), Epoch(4), &order("n", 2)).is_err());
        assert!(Fence::prepare(Some(&gone), Epoch(5), &order("n", 2)).is_ok());
    }
}
