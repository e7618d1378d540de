//! Consistent reads: an answer of a shard is valid only if the shard owned the
//! slice before and after the read.
//!
//! The fence protects writes only. Between the check of the fence and the read the
//! slice may move away, and the read then sees an old copy, a part of one, or
//! nothing. A fence never returns to an earlier state, so a fence that is equal
//! before and after the read was the same during the read.
//!
//! A sealed slice can be read, so that a cutover does not block reads. But a sealed
//! shard does not know whether the cutover has happened. So the router reads the
//! tenant's record after the read and confirms the owner.

use ballast_domain::poll::Poll;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, VoterId};
use ballast_vote_shard::shard::{
    ArchiveFile, Cursor, ExportPage, Fence, FenceError, SliceKey, VoterRow,
};
use ballast_vote_shard::{ShardResult, Tally};

use crate::deliver::ShardTarget;

/// Reads from a shard that owned the slice when the reader was opened.
pub(crate) struct ConsistentReader<'a> {
    target: &'a ShardTarget,
    fence: Option<Fence>,
}

impl<'a> ConsistentReader<'a> {
    /// Opens a reader, if the shard owns the slice at the route's epoch.
    pub(crate) async fn open(target: &'a ShardTarget) -> ShardResult<Self> {
        let fence = target.shard.fence(&target.fenced.slice).await?;
        Fence::serves(fence.as_ref(), target.fenced.epoch)?;
        Ok(Self { target, fence })
    }

    /// Returns the result of a read if the shard still owns the slice. This also
    /// checks refusals: the poll may be unknown because the slice has left.
    async fn verify<T>(&self, read: ShardResult<T>) -> ShardResult<T> {
        let ShardTarget { fenced, shard, .. } = self.target;
        let fence = shard.fence(&fenced.slice).await?;
        let period = |fence: &Option<Fence>| fence.as_ref().map(|one| (one.epoch, one.holding));
        if period(&fence) != period(&self.fence) {
            let epoch = fence.map(|fence| fence.epoch);
            // With an epoch, because without one the error means an unknown slice.
            return Err(FenceError::NotOwner {
                epoch: epoch.or(Some(fenced.epoch)),
            }
            .into());
        }
        if Fence::must_be_confirmed(fence.as_ref()) {
            self.target.confirm().await?;
        }
        read
    }

    pub(crate) async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll> {
        self.verify(self.target.shard.poll(slice, poll).await).await
    }

    pub(crate) async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>> {
        let polls = self.target.shard.polls(slice, after, most).await;
        self.verify(polls).await
    }

    pub(crate) async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        self.verify(self.target.shard.tally(slice, poll).await)
            .await
    }

    pub(crate) async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>> {
        self.verify(self.target.shard.lanes(slice, poll).await)
            .await
    }

    pub(crate) async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let row = self.target.shard.voter(slice, poll, voter).await;
        self.verify(row).await
    }

    pub(crate) async fn archive(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>> {
        let file = self.target.shard.archive(slice, poll).await;
        self.verify(file).await
    }

    pub(crate) async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.verify(self.target.shard.slice_key(slice).await).await
    }

    pub(crate) async fn export(
        &self,
        slice: &SliceId,
        cursor: &Cursor,
        bytes: usize,
    ) -> ShardResult<ExportPage> {
        let page = self.target.shard.export(slice, cursor, bytes).await;
        self.verify(page).await
    }
}

#[cfg(test)]
mod tests {
    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_domain::{PollId, VoterId};
    use ballast_vote_shard::shard::{MigrationId, MigrationToken};
    use ballast_vote_shard::{FencedSlice, ShardError, VoteShard};

    use crate::deliver::RouteKey;
    use crate::testing::TestRouter;

    fn at(epoch: u64) -> FencedSlice {
        FencedSlice {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        }
    }

    /// The slice moves away between the check of the fence and the read. Neither an
    /// old row nor "no such poll" may be returned then.
    #[tokio::test]
    async fn a_read_fails_when_the_slice_moves_away() {
        let server = TestRouter::new(|_| {});
        let (poll, vote) = server.poll().await;
        server.ask("PATCH", &vote, r#"{"voterID":"ada"}"#).await;
        let poll: PollId = poll.trim_start_matches("/polls/").parse().unwrap();
        let (shard, ada) = (server.shards.shard.clone(), VoterId::new("ada").unwrap());
        let (tenant, now) = (&at(1).slice.tenant_id, server.state.parts.clock.now());
        let route = server.state.parts.routes.tenant(tenant, now).await.unwrap();
        let target = server
            .state
            .resolve_target(&route, &RouteKey::Slice(0))
            .unwrap();
        let slice = &target.fenced.slice;
        let reader = target.consistent_reader().await.unwrap();
        assert!(reader.voter(slice, poll, &ada).await.unwrap().is_some());
        let token = MigrationToken {
            migration_id: MigrationId("m".to_owned()),
            token: 1,
        };
        shard.seal(&at(2), &token).await.unwrap();
        shard.retire(&at(2), &token).await.unwrap();
        let retired = reader.voter(slice, poll, &ada).await;
        assert!(matches!(retired, Err(ShardError::Fenced(_))), "{retired:?}");
        shard.purge(&at(2), &token, 9).await.unwrap();
        for read in [
            reader.voter(slice, poll, &ada).await.map(drop),
            reader.poll(slice, poll).await.map(drop),
            reader.tally(slice, poll).await.map(drop),
        ] {
            assert!(matches!(read, Err(ShardError::Fenced(_))), "{read:?}");
        }
        assert!(target.consistent_reader().await.is_err());
    }
}
