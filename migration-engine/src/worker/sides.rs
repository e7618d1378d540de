//! Both shards of a migration: reads and compares them, copies between them, and
//! sends them commands.

use std::sync::Arc;

use ballast_domain::certificate::VoteProof;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId};
use ballast_vote_shard::archive::ArchiveDirectory;
use ballast_vote_shard::shard::{Digest, Fence, MigrationToken, SliceDigest, SliceStateError};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, VoteShard};

use super::MigrationError;
use crate::copy::{self, CopiedPage, CopyProgress, PrefetchedPage};
use crate::protocol::FenceCommand;

/// Polls that one purge removes.
const PURGED_AT_ONCE: usize = 100;

/// One shard of a migration, with its id.
pub type MigrationSide = (ShardId, Arc<dyn VoteShard>);

/// Both shards of a migration.
#[derive(Clone)]
pub struct MigrationSides {
    /// The source.
    pub from: MigrationSide,
    /// The target.
    pub to: MigrationSide,
    /// The shards' archives, if this process can reach them.
    pub(super) archives: Option<Arc<dyn ArchiveDirectory>>,
}

/// The digests of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestComparison {
    /// The source's digest.
    pub source: SliceDigest,
    /// The target's digest.
    pub target: SliceDigest,
}

impl DigestComparison {
    /// Whether both hold the same polls and rows.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.source == self.target
    }

    /// Returns what this proves for the certificate, if the source is sealed.
    #[must_use]
    pub fn to_votes_proved(&self, sealed_epoch: Epoch) -> VoteProof {
        let (source, target) = (&self.source, &self.target);
        VoteProof {
            acknowledged: source.votes(),
            present: target.votes(),
            // A row is identified by poll and voter, so a row cannot exist twice;
            // a row that was never acknowledged would count as a duplicate.
            duplicates: target.votes().saturating_sub(source.votes()),
            polls: source.polls,
            source_digest: source.rows.hex(),
            target_digest: target.rows.hex(),
            sealed_epoch,
            sealed_position: None,
        }
    }
}

impl MigrationSides {
    /// Looks up both shards.
    pub fn resolve(
        shards: &dyn ShardDirectory,
        archives: Option<Arc<dyn ArchiveDirectory>>,
        from: &ShardId,
        to: &ShardId,
    ) -> Result<Self, MigrationError> {
        let find = |id: &ShardId| {
            let found = shards.shard(id).map_err(shard_error(id))?;
            Ok::<_, MigrationError>((id.clone(), found))
        };
        Ok(Self {
            from: find(from)?,
            to: find(to)?,
            archives,
        })
    }

    /// Returns both sides with source and target exchanged.
    #[must_use]
    pub fn swap_roles(&self) -> Self {
        Self {
            from: self.to.clone(),
            to: self.from.clone(),
            archives: self.archives.clone(),
        }
    }

    /// Reads both fences of a slice.
    pub async fn fences(
        &self,
        slice: &SliceId,
    ) -> Result<(Option<Fence>, Option<Fence>), MigrationError> {
        let (from, to) = (&self.from, &self.to);
        let source = from.1.fence(slice).await.map_err(shard_error(&from.0))?;
        let target = to.1.fence(slice).await.map_err(shard_error(&to.0))?;
        Ok((source, target))
    }

    /// Reads both sides' digests of a slice, sorted by poll. Reads the source first:
    /// once sealed it does not change.
    pub async fn digests(
        &self,
        slice: &SliceId,
    ) -> Result<(PollDigests, PollDigests), MigrationError> {
        let source = digests(&self.from, slice).await?;
        let target = digests(&self.to, slice).await?;
        Ok((source, target))
    }

    /// Returns the polls that differ and have had no votes since `before` was read
    /// from the source.
    pub async fn unequal_at_rest(
        &self,
        slice: &SliceId,
        before: &PollDigests,
    ) -> Result<Vec<PollId>, MigrationError> {
        let (source, target) = (self.source_digests(slice), digests(&self.to, slice));
        unequal_at_rest(before, source, target).await
    }

    /// Reads the source's digests of a slice, sorted by poll.
    pub async fn source_digests(&self, slice: &SliceId) -> Result<PollDigests, MigrationError> {
        digests(&self.from, slice).await
    }

    /// Compares both sides by their digests. Its cost grows with the changes since
    /// the last comparison. Reads the source first.
    pub async fn compare(&self, slice: &SliceId) -> Result<DigestComparison, MigrationError> {
        Ok(DigestComparison {
            source: digest(&self.from, slice).await?,
            target: digest(&self.to, slice).await?,
        })
    }

    /// Returns the error that says in how many polls both sides differ.
    pub(super) async fn difference_error(
        &self,
        slice: &SliceId,
    ) -> Result<MigrationError, MigrationError> {
        let (source, target) = self.digests(slice).await?;
        Ok(MigrationError::Different {
            from: self.from.0.clone(),
            target: self.to.0.clone(),
            polls: differing_polls(&source, &target).len(),
        })
    }

    /// Copies one page, after the files that it refers to.
    pub async fn copy_page(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        copied: &mut CopyProgress,
    ) -> Result<CopiedPage, MigrationError> {
        let (from, to) = (&self.from, &self.to);
        let page = copy::read_page(&*from.1, slice, copied).await;
        let page = page.map_err(shard_error(&from.0))?;
        let files = self.copy_named_files(slice, token, &page.changes).await?;
        copied.add_files(&files);
        let result = copy::write_page(&*to.1, slice, token, page, copied).await;
        let mut copied_page = result.map_err(shard_error(&to.0))?;
        copied_page.bytes += files.bytes;
        Ok(copied_page)
    }

    /// Copies one page like [`Self::copy_page`], and reads the next page while this
    /// one is written: for long copies.
    pub async fn copy_page_with_prefetch(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        copied: &mut CopyProgress,
        ahead: &mut PrefetchedPage,
    ) -> Result<CopiedPage, MigrationError> {
        let (from, to) = (&self.from, &self.to);
        let page = match ahead.take_page(&copied.cursor) {
            Some(page) => page,
            None => {
                let page = copy::read_page(&*from.1, slice, copied).await;
                page.map_err(shard_error(&from.0))?
            }
        };
        let files = self.copy_named_files(slice, token, &page.changes).await?;
        copied.add_files(&files);
        // There is nothing to prefetch after the last page.
        let next = (!page.caught_up).then(|| page.next.clone());
        let read = async {
            if let Some(next) = next {
                ahead.read_next(&*from.1, slice, next).await;
            }
        };
        let write = copy::write_page(&*to.1, slice, token, page, copied);
        let (result, ()) = tokio::join!(write, read);
        let mut copied_page = result.map_err(shard_error(&to.0))?;
        copied_page.bytes += files.bytes;
        Ok(copied_page)
    }

    /// Sends one of the shards a command.
    pub async fn send_command(
        &self,
        slice: &SliceId,
        shard: &ShardId,
        command: FenceCommand,
        token: &MigrationToken,
    ) -> Result<(), MigrationError> {
        let (id, target) = if *shard == self.from.0 {
            &self.from
        } else {
            &self.to
        };
        let at = |epoch| FencedSlice {
            slice: slice.clone(),
            epoch,
        };
        let result = match command {
            FenceCommand::Prepare(epoch) => {
                let (from, source) = &self.from;
                let key = source.slice_key(slice).await.map_err(shard_error(from))?;
                let range = source.slice_range(slice).await.map_err(shard_error(from))?;
                target.prepare(&at(epoch), token, key, range).await
            }
            FenceCommand::Seal(epoch) => target.seal(&at(epoch), token).await,
            FenceCommand::Reinstate(epoch) => match target.unseal(&at(epoch), token).await {
                // The slice was never written to, so its owner has no fence yet.
                Err(ShardError::SliceState(SliceStateError::UnknownSlice))
                    if epoch == Epoch::FIRST =>
                {
                    target.adopt(&at(epoch)).await
                }
                other => other,
            },
            FenceCommand::Ready(epoch) => target.mark_ready(&at(epoch), token).await,
            FenceCommand::Activate(epoch) => target.activate(&at(epoch), token).await,
            FenceCommand::Retire(epoch) => target.retire(&at(epoch), token).await,
            FenceCommand::Purge(epoch) => target
                .purge(&at(epoch), token, PURGED_AT_ONCE)
                .await
                .map(drop),
        };
        result.map_err(shard_error(id))
    }
}

/// The digests of a slice's polls, sorted by poll.
pub type PollDigests = Vec<(PollId, Digest)>;

async fn digests(
    (id, shard): &MigrationSide,
    slice: &SliceId,
) -> Result<PollDigests, MigrationError> {
    let mut found = match shard.digests(slice).await {
        Ok(found) => found,
        // The shard has no data of the slice yet.
        Err(ShardError::SliceState(_)) => Vec::new(),
        Err(other) => return Err(shard_error(id)(other)),
    };
    found.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(found)
}

async fn digest(
    (id, shard): &(ShardId, Arc<dyn VoteShard>),
    slice: &SliceId,
) -> Result<SliceDigest, MigrationError> {
    match shard.digest(slice).await {
        // The shard has no data of the slice yet.
        Err(ShardError::SliceState(_)) => Ok(SliceDigest::default()),
        other => other.map_err(shard_error(id)),
    }
}

/// Returns the polls that differ and whose digest on the source is still the one in
/// `before`. Reads the target first: a vote that arrives on both sides in between
/// then shows up as a change on the source. The other way round it would look like
/// damage.
async fn unequal_at_rest<E>(
    before: &PollDigests,
    source: impl Future<Output = Result<PollDigests, E>>,
    target: impl Future<Output = Result<PollDigests, E>>,
) -> Result<Vec<PollId>, E> {
    let target = target.await?;
    let source = source.await?;
    let in_motion = differing_polls(before, &source);
    let mut unequal = differing_polls(&source, &target);
    unequal.retain(|poll| in_motion.binary_search(poll).is_err());
    Ok(unequal)
}

/// Returns the polls that differ between two lists of digests, each sorted by poll.
#[must_use]
pub fn differing_polls(one: &PollDigests, two: &PollDigests) -> Vec<PollId> {
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    let mut differing = Vec::new();
    loop {
        match (one.peek(), two.peek()) {
            (Some(left), Some(right)) if left.0 == right.0 => {
                if left.1 != right.1 {
                    differing.push(left.0);
                }
                one.next();
                two.next();
            }
            (Some(left), right) if right.is_none_or(|right| left.0 < right.0) => {
                differing.push(left.0);
                one.next();
            }
            (_, Some(right)) => {
                differing.push(right.0);
                two.next();
            }
            (Some(_), None) | (None, None) => return differing,
        }
    }
}

pub(super) fn shard_error(shard: &ShardId) -> impl FnOnce(ShardError) -> MigrationError + use<'_> {
    move |source| MigrationError::Shard {
        shard: shard.clone(),
        source,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    const POLL: u64 = 2;

    /// The digests of three polls, the second of which has this many votes.
    fn poll_digests(votes: u64) -> PollDigests {
        let sum = |number| {
            let rows = if number == POLL { votes } else { number };
            let sum = [rows * 17, 0, 0, 0];
            (PollId::from_number(number.into()), Digest { rows, sum })
        };
        [1, POLL, 3].map(sum).to_vec()
    }

    /// Reads a side; then a vote arrives on both sides.
    async fn read_then_vote(votes: &Cell<u64>, lacks: u64) -> Result<PollDigests, Infallible> {
        let read = poll_digests(votes.get() - lacks);
        votes.set(votes.get() + 1);
        Ok(read)
    }

    #[tokio::test]
    async fn a_vote_on_both_sides_between_the_two_reads_is_not_a_difference() {
        let votes = Cell::new(5);
        let before = poll_digests(votes.get());
        let unequal = unequal_at_rest(
            &before,
            read_then_vote(&votes, 0),
            read_then_vote(&votes, 0),
        )
        .await;
        assert_eq!(unequal.unwrap(), []);
    }

    #[tokio::test]
    async fn a_vote_missing_on_the_target_is_a_difference_at_rest() {
        let before = poll_digests(5);
        let (source, target) = (Cell::new(5), Cell::new(5));
        let unequal = unequal_at_rest(
            &before,
            read_then_vote(&source, 0),
            read_then_vote(&target, 1),
        )
        .await;
        assert_eq!(unequal.unwrap(), [PollId::from_number(POLL.into())]);
    }
}
