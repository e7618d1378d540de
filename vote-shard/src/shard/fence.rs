//! The fence of a slice: what a shard remembers of a slice that it ever held.
//!
//! ```text
//!   adopt ─────────────────────► Owner ◄──── unseal ──┐
//!                                  │                  │
//!                                  └──── seal ──► Sealed ── retire ──► Retired
//!   prepare ─► Importing ── activate ─► Owner                           │  │
//!                ▲ └───────────── purge ──────────► Gone ◄──── purge ───┘  │
//!                └────────────── prepare, by a later migration ────────────┘
//!
//!   recut, in one step:  Sealed ──► Gone, and others ──► Owner
//! ```
//! Pure: [`Fence`] is the state, its methods are the transitions. A fence
//! survives purges and cancelled migrations. Its epoch and token never
//! decrease, so late workers and routers with old routes cannot do harm.

pub use ballast_domain::moving::MigrationId;
use ballast_domain::tenant::Epoch;
use serde::{Deserialize, Serialize};

use super::error::FenceError;

/// A shard's relation to a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Holding {
    /// A migration is copying its data here.
    Importing,
    /// The shard owns it.
    Owner,
    /// It accepts no writes until the migration is decided.
    Sealed,
    /// Another shard owns it; the data is still here.
    Retired,
    /// The data has been removed; the fence stays.
    Gone,
}

impl Holding {
    /// Its name, for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Importing => "importing",
            Self::Owner => "owned",
            Self::Sealed => "sealed",
            Self::Retired => "retired",
            Self::Gone => "gone",
        }
    }
}

/// The migration on whose behalf a slice changes, and the fencing token of its
/// worker's lease. Tokens increase over all migrations of a slice: a worker
/// with a lower token than the recorded one has lost its lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MigrationToken {
    /// The migration.
    pub migration_id: MigrationId,
    /// The fencing token.
    pub token: u64,
}

/// What a shard remembers of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// The epoch. Never decreases.
    pub epoch: Epoch,
    /// The shard's relation to the slice.
    pub holding: Holding,
    /// The migration that changed it last.
    #[serde(rename = "moveID", default, skip_serializing_if = "Option::is_none")]
    pub migration_id: Option<MigrationId>,
    /// The highest token so far. Never decreases.
    #[serde(default)]
    pub token: u64,
}

/// Why the state of a slice does not allow an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceStateError {
    /// A worker with a newer lease has changed the slice.
    #[error("stale fencing token: a worker with token {highest} has taken over")]
    StaleToken {
        /// The highest token so far. Never decreases.
        highest: u64,
    },
    /// Another migration holds the slice.
    #[error("another migration holds the slice")]
    OtherMigration,
    /// The slice's holding does not allow the operation.
    #[error("the slice is {} at epoch {}", holding.name(), epoch.0)]
    WrongHolding {
        /// The holding.
        holding: Holding,
        /// At which epoch.
        epoch: Epoch,
    },
    /// The shard has no fence for the slice.
    #[error("the shard has no fence for the slice")]
    UnknownSlice,
    /// Only closed polls can be archived.
    #[error("the poll is open")]
    PollOpen,
    /// The file's rows differ from the shard's.
    #[error("the file's rows differ from the poll's")]
    RowsDiffer,
    /// The slices cannot be cut.
    #[error("cannot cut the slices: {0}")]
    InvalidRecut(&'static str),
    /// A poll is outside of the slice's range.
    #[error("the poll is outside of the slice's range")]
    PollOutOfRange,
}

impl Fence {
    /// The fence of a newly created slice.
    pub fn new_owner(epoch: Epoch) -> Self {
        Self {
            epoch,
            holding: Holding::Owner,
            migration_id: None,
            token: 0,
        }
    }

    /// Checks whether a write at this epoch is allowed.
    pub fn admits(fence: Option<&Self>, epoch: Epoch) -> Result<(), FenceError> {
        let Some(fence) = fence else {
            return Err(FenceError::NotOwner { epoch: None });
        };
        let known = fence.epoch;
        match fence.holding {
            _ if epoch > known => Err(FenceError::Behind { epoch: known }),
            Holding::Owner if epoch == known => Ok(()),
            Holding::Sealed => Err(FenceError::Sealed { epoch: known }),
            // The registry has decided; the activation is on its way.
            Holding::Importing if epoch == known => Err(FenceError::Behind { epoch: known }),
            _ => Err(FenceError::NotOwner { epoch: Some(known) }),
        }
    }

    /// Checks whether reads at this epoch are authoritative. A sealed slice
    /// does not change, so it serves reads until the migration is decided.
    pub fn serves(fence: Option<&Self>, epoch: Epoch) -> Result<(), FenceError> {
        match fence {
            Some(fence) if fence.holding == Holding::Sealed && epoch <= fence.epoch => Ok(()),
            _ => Self::admits(fence, epoch),
        }
    }

    /// Whether the caller must confirm, after the read, that the registry still
    /// names this shard. A sealed slice does not change, but the registry may
    /// have given it to another shard that has accepted votes since.
    #[must_use]
    pub fn must_be_confirmed(fence: Option<&Self>) -> bool {
        fence.is_some_and(|fence| fence.holding == Holding::Sealed)
    }

    /// Starts the import for a migration. Data from an earlier migration stays:
    /// of each row the newer version wins, and the digests show the difference.
    pub fn prepare(
        fence: Option<&Self>,
        epoch: Epoch,
        token: &MigrationToken,
    ) -> Result<Self, SliceStateError> {
        if let Some(fence) = fence {
            fence.check_token(token)?;
            let same_move = fence.migration_id.as_ref() == Some(&token.migration_id);
            match fence.holding {
                Holding::Importing if same_move && fence.epoch == epoch => {}
                Holding::Gone | Holding::Retired | Holding::Importing if epoch > fence.epoch => {}
                _ => return Err(fence.wrong_holding()),
            }
        }
        Ok(Self::with_holding(Holding::Importing, epoch, token))
    }

    /// Seals the slice at the migration's fresh epoch.
    pub fn seal(&self, epoch: Epoch, token: &MigrationToken) -> Result<Self, SliceStateError> {
        self.check_token(token)?;
        match self.holding {
            Holding::Owner if epoch > self.epoch => {}
            Holding::Sealed if self.is_from(epoch, token) => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Sealed, epoch, token))
    }

    /// Makes the shard the owner again, at a newer epoch than the sealed one.
    /// This also raises a slice that is not sealed yet, so that a seal still on
    /// its way is stale.
    pub fn unseal(&self, epoch: Epoch, token: &MigrationToken) -> Result<Self, SliceStateError> {
        self.check_token(token)?;
        match self.holding {
            Holding::Sealed if epoch > self.epoch => self.check_migration(token)?,
            Holding::Owner if epoch > self.epoch => {}
            Holding::Owner if self.is_from(epoch, token) => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Owner, epoch, token))
    }

    /// Stays Importing, at the epoch at which the source is sealed: from now on
    /// rows are only added. So what is equal after this stays equal until the
    /// activation.
    pub fn mark_ready(
        &self,
        epoch: Epoch,
        token: &MigrationToken,
    ) -> Result<Self, SliceStateError> {
        self.check_migration(token)?;
        match self.holding {
            Holding::Importing if epoch >= self.epoch => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Importing, epoch, token))
    }

    /// Makes the shard the owner of the imported slice.
    pub fn activate(&self, epoch: Epoch, token: &MigrationToken) -> Result<Self, SliceStateError> {
        self.check_migration(token)?;
        match self.holding {
            Holding::Importing if epoch >= self.epoch => {}
            Holding::Owner if self.is_from(epoch, token) => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Owner, epoch, token))
    }

    /// Ends the ownership.
    pub fn retire(&self, epoch: Epoch, token: &MigrationToken) -> Result<Self, SliceStateError> {
        self.check_migration(token)?;
        match self.holding {
            Holding::Sealed if epoch >= self.epoch => {}
            Holding::Retired if self.is_from(epoch, token) => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Retired, epoch, token))
    }

    /// Checks whether this migration may import rows.
    pub fn may_import(&self, token: &MigrationToken) -> Result<(), SliceStateError> {
        self.check_migration(token)?;
        match self.holding {
            // A migration streams writes back into the slice that it retired
            // here, which keeps the way back short.
            Holding::Importing | Holding::Retired => Ok(()),
            _ => Err(self.wrong_holding()),
        }
    }

    /// Checks whether a poll may be discarded in order to copy it again.
    /// `known` is the latest epoch that the caller knows: a caller that decided
    /// before the slice was marked ready is too late.
    pub fn may_discard(&self, known: Epoch, token: &MigrationToken) -> Result<(), SliceStateError> {
        self.may_import(token)?;
        match self.epoch <= known {
            true => Ok(()),
            false => Err(self.wrong_holding()),
        }
    }

    /// Checks whether this migration may remove data.
    pub fn may_purge(&self, token: &MigrationToken) -> Result<(), SliceStateError> {
        self.check_token(token)?;
        let same_move = self.migration_id.as_ref() == Some(&token.migration_id);
        match self.holding {
            Holding::Retired | Holding::Gone => Ok(()),
            Holding::Importing if same_move => Ok(()),
            Holding::Importing => Err(SliceStateError::OtherMigration),
            _ => Err(self.wrong_holding()),
        }
    }

    /// Becomes Gone because other slices take its polls. Requires that this
    /// token has sealed it at this epoch.
    pub fn recut(&self, epoch: Epoch, token: &MigrationToken) -> Result<Self, SliceStateError> {
        self.check_migration(token)?;
        match self.holding {
            Holding::Sealed if self.epoch == epoch => {}
            _ => return Err(self.wrong_holding()),
        }
        Ok(Self::with_holding(Holding::Gone, epoch, token))
    }

    /// The fence of a child slice, which the shard owns.
    #[must_use]
    pub fn new_child_owner(epoch: Epoch, token: &MigrationToken) -> Self {
        Self::with_holding(Holding::Owner, epoch, token)
    }

    /// The fence that stays after a purge, also if the data never arrived. It
    /// refuses commands at this epoch or below.
    #[must_use]
    pub fn new_tombstone(fence: Option<&Self>, epoch: Epoch, token: &MigrationToken) -> Self {
        let known = fence.map_or(epoch, |fence| fence.epoch.max(epoch));
        Self::with_holding(Holding::Gone, known, token)
    }

    /// The owner at a higher epoch, for a restore: this fences everybody who
    /// knows the old epoch, and ends a migration that had sealed the slice.
    pub fn restore(&self, epoch: Epoch) -> Result<Self, SliceStateError> {
        match self.holding {
            Holding::Owner | Holding::Sealed if epoch > self.epoch => Ok(Self {
                epoch,
                holding: Holding::Owner,
                ..self.clone()
            }),
            _ => Err(self.wrong_holding()),
        }
    }

    fn with_holding(holding: Holding, epoch: Epoch, token: &MigrationToken) -> Self {
        Self {
            epoch,
            holding,
            migration_id: Some(token.migration_id.clone()),
            token: token.token,
        }
    }

    fn is_from(&self, epoch: Epoch, token: &MigrationToken) -> bool {
        self.epoch == epoch && self.migration_id.as_ref() == Some(&token.migration_id)
    }

    fn check_token(&self, token: &MigrationToken) -> Result<(), SliceStateError> {
        if token.token < self.token {
            let highest = self.token;
            return Err(SliceStateError::StaleToken { highest });
        }
        Ok(())
    }

    fn check_migration(&self, token: &MigrationToken) -> Result<(), SliceStateError> {
        self.check_token(token)?;
        if self.migration_id.as_ref() == Some(&token.migration_id) {
            Ok(())
        } else {
            Err(SliceStateError::OtherMigration)
        }
    }

    fn wrong_holding(&self) -> SliceStateError {
        SliceStateError::WrongHolding {
            holding: self.holding,
            epoch: self.epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(move_id: &str, token: u64) -> MigrationToken {
        MigrationToken {
            migration_id: MigrationId(move_id.to_owned()),
            token,
        }
    }

    fn owner(epoch: u64) -> Fence {
        Fence::new_owner(Epoch(epoch))
    }

    #[test]
    fn only_the_owner_at_exactly_its_epoch_accepts_a_write() {
        let sealed = owner(1).seal(Epoch(2), &token("m", 1)).unwrap();
        let importing = Fence::prepare(None, Epoch(2), &token("m", 1)).unwrap();
        let retired = sealed.retire(Epoch(2), &token("m", 1)).unwrap();
        let epoch = |n| Epoch(n);
        let cases = [
            (None, 1, Err(FenceError::NotOwner { epoch: None })),
            (Some(owner(2)), 2, Ok(())),
            (
                Some(owner(2)),
                1,
                Err(FenceError::NotOwner {
                    epoch: Some(epoch(2)),
                }),
            ),
            (
                Some(owner(2)),
                3,
                Err(FenceError::Behind { epoch: epoch(2) }),
            ),
            (
                Some(sealed.clone()),
                1,
                Err(FenceError::Sealed { epoch: epoch(2) }),
            ),
            (Some(sealed), 2, Err(FenceError::Sealed { epoch: epoch(2) })),
            (
                Some(importing),
                2,
                Err(FenceError::Behind { epoch: epoch(2) }),
            ),
            (
                Some(retired),
                1,
                Err(FenceError::NotOwner {
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
        let sealed = owner(1).seal(Epoch(2), &token("m", 1)).unwrap();
        assert_eq!(Fence::serves(Some(&owner(1)), Epoch(1)), Ok(()));
        assert_eq!(Fence::serves(Some(&sealed), Epoch(1)), Ok(()));
        assert_eq!(Fence::serves(Some(&sealed), Epoch(2)), Ok(()));
        assert!(Fence::serves(Some(&sealed), Epoch(3)).is_err());
        assert!(Fence::must_be_confirmed(Some(&sealed)));
        assert!(!Fence::must_be_confirmed(Some(&owner(1))));
        let retired = sealed.retire(Epoch(2), &token("m", 1)).unwrap();
        for epoch in 1..4 {
            assert!(Fence::serves(Some(&retired), Epoch(epoch)).is_err());
        }
        assert!(Fence::serves(None, Epoch(1)).is_err());
    }

    #[test]
    fn a_late_worker_and_another_migration_change_nothing() {
        let sealed = owner(1).seal(Epoch(2), &token("m", 5)).unwrap();
        let late = Err(SliceStateError::StaleToken { highest: 5 });
        assert_eq!(sealed.unseal(Epoch(3), &token("m", 4)), late);
        let other = Err(SliceStateError::OtherMigration);
        assert_eq!(sealed.unseal(Epoch(3), &token("n", 6)), other);
        assert!(sealed.seal(Epoch(9), &token("n", 6)).is_err());
        assert!(owner(1).may_purge(&token("m", 9)).is_err());
        assert!(sealed.may_purge(&token("m", 9)).is_err());
    }

    #[test]
    fn a_ready_slice_refuses_discards_at_older_epochs() {
        let m = token("m", 1);
        let importing = Fence::prepare(None, Epoch(4), &m).unwrap();
        assert_eq!(importing.may_discard(Epoch(4), &m), Ok(()));
        let ready = importing.mark_ready(Epoch(5), &m).unwrap();
        assert_eq!(ready.mark_ready(Epoch(5), &m).unwrap(), ready);
        assert!(ready.may_discard(Epoch(4), &m).is_err());
        assert_eq!(ready.may_import(&m), Ok(()));
        // The seal was postponed: a caller that knows the new epoch may
        // discard.
        assert_eq!(ready.may_discard(Epoch(6), &m), Ok(()));
        assert!(ready.mark_ready(Epoch(4), &m).is_err());
        assert!(ready.mark_ready(Epoch(6), &token("n", 2)).is_err());
        let active = ready.activate(Epoch(5), &m).unwrap();
        assert!(active.mark_ready(Epoch(6), &m).is_err());
        assert!(active.may_discard(Epoch(9), &m).is_err());
    }

    #[test]
    fn every_step_can_be_repeated_and_epochs_never_fall() {
        let m = token("m", 1);
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
        let gone = Fence::new_tombstone(Some(&retired), Epoch(4), &m);
        assert!(Fence::prepare(Some(&gone), Epoch(4), &token("n", 2)).is_err());
        assert!(Fence::prepare(Some(&gone), Epoch(5), &token("n", 2)).is_ok());
    }
}
