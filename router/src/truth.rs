//! Reading the truth: what a shard answers counts only if it held the truth of
//! the slice before it was asked and still does afterwards.
//!
//! Reads do not pass the fence, so between the look at the fence and the read
//! the slice may have moved away: what is read then is an old copy, or half
//! of one, or nothing at all. A fence never is again what it was, so one that
//! is the same before and after was so in between.
//!
//! A sealed slice is read too, so that a cutover keeps nobody from reading. It
//! does not know when its move was decided: a router that has not heard of it
//! either asks the record, after it has read.

use ballast_domain::poll::Poll;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, VoterId};
use ballast_vote_shard::shard::{ArchiveFile, Cursor, Fence, Fenced, Page, SliceKey, VoterRow};
use ballast_vote_shard::{ShardResult, Tally};

use crate::deliver::Place;

/// A shard that held the truth a moment ago.
pub(crate) struct Truth<'a> {
    place: &'a Place,
    fence: Option<Fence>,
}

impl<'a> Truth<'a> {
    /// The shard, if what is read from it is the truth by this route.
    pub(crate) async fn of(place: &'a Place) -> ShardResult<Self> {
        let fence = place.shard.fence(&place.at.slice).await?;
        Fence::serves(fence.as_ref(), place.at.epoch)?;
        Ok(Self { place, fence })
    }

    /// What was read, if it still holds the truth. Also a refusal: there may
    /// be no such poll because the slice is gone.
    async fn still<T>(&self, read: ShardResult<T>) -> ShardResult<T> {
        let Place { at, shard, .. } = self.place;
        let fence = shard.fence(&at.slice).await?;
        let period = |fence: &Option<Fence>| fence.as_ref().map(|one| (one.epoch, one.holding));
        if period(&fence) != period(&self.fence) {
            let epoch = fence.map(|fence| fence.epoch);
            // An epoch: this is no slice that was never heard of.
            return Err(Fenced::Moved {
                epoch: epoch.or(Some(at.epoch)),
            }
            .into());
        }
        if Fence::must_be_confirmed(fence.as_ref()) {
            self.place.confirm().await?;
        }
        read
    }

    pub(crate) async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll> {
        self.still(self.place.shard.poll(slice, poll).await).await
    }

    pub(crate) async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>> {
        let polls = self.place.shard.polls(slice, after, most).await;
        self.still(polls).await
    }

    pub(crate) async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        self.still(self.place.shard.tally(slice, poll).await).await
    }

    pub(crate) async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>> {
        self.still(self.place.shard.lanes(slice, poll).await).await
    }

    pub(crate) async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let row = self.place.shard.voter(slice, poll, voter).await;
        self.still(row).await
    }

    pub(crate) async fn archive(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>> {
        let file = self.place.shard.archive(slice, poll).await;
        self.still(file).await
    }

    pub(crate) async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.still(self.place.shard.slice_key(slice).await).await
    }

    pub(crate) async fn export(
        &self,
        slice: &SliceId,
        cursor: &Cursor,
        bytes: usize,
    ) -> ShardResult<Page> {
        let page = self.place.shard.export(slice, cursor, bytes).await;
        self.still(page).await
    }
}

#[cfg(test)]
mod tests {
    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_domain::{PollId, VoterId};
    use ballast_vote_shard::shard::{MoveId, Order};
    use ballast_vote_shard::{At, ShardError, VoteShard};

    use crate::deliver::Target;
    use crate::testing::House;

    fn at(epoch: u64) -> At {
        At {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        }
    }

    /// The slice moves away between the look at the fence and the read: what
    /// is read then is told by nobody, neither an old row nor that there is no
    /// such poll.
    #[tokio::test]
    async fn what_moved_away_meanwhile_is_not_told() {
        let house = House::new(|_| {});
        let (poll, vote) = house.poll().await;
        house.ask("PATCH", &vote, r#"{"voterID":"ada"}"#).await;
        let poll: PollId = poll.trim_start_matches("/polls/").parse().unwrap();
        let (shard, ada) = (house.shards.shard.clone(), VoterId::new("ada").unwrap());
        let (tenant, now) = (&at(1).slice.tenant_id, house.state.parts.clock.now());
        let route = house.state.parts.routes.tenant(tenant, now).await.unwrap();
        let place = house.state.place_of(&route, &Target::Slice(0)).unwrap();
        let slice = &place.at.slice;
        let truth = place.read().await.unwrap();
        assert!(truth.voter(slice, poll, &ada).await.unwrap().is_some());
        let order = Order {
            move_id: MoveId("m".to_owned()),
            token: 1,
        };
        shard.seal(&at(2), &order).await.unwrap();
        shard.retire(&at(2), &order).await.unwrap();
        let retired = truth.voter(slice, poll, &ada).await;
        assert!(matches!(retired, Err(ShardError::Fenced(_))), "{retired:?}");
        shard.purge(&at(2), &order, 9).await.unwrap();
        for read in [
            truth.voter(slice, poll, &ada).await.map(drop),
            truth.poll(slice, poll).await.map(drop),
            truth.tally(slice, poll).await.map(drop),
        ] {
            assert!(matches!(read, Err(ShardError::Fenced(_))), "{read:?}");
        }
        assert!(place.read().await.is_err());
    }
}
