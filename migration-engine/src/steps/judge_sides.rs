//! Decides which side is wrong while a migration's window is open: the owner, or the
//! copy on the shard that the slice came from.
//!
//! ```text
//!   the owner's stored rows or files do not match what was written  ──► the owner
//!   the copy's do not, or the copy is behind                        ──► the copy: repair it
//!   both are intact and differ, one is unchanged since the seal     ──► the other one
//!   a poll is damaged on both, or the copy has more rows            ──► unclear
//! ```
//! A side whose log is damaged cannot be read back at all. Then the owner is wrong;
//! a copy cannot be repaired in that state.
//!
//! The decision reads back everything that is stored. It never repairs data that might
//! be right.

use std::collections::BTreeSet;

use ballast_domain::PollId;
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::ArchiveThrottle;
use ballast_vote_shard::shard::{Digest, FencedSlice, MigrationToken};

use super::difference_report::{DifferenceReport, describe_differences};
use super::verify_consistency::find_damaged_polls;
use crate::copy::CopyProgress;
use crate::worker::{
    DamagedFile, LeasedMigration, MigrationError, MigrationSide, MigrationSides, MigrationWorker,
};

/// The result of judging both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SideVerdict {
    /// Both sides are right.
    NothingWrong,
    /// The owner's stored data is wrong; the copy is right.
    OwnerWrong(DifferenceReport),
    /// The copy was wrong, and its repair has started.
    CopyRepaired(DifferenceReport),
    /// It is unclear which side is right: both are damaged in the same poll, or the
    /// copy has rows that the owner lacks.
    Unclear(DifferenceReport),
}

/// Judges both sides of a slice during the window.
pub(super) struct SideJudge<'a> {
    pub(super) worker: &'a MigrationWorker,
    pub(super) job: &'a LeasedMigration,
    /// From the owner to the copy.
    pub(super) sides: &'a MigrationSides,
    pub(super) token: &'a MigrationToken,
    /// The observed slice and epoch: a shard that knows a later epoch discards nothing.
    pub(super) at: FencedSlice,
    /// The digest of all rows when the slice was sealed for its owner.
    pub(super) sealed: Option<&'a str>,
}

/// The damaged parts of a side.
#[derive(Default)]
struct DamagedParts {
    rows: Vec<PollId>,
    files: Vec<DamagedFile>,
    /// Why the side cannot be read back at all, if it cannot.
    unreadable: Option<String>,
}

/// How polls differ that are intact on both sides.
enum DifferenceKind {
    /// The copy lacks rows, has older ones, or has changed since the seal.
    Behind,
    /// The owner has changed since the seal, although nothing was written.
    OwnerForged,
    /// It is unclear which side is right.
    Unclear(DifferenceReport),
    /// They do not differ, or they have had votes in the meantime: check again later.
    Inconclusive,
}

impl DamagedParts {
    /// Adds these polls to the damaged ones.
    fn with_rows(mut self, polls: &[PollId]) -> Self {
        self.rows.extend(polls);
        self
    }

    fn polls(&self) -> BTreeSet<PollId> {
        let files = self.files.iter().map(|file| file.poll);
        self.rows.iter().copied().chain(files).collect()
    }
}

impl SideJudge<'_> {
    /// Reads everything back, decides which side is wrong, and starts to repair the
    /// copy where the owner is right. `unequal` are polls whose digests differ although
    /// they have had no votes.
    pub(super) async fn judge(
        &self,
        unequal: &[PollId],
        back: &mut CopyProgress,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<SideVerdict, MigrationError> {
        let owner = self.find_damage(&self.sides.from, pace).await?;
        let copy = self.find_damage(&self.sides.to, pace).await?;
        let (beyond, here) = (owner.polls(), copy.polls());
        if let Some(what) = &owner.unreadable {
            let report = DifferenceReport::unreadable(what);
            return Ok(match here.is_empty() && copy.unreadable.is_none() {
                true => SideVerdict::OwnerWrong(report),
                false => SideVerdict::Unclear(report),
            });
        }
        if let Some(what) = copy.unreadable {
            let (shard, source) = (self.sides.to.0.clone(), ShardError::Damaged { what });
            return Err(MigrationError::Shard { shard, source });
        }
        // Polls that are intact on both sides, and yet differ.
        let known = |poll: &&PollId| !beyond.contains(poll) && !here.contains(poll);
        let unequal: Vec<PollId> = unequal.iter().filter(known).copied().collect();
        let (copy, owner) = match self.classify_difference(&unequal).await? {
            DifferenceKind::Behind => (copy.with_rows(&unequal), owner),
            DifferenceKind::OwnerForged => (copy, owner.with_rows(&unequal)),
            DifferenceKind::Unclear(report) => return Ok(SideVerdict::Unclear(report)),
            DifferenceKind::Inconclusive => (copy, owner),
        };
        let beyond = owner.polls();
        let (lost, mended) = split_by_overlap(copy, &beyond);
        let mending = self.describe(&self.sides.to, &mended).await;
        self.repair_copy(&mended, back, pace).await?;
        if beyond.is_empty() {
            return Ok(match mending.is_empty() {
                true => SideVerdict::NothingWrong,
                false => SideVerdict::CopyRepaired(mending),
            });
        }
        let report = self.describe(&self.sides.from, &owner).await;
        Ok(match lost.polls().is_empty() {
            true => SideVerdict::OwnerWrong(report),
            false => SideVerdict::Unclear(report),
        })
    }

    /// Returns how polls differ that are intact on both sides.
    async fn classify_difference(
        &self,
        polls: &[PollId],
    ) -> Result<DifferenceKind, MigrationError> {
        let (owner, copy) = (&self.sides.from, &self.sides.to);
        let slice = &self.job.slice;
        let before = self.sides.source_digests(slice).await?;
        let report = describe_differences(owner, copy, slice, polls, &[]).await;
        // The sides are read one after the other, so a vote that arrives in between can
        // appear only on the side that is read last.
        let unequal = self.sides.unequal_at_rest(slice, &before).await?;
        if report.count == 0
            || polls
                .iter()
                .any(|poll| unequal.binary_search(poll).is_err())
        {
            return Ok(DifferenceKind::Inconclusive);
        }
        if report.ahead {
            // It may be an acknowledged vote.
            return Ok(DifferenceKind::Unclear(report));
        }
        if !report.forged {
            return Ok(DifferenceKind::Behind);
        }
        let compared = self.sides.compare(slice).await?;
        let is_sealed = |digest: Digest| self.sealed == Some(digest.hex().as_str());
        Ok(
            match (
                is_sealed(compared.source.rows),
                is_sealed(compared.target.rows),
            ) {
                // Nothing was written since the seal, so the unchanged side is right.
                (true, _) => DifferenceKind::Behind,
                (false, true) => DifferenceKind::OwnerForged,
                (false, false) => DifferenceKind::Unclear(report),
            },
        )
    }

    async fn find_damage(
        &self,
        side: &MigrationSide,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<DamagedParts, MigrationError> {
        let slice = &self.job.slice;
        let rows = match find_damaged_polls(&*side.1, self.job).await {
            Ok(rows) => rows,
            Err(ShardError::Damaged { what }) => {
                let unreadable = Some(what);
                return Ok(DamagedParts {
                    unreadable,
                    ..DamagedParts::default()
                });
            }
            Err(source) => {
                let shard = side.0.clone();
                return Err(MigrationError::Shard { shard, source });
            }
        };
        let files = self.sides.find_damaged_files(side, slice, pace).await?;
        let unreadable = None;
        Ok(DamagedParts {
            rows,
            files,
            unreadable,
        })
    }

    async fn describe(&self, side: &MigrationSide, wrong: &DamagedParts) -> DifferenceReport {
        let other = match side.0 == self.sides.to.0 {
            true => &self.sides.from,
            false => &self.sides.to,
        };
        let mut report =
            describe_differences(other, side, &self.job.slice, &wrong.rows, &wrong.rows).await;
        report.add_files(&wrong.files);
        report
    }

    /// Discards the wrong rows of the copy, so that they are copied again, and replaces
    /// its damaged files.
    async fn repair_copy(
        &self,
        wrong: &DamagedParts,
        back: &mut CopyProgress,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<(), MigrationError> {
        let (slice, copy) = (&self.job.slice, &self.sides.to);
        if !wrong.polls().is_empty() {
            // An incomplete copy does not make writes durable, so stop waiting for it.
            self.worker.stop_synchronous_acks(self.job).await?;
        }
        for poll in &wrong.rows {
            let discarded = copy.1.discard_poll(&self.at, self.token, *poll).await;
            discarded.map_err(|source| MigrationError::Shard {
                shard: copy.0.clone(),
                source,
            })?;
        }
        for file in &wrong.files {
            let mended = self.sides.replace_file(slice, self.token, file.poll, pace);
            mended.await?;
        }
        if !wrong.rows.is_empty() {
            // Copy everything again; rows that are there stay as they are.
            back.cursor = CopyProgress::default().cursor;
            back.complete_before = None;
        }
        Ok(())
    }
}

/// Splits damaged parts into those that are damaged on the other side, too, and those
/// that are not. Pure.
fn split_by_overlap(wrong: DamagedParts, there: &BTreeSet<PollId>) -> (DamagedParts, DamagedParts) {
    let (rows, other_rows) = wrong
        .rows
        .into_iter()
        .partition(|poll| there.contains(poll));
    let (files, other_files) = wrong
        .files
        .into_iter()
        .partition(|file| there.contains(&file.poll));
    let both = DamagedParts {
        rows,
        files,
        unreadable: None,
    };
    let alone = DamagedParts {
        rows: other_rows,
        files: other_files,
        unreadable: None,
    };
    (both, alone)
}
