//! Both shards of a move: looked at, compared, told things.

use std::sync::Arc;

use ballast_domain::certificate::VotesProved;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId};
use ballast_vote_shard::archive::Archives;
use ballast_vote_shard::shard::{Digest, Fence, Order, SliceDigest, Unfit};
use ballast_vote_shard::{At, ShardError, Shards, VoteShard};

use super::MoveError;
use crate::copy::{self, Ahead, Carried, Copied};
use crate::protocol::Op;

/// Polls that one purge removes.
const PURGED_AT_ONCE: usize = 100;

/// One shard of a move, with its name.
pub type Side = (ShardId, Arc<dyn VoteShard>);

/// Both shards of a move.
#[derive(Clone)]
pub struct Sides {
    /// The one that the slice leaves.
    pub from: Side,
    /// The one that it comes to.
    pub to: Side,
    /// Where their files are, if those can be reached from here.
    pub(super) archives: Option<Arc<dyn Archives>>,
}

/// What both sides hold, beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// All of the source.
    pub source: SliceDigest,
    /// All of the target.
    pub target: SliceDigest,
}

impl Compared {
    /// Whether both hold the same polls and rows.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.source == self.target
    }

    /// What this proves, if the source is sealed.
    #[must_use]
    pub fn proved(&self, sealed_epoch: Epoch) -> VotesProved {
        let (source, target) = (&self.source, &self.target);
        VotesProved {
            acknowledged: source.votes(),
            present: target.votes(),
            // A row is found by its poll and voter: there cannot be two. What
            // is there beyond what was acknowledged would be one too many.
            duplicates: target.votes().saturating_sub(source.votes()),
            polls: source.polls,
            source_digest: source.rows.hex(),
            target_digest: target.rows.hex(),
            sealed_epoch,
            sealed_position: None,
        }
    }
}

impl Sides {
    /// Finds both.
    pub fn find(
        shards: &dyn Shards,
        archives: Option<Arc<dyn Archives>>,
        from: &ShardId,
        to: &ShardId,
    ) -> Result<Self, MoveError> {
        let find = |id: &ShardId| {
            let found = shards.shard(id).map_err(failed(id))?;
            Ok::<_, MoveError>((id.clone(), found))
        };
        Ok(Self {
            from: find(from)?,
            to: find(to)?,
            archives,
        })
    }

    /// The same with the roles exchanged.
    #[must_use]
    pub fn exchanged(&self) -> Self {
        Self {
            from: self.to.clone(),
            to: self.from.clone(),
            archives: self.archives.clone(),
        }
    }

    /// What both remember of a slice.
    pub async fn fences(
        &self,
        slice: &SliceId,
    ) -> Result<(Option<Fence>, Option<Fence>), MoveError> {
        let (from, to) = (&self.from, &self.to);
        let source = from.1.fence(slice).await.map_err(failed(&from.0))?;
        let target = to.1.fence(slice).await.map_err(failed(&to.0))?;
        Ok((source, target))
    }

    /// The digests that both keep of a slice, in the order of the polls. The
    /// source is read first: once it is sealed it does not change.
    pub async fn digests(&self, slice: &SliceId) -> Result<(Digests, Digests), MoveError> {
        let source = digests(&self.from, slice).await?;
        let target = digests(&self.to, slice).await?;
        Ok((source, target))
    }

    /// The polls that differ although nobody has voted in them since `before` was
    /// read of the source.
    pub async fn unequal_at_rest(
        &self,
        slice: &SliceId,
        before: &Digests,
    ) -> Result<Vec<PollId>, MoveError> {
        let (source, target) = (self.source_digests(slice), digests(&self.to, slice));
        at_rest(before, source, target).await
    }

    /// The digests that the source keeps of a slice, in the order of the polls.
    pub async fn source_digests(&self, slice: &SliceId) -> Result<Digests, MoveError> {
        digests(&self.from, slice).await
    }

    /// Compares what both hold, by its sums: that takes as long as what has
    /// changed since they were last compared. The source is read first.
    pub async fn compare(&self, slice: &SliceId) -> Result<Compared, MoveError> {
        Ok(Compared {
            source: digest(&self.from, slice).await?,
            target: digest(&self.to, slice).await?,
        })
    }

    /// That they differ, as an error.
    pub(super) async fn difference(&self, slice: &SliceId) -> Result<MoveError, MoveError> {
        let (source, target) = self.digests(slice).await?;
        Ok(MoveError::Different {
            from: self.from.0.clone(),
            target: self.to.0.clone(),
            polls: differing(&source, &target).len(),
        })
    }

    /// Carries one page over, and before it the files that it names.
    pub async fn carry(
        &self,
        slice: &SliceId,
        order: &Order,
        copied: &mut Copied,
    ) -> Result<Carried, MoveError> {
        let (from, to) = (&self.from, &self.to);
        let page = copy::read(&*from.1, slice, copied).await;
        let page = page.map_err(failed(&from.0))?;
        let files = self.bring_named(slice, order, &page.changes).await?;
        copied.add(&files);
        let done = copy::write(&*to.1, slice, order, page, copied).await;
        let mut carried = done.map_err(failed(&to.0))?;
        carried.bytes += files.bytes;
        Ok(carried)
    }

    /// The same, with the next page read while this one is written: for a copy
    /// that is long.
    pub async fn carry_ahead(
        &self,
        slice: &SliceId,
        order: &Order,
        copied: &mut Copied,
        ahead: &mut Ahead,
    ) -> Result<Carried, MoveError> {
        let (from, to) = (&self.from, &self.to);
        let page = match ahead.take(&copied.cursor) {
            Some(page) => page,
            None => {
                let page = copy::read(&*from.1, slice, copied).await;
                page.map_err(failed(&from.0))?
            }
        };
        let files = self.bring_named(slice, order, &page.changes).await?;
        copied.add(&files);
        // What comes after the last page has not happened yet.
        let next = (!page.caught_up).then(|| page.next.clone());
        let read = async {
            if let Some(next) = next {
                ahead.read(&*from.1, slice, next).await;
            }
        };
        let write = copy::write(&*to.1, slice, order, page, copied);
        let (done, ()) = tokio::join!(write, read);
        let mut carried = done.map_err(failed(&to.0))?;
        carried.bytes += files.bytes;
        Ok(carried)
    }

    /// Tells one of them something.
    pub async fn tell(
        &self,
        slice: &SliceId,
        shard: &ShardId,
        op: Op,
        order: &Order,
    ) -> Result<(), MoveError> {
        let (id, told) = if *shard == self.from.0 {
            &self.from
        } else {
            &self.to
        };
        let at = |epoch| At {
            slice: slice.clone(),
            epoch,
        };
        let done = match op {
            Op::Prepare(epoch) => {
                let (from, source) = &self.from;
                let key = source.slice_key(slice).await.map_err(failed(from))?;
                let range = source.slice_range(slice).await.map_err(failed(from))?;
                told.prepare(&at(epoch), order, key, range).await
            }
            Op::Seal(epoch) => told.seal(&at(epoch), order).await,
            Op::Reinstate(epoch) => match told.unseal(&at(epoch), order).await {
                // Nobody has voted yet, so nobody has told it that the slice is
                // its own.
                Err(ShardError::Unfit(Unfit::Unknown)) if epoch == Epoch::FIRST => {
                    told.found(&at(epoch)).await
                }
                other => other,
            },
            Op::Ready(epoch) => told.ready(&at(epoch), order).await,
            Op::Activate(epoch) => told.activate(&at(epoch), order).await,
            Op::Retire(epoch) => told.retire(&at(epoch), order).await,
            Op::Purge(epoch) => told
                .purge(&at(epoch), order, PURGED_AT_ONCE)
                .await
                .map(drop),
        };
        done.map_err(failed(id))
    }
}

/// The digests of a slice's polls, in their order.
pub type Digests = Vec<(PollId, Digest)>;

async fn digests((id, shard): &Side, slice: &SliceId) -> Result<Digests, MoveError> {
    let mut found = match shard.digests(slice).await {
        Ok(found) => found,
        // It holds nothing of it yet.
        Err(ShardError::Unfit(_)) => Vec::new(),
        Err(other) => return Err(failed(id)(other)),
    };
    found.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(found)
}

async fn digest(
    (id, shard): &(ShardId, Arc<dyn VoteShard>),
    slice: &SliceId,
) -> Result<SliceDigest, MoveError> {
    match shard.digest(slice).await {
        // It holds nothing of it yet.
        Err(ShardError::Unfit(_)) => Ok(SliceDigest::default()),
        other => other.map_err(failed(id)),
    }
}

/// The polls that differ and are on the source as they were `before`. The target is
/// read first: what is written to both meanwhile is found to have changed on the
/// source. The other way round it would look like damage.
async fn at_rest<E>(
    before: &Digests,
    source: impl Future<Output = Result<Digests, E>>,
    target: impl Future<Output = Result<Digests, E>>,
) -> Result<Vec<PollId>, E> {
    let target = target.await?;
    let source = source.await?;
    let in_motion = differing(before, &source);
    let mut unequal = differing(&source, &target);
    unequal.retain(|poll| in_motion.binary_search(poll).is_err());
    Ok(unequal)
}

/// The polls that differ between two lists, each in the order of the polls.
#[must_use]
pub fn differing(one: &Digests, two: &Digests) -> Vec<PollId> {
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    let mut found = Vec::new();
    loop {
        match (one.peek(), two.peek()) {
            (Some(left), Some(right)) if left.0 == right.0 => {
                if left.1 != right.1 {
                    found.push(left.0);
                }
                one.next();
                two.next();
            }
            (Some(left), right) if right.is_none_or(|right| left.0 < right.0) => {
                found.push(left.0);
                one.next();
            }
            (_, Some(right)) => {
                found.push(right.0);
                two.next();
            }
            (Some(_), None) | (None, None) => return found,
        }
    }
}

pub(super) fn failed(shard: &ShardId) -> impl FnOnce(ShardError) -> MoveError + use<'_> {
    move |source| MoveError::Shard {
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

    /// The sums of three polls, with so many votes in the second.
    fn sums(votes: u64) -> Digests {
        let sum = |number| {
            let rows = if number == POLL { votes } else { number };
            let sum = [rows * 17, 0, 0, 0];
            (PollId::from_number(number.into()), Digest { rows, sum })
        };
        [1, POLL, 3].map(sum).to_vec()
    }

    /// Reads a side, and then somebody votes on both.
    async fn read(votes: &Cell<u64>, lacks: u64) -> Result<Digests, Infallible> {
        let read = sums(votes.get() - lacks);
        votes.set(votes.get() + 1);
        Ok(read)
    }

    #[tokio::test]
    async fn a_vote_on_both_sides_between_two_looks_is_no_difference() {
        let votes = Cell::new(5);
        let before = sums(votes.get());
        let unequal = at_rest(&before, read(&votes, 0), read(&votes, 0)).await;
        assert_eq!(unequal.unwrap(), []);
    }

    #[tokio::test]
    async fn a_vote_that_only_the_source_has_is_one_when_nobody_votes() {
        let before = sums(5);
        let (source, target) = (Cell::new(5), Cell::new(5));
        let unequal = at_rest(&before, read(&source, 0), read(&target, 1)).await;
        assert_eq!(unequal.unwrap(), [PollId::from_number(POLL.into())]);
    }
}
