//! Which of two sides is wrong, while a move's window is open: the owner, or the
//! copy that it came from.
//!
//! ```text
//!   owner's stored rows and files are not what was written  ──► the owner
//!   the copy's are not, or it stayed behind                 ──► the copy, mended
//!   both are whole and differ: who is as it was sealed      ──► the other
//!   a poll is wrong on both, or the copy has more           ──► nobody can say
//! ```
//! A side whose log is damaged cannot be read back at all: the owner is wrong then;
//! the copy cannot be mended while it is so.
//!
//! Everything stored is read back for it. Nothing is mended that might be right.

use std::collections::BTreeSet;

use ballast_domain::PollId;
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::Pace;
use ballast_vote_shard::shard::{At, Digest, Order};

use super::told::{Told, told};
use super::verify_consistency::damaged;
use crate::copy::Copied;
use crate::worker::{BadFile, Job, MoveError, Side, Sides, Worker};

/// What was found by comparing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Both are as they should be.
    Nothing,
    /// The owner has stored something else than was written; the copy is right.
    Owner(Told),
    /// The copy was not right, and is made anew.
    Copy(Told),
    /// Nobody can say what is right: both are wrong in the same poll, or the copy
    /// has what the owner lacks.
    Unclear(Told),
}

/// Both sides of a slice whose owner it came to.
pub(super) struct Judge<'a> {
    pub(super) worker: &'a Worker,
    pub(super) job: &'a Job,
    /// From the owner to where it was.
    pub(super) sides: &'a Sides,
    pub(super) order: &'a Order,
    /// What was looked at: should another have got farther, nothing is removed.
    pub(super) at: At,
    /// The digest of all rows when the slice was sealed for its owner.
    pub(super) sealed: Option<&'a str>,
}

/// What is wrong with a side.
#[derive(Default)]
struct Wrong {
    rows: Vec<PollId>,
    files: Vec<BadFile>,
    /// Why nothing of it can be read back.
    whole: Option<String>,
}

/// In which way polls differ that are whole on both sides.
enum Differ {
    /// The copy lacks something, or has it older; or is not as it was sealed.
    Behind,
    /// The owner is not as it was sealed.
    OwnerForged,
    /// Nobody can say.
    Unclear(Told),
    /// They do not, or somebody votes in them: they are looked at again.
    NotNow,
}

impl Wrong {
    /// These polls as well.
    fn and(mut self, polls: &[PollId]) -> Self {
        self.rows.extend(polls);
        self
    }

    fn polls(&self) -> BTreeSet<PollId> {
        let files = self.files.iter().map(|file| file.poll);
        self.rows.iter().copied().chain(files).collect()
    }
}

impl Judge<'_> {
    /// Reads everything back, says which side is wrong, and mends the copy where
    /// the owner is right. `unequal` are polls whose digests differ although
    /// nobody voted in them.
    pub(super) async fn judge(
        &self,
        unequal: &[PollId],
        back: &mut Copied,
        pace: &mut dyn Pace,
    ) -> Result<Found, MoveError> {
        let owner = self.wrong(&self.sides.from, pace).await?;
        let copy = self.wrong(&self.sides.to, pace).await?;
        let (beyond, here) = (owner.polls(), copy.polls());
        if let Some(what) = &owner.whole {
            let told = Told::unreadable(what);
            return Ok(match here.is_empty() && copy.whole.is_none() {
                true => Found::Owner(told),
                false => Found::Unclear(told),
            });
        }
        if let Some(what) = copy.whole {
            let (shard, source) = (self.sides.to.0.clone(), ShardError::Damaged { what });
            return Err(MoveError::Shard { shard, source });
        }
        // Both say that they are whole, and yet they differ.
        let known = |poll: &&PollId| !beyond.contains(poll) && !here.contains(poll);
        let unequal: Vec<PollId> = unequal.iter().filter(known).copied().collect();
        let (copy, owner) = match self.differ(&unequal).await? {
            Differ::Behind => (copy.and(&unequal), owner),
            Differ::OwnerForged => (copy, owner.and(&unequal)),
            Differ::Unclear(told) => return Ok(Found::Unclear(told)),
            Differ::NotNow => (copy, owner),
        };
        let beyond = owner.polls();
        let (lost, mended) = divided(copy, &beyond);
        let mending = self.told(&self.sides.to, &mended).await;
        self.mend(&mended, back, pace).await?;
        if beyond.is_empty() {
            return Ok(match mending.is_empty() {
                true => Found::Nothing,
                false => Found::Copy(mending),
            });
        }
        let told = self.told(&self.sides.from, &owner).await;
        Ok(match lost.polls().is_empty() {
            true => Found::Owner(told),
            false => Found::Unclear(told),
        })
    }

    /// In which way polls differ that are whole on both sides.
    async fn differ(&self, polls: &[PollId]) -> Result<Differ, MoveError> {
        let (owner, copy) = (&self.sides.from, &self.sides.to);
        let slice = &self.job.slice;
        let before = self.sides.source_digests(slice).await?;
        let told = told(owner, copy, slice, polls, &[]).await;
        // Rows are read one side after the other. Votes that come meanwhile may be
        // on the one that is read last, and only there.
        let unequal = self.sides.unequal_at_rest(slice, &before).await?;
        if told.count == 0
            || polls
                .iter()
                .any(|poll| unequal.binary_search(poll).is_err())
        {
            return Ok(Differ::NotNow);
        }
        if told.ahead {
            // It may be a vote that somebody was promised.
            return Ok(Differ::Unclear(told));
        }
        if !told.forged {
            return Ok(Differ::Behind);
        }
        let compared = self.sides.compare(slice).await?;
        let is_sealed = |digest: Digest| self.sealed == Some(digest.hex().as_str());
        Ok(
            match (
                is_sealed(compared.source.rows),
                is_sealed(compared.target.rows),
            ) {
                // Nothing has been written since: who is as it was, is right.
                (true, _) => Differ::Behind,
                (false, true) => Differ::OwnerForged,
                (false, false) => Differ::Unclear(told),
            },
        )
    }

    async fn wrong(&self, side: &Side, pace: &mut dyn Pace) -> Result<Wrong, MoveError> {
        let slice = &self.job.slice;
        let rows = match damaged(&*side.1, self.job).await {
            Ok(rows) => rows,
            Err(ShardError::Damaged { what }) => {
                let whole = Some(what);
                return Ok(Wrong {
                    whole,
                    ..Wrong::default()
                });
            }
            Err(source) => {
                let shard = side.0.clone();
                return Err(MoveError::Shard { shard, source });
            }
        };
        let files = self.sides.bad_files(side, slice, pace).await?;
        let whole = None;
        Ok(Wrong { rows, files, whole })
    }

    async fn told(&self, side: &Side, wrong: &Wrong) -> Told {
        let other = match side.0 == self.sides.to.0 {
            true => &self.sides.from,
            false => &self.sides.to,
        };
        let mut said = told(other, side, &self.job.slice, &wrong.rows, &wrong.rows).await;
        said.files(&wrong.files);
        said
    }

    /// Has the copy made anew where it is wrong.
    async fn mend(
        &self,
        wrong: &Wrong,
        back: &mut Copied,
        pace: &mut dyn Pace,
    ) -> Result<(), MoveError> {
        let (slice, copy) = (&self.job.slice, &self.sides.to);
        if !wrong.polls().is_empty() {
            // While it is made anew it has not everything that it should have, so
            // nobody may rely on it.
            self.worker.relax(self.job).await?;
        }
        for poll in &wrong.rows {
            let discarded = copy.1.discard(&self.at, self.order, *poll).await;
            discarded.map_err(|source| MoveError::Shard {
                shard: copy.0.clone(),
                source,
            })?;
        }
        for file in &wrong.files {
            let mended = self.sides.mend_file(slice, self.order, file.poll, pace);
            mended.await?;
        }
        if !wrong.rows.is_empty() {
            // Everything is offered once more; what is there stays as it is.
            back.cursor = Copied::default().cursor;
            back.complete_before = None;
        }
        Ok(())
    }
}

/// What is wrong here and there, and what is wrong here alone: pure.
fn divided(wrong: Wrong, there: &BTreeSet<PollId>) -> (Wrong, Wrong) {
    let (rows, other_rows) = wrong
        .rows
        .into_iter()
        .partition(|poll| there.contains(poll));
    let (files, other_files) = wrong
        .files
        .into_iter()
        .partition(|file| there.contains(&file.poll));
    let both = Wrong {
        rows,
        files,
        whole: None,
    };
    let alone = Wrong {
        rows: other_rows,
        files: other_files,
        whole: None,
    };
    (both, alone)
}
