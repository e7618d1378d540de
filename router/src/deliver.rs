//! Delivery: a request's slice, its shard, the call, and the wait when the
//! shard cannot take it now.
//!
//! ```text
//!   route ──► slice ──► shard ──► call ──► answer
//!     ▲                            │ fenced, away
//!     └── read anew ◄── held ◄─────┘ until the deadline, then 503
//! ```
//! How a request waits is in [`crate::held`].

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::routes::{RouteSource, TenantRoute};
use ballast_domain::tenant::{Epoch, Slice, SliceId, slice_of};
use ballast_domain::{Error, ErrorCode, PollId, Result, ShardId};
use ballast_vote_shard::shard::Fenced;
use ballast_vote_shard::{At, ShardError, ShardResult, VoteShard};

use crate::State;
use crate::admit::Access;
use crate::held::Held;
use crate::mirror::Copy;
use crate::truth::Truth;

/// How long one call of a shard may take. What it was asked to do may have
/// happened even so; done again with the same request id, it happens once.
const CALL_PATIENCE: Duration = Duration::from_secs(10);

/// About what a request keeps in memory while it waits: its connection's
/// buffers and all that is on the way to its answer.
const REQUEST_BYTES: usize = 4 * 1024;

/// Where a request goes.
#[derive(Clone)]
pub(crate) struct Place {
    /// The slice and the epoch its route names.
    pub(crate) at: At,
    /// The shard's name.
    pub(crate) shard_id: ShardId,
    /// The shard.
    pub(crate) shard: Arc<dyn VoteShard>,
    /// The shard whose copy is read beside it, while a move's window is open.
    pub(crate) beside: Option<ShardId>,
    /// The shard that the slice is about to come to.
    pub(crate) coming_to: Option<ShardId>,
    /// The copy that must have a write, too, before it is answered.
    pub(crate) copy: Option<Copy>,
    /// Where routes come from: what is kept of them may be old.
    source: Arc<dyn RouteSource>,
}

impl Place {
    /// That the record still names this shard, at this epoch; else that the
    /// slice moved.
    pub(crate) async fn confirm(&self) -> ShardResult<()> {
        let route = self.source.tenant(&self.at.slice.tenant_id).await;
        let route = route.map_err(|_| ShardError::unavailable("its record cannot be read"))?;
        let slices = route.iter().flat_map(|route| &route.slices);
        let mut slices = slices.filter(|slice| slice.slice == self.at.slice.slice);
        let found = slices.next().map(|slice| (&slice.shard_id, slice.epoch));
        if found == Some((&self.shard_id, self.at.epoch)) {
            return Ok(());
        }
        let epoch = found.map_or(self.at.epoch, |(_, epoch)| epoch);
        Err(Fenced::Moved { epoch: Some(epoch) }.into())
    }

    /// The shard, if what is read from it is the truth by this route.
    pub(crate) async fn read(&self) -> ShardResult<Truth<'_>> {
        Truth::of(self).await
    }
}

/// What a request is about: that decides its slice.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A poll.
    Poll(PollId),
    /// Several polls, which lay in one slice when they were put together.
    /// After a split they may lie apart.
    Polls(Vec<PollId>),
    /// A slice by its number. It may have become others.
    Slice(u32),
}

impl Target {
    /// The slice it is about, by this route.
    pub(crate) fn slice<'r>(&self, route: &'r TenantRoute) -> Option<&'r Slice> {
        match self {
            Self::Poll(poll) => slice_of(&route.slices, *poll),
            Self::Polls(polls) => slice_of(&route.slices, *polls.first()?),
            Self::Slice(number) => route.slices.iter().find(|slice| slice.slice == *number),
        }
    }

    /// Whether it is about several slices, by this route, or about one that has
    /// become others.
    fn lies_apart(&self, route: &TenantRoute) -> bool {
        let polls = match self {
            Self::Poll(_) => return false,
            // Numbers are never given again.
            Self::Slice(_) => return self.slice(route).is_none() && !route.slices.is_empty(),
            Self::Polls(polls) => polls,
        };
        let slices = polls.iter().map(|poll| slice_of(&route.slices, *poll));
        let mut slices = slices.map(|slice| slice.map(|slice| slice.slice));
        let first = slices.next();
        slices.any(|slice| Some(slice) != first)
    }
}

/// What a call is to its shard, and to those who wait with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Whether it changes something, or its answer depends on something having
    /// been changed.
    writes: bool,
    /// What it keeps in memory while it waits.
    bytes: usize,
}

impl Load {
    /// A read.
    pub(crate) const READ: Self = Self {
        writes: false,
        bytes: REQUEST_BYTES,
    };

    /// A write that keeps so many bytes beside what every request does.
    pub(crate) fn write(bytes: usize) -> Self {
        Self {
            writes: true,
            bytes: REQUEST_BYTES + bytes,
        }
    }
}

/// The answer to what is about one slice only.
fn undivided<T>(answer: Result<T, Undelivered>) -> Result<T> {
    answer.map_err(|undelivered| match undelivered {
        Undelivered::Failed(error) => error,
        // Only what is put together can lie apart.
        Undelivered::Apart => {
            let detail = "the tenant's data is being divided";
            Error::new(ErrorCode::Unavailable, detail).retry_after(1)
        }
    })
}

/// Why a call was not answered.
#[derive(Debug)]
pub(crate) enum Undelivered {
    /// It cannot be, as it is.
    Failed(Error),
    /// What it is about lies in several slices by now: divide it and send the
    /// parts.
    Apart,
}

impl From<Error> for Undelivered {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl State {
    /// Reads from the shard of a target, and again while it cannot be read. `call`
    /// may be made several times.
    pub(crate) async fn deliver<T, F>(
        &self,
        access: &Access,
        target: &Target,
        call: impl Fn(Place) -> F,
    ) -> Result<T>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let call = self.deliver_heavy(access, target, Load::READ, call);
        undivided(call.await)
    }

    /// Writes to the shard of a target, and again while it cannot take it. `call`
    /// may be made several times: a write carries its request id.
    pub(crate) async fn deliver_write<T, F>(
        &self,
        access: &Access,
        target: &Target,
        call: impl Fn(Place) -> F,
    ) -> Result<T>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let call = self.deliver_heavy(access, target, Load::write(0), call);
        undivided(call.await)
    }

    /// The same for a call that keeps more than others do while it waits, and
    /// that may be about several polls.
    pub(crate) async fn deliver_heavy<T, F>(
        &self,
        access: &Access,
        target: &Target,
        load: Load,
        call: impl Fn(Place) -> F,
    ) -> Result<T, Undelivered>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let mut held = Held::new(self, access, target, load.bytes);
        let mut founded = false;
        loop {
            let route = self.route(access).await;
            let route = route.inspect_err(|_| held.end())?;
            if target.lies_apart(&route) {
                held.end();
                return Err(Undelivered::Apart);
            }
            let trouble = match self.place(access, &route, target) {
                Ok(place) => {
                    let called = {
                        let _permit = held.permit().await;
                        self.noting(&place, in_time(call(place.clone()))).await
                    };
                    let called = match called {
                        Ok(answer) if load.writes => {
                            let mirrored = in_time(self.mirrored(&place)).await;
                            mirrored.map(|()| answer)
                        }
                        other => other,
                    };
                    match called {
                        Ok(answer) => {
                            held.answered();
                            return Ok(answer);
                        }
                        Err(trouble) if !founded && is_unheard_of(&place, &trouble) => {
                            founded = true;
                            match in_time(place.shard.found(&place.at)).await {
                                Ok(()) => continue,
                                Err(trouble) => trouble,
                            }
                        }
                        Err(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            held.wait(&route, trouble).await?;
        }
    }

    /// Where a tenant is, as far as it is known.
    pub(crate) async fn route(&self, access: &Access) -> Result<Arc<TenantRoute>> {
        let now = self.parts.clock.now();
        self.parts
            .routes
            .tenant(&access.tenant.tenant_id, now)
            .await
    }

    fn place(&self, access: &Access, route: &TenantRoute, target: &Target) -> ShardResult<Place> {
        // Also when it cannot be reached: the answer says which route was tried.
        if let Some(slice) = target.slice(route) {
            access.tell(slice);
        }
        self.place_of(route, target)
    }

    /// Where a target is by a route.
    pub(crate) fn place_of(&self, route: &TenantRoute, target: &Target) -> ShardResult<Place> {
        let slice = target
            .slice(route)
            .ok_or_else(|| ShardError::unavailable("the route has no slice for it"))?;
        let shard = self.parts.shards.shard(&slice.shard_id)?;
        Ok(Place {
            at: At {
                slice: SliceId {
                    tenant_id: route.tenant_id.clone(),
                    slice: slice.slice,
                },
                epoch: slice.epoch,
            },
            shard_id: slice.shard_id.clone(),
            shard,
            beside: slice.also_on().cloned(),
            coming_to: coming_to(slice).cloned(),
            copy: Copy::of(slice),
            source: self.parts.source.clone(),
        })
    }
}

/// The shard that a slice is about to come to.
fn coming_to(slice: &Slice) -> Option<&ShardId> {
    let moving = slice.moving.as_ref()?;
    (moving.to != slice.shard_id).then_some(&moving.to)
}

async fn in_time<T>(call: impl Future<Output = ShardResult<T>>) -> ShardResult<T> {
    tokio::time::timeout(CALL_PATIENCE, call)
        .await
        .unwrap_or_else(|_| Err(ShardError::unavailable("the shard did not answer in time")))
}

/// The last step of creating a tenant is taken when its first request finds
/// it missing: the shard is told that the slice is its own. The shard takes
/// that only of a slice that never moved and that it never held.
fn is_unheard_of(place: &Place, trouble: &ShardError) -> bool {
    let unheard_of = matches!(trouble, ShardError::Fenced(Fenced::Moved { epoch: None }));
    unheard_of && place.at.epoch == Epoch::FIRST
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_vote_shard::shard::{MoveId, Order};
    use ballast_vote_shard::{At, VoteShard};

    use crate::testing::House;

    const VOTER: &str = r#"{"voterID":"ada"}"#;

    #[tokio::test]
    async fn a_request_says_where_it_went() {
        let house = House::new(|_| {});
        let (_, vote) = house.poll().await;
        let counted = house.ask("PATCH", &vote, VOTER).await;
        assert_eq!(counted.body["outcome"], "counted");
        assert_eq!(counted.header("ballast-tenant"), "acme");
        assert_eq!(counted.header("ballast-shard"), "shard-1");
        assert_eq!(counted.header("ballast-epoch"), "1");
        let nowhere = vote.replace("item-", "item-0");
        assert_eq!(house.ask("PATCH", &nowhere, VOTER).await.status, 404);
    }

    #[tokio::test]
    async fn a_vote_waits_for_its_shard() {
        let house = House::new(|_| {});
        let (_, vote) = house.poll().await;
        house.shards.set_away(true);
        let back = async {
            house.shards.is_asked(5).await;
            house.shards.set_away(false);
        };
        let (counted, ()) = tokio::join!(house.ask("PATCH", &vote, VOTER), back);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let house = House::new(|settings| settings.hold_max = Duration::from_millis(20));
        let (poll, vote) = house.poll().await;
        house.shards.set_away(true);
        for (method, path) in [
            ("PATCH", &vote),
            ("GET", &poll),
            ("GET", &format!("{poll}/votes")),
            ("GET", &format!("{poll}/votes/live")),
            ("GET", &"/polls".to_owned()),
        ] {
            let body = if method == "GET" { "" } else { VOTER };
            let refused = house.ask(method, path, body).await;
            assert_eq!(refused.status, 503, "{path}: {refused:?}");
            assert_eq!(refused.body["code"], "unavailable");
            assert_eq!(refused.header("retry-after"), "1");
        }
    }

    #[tokio::test]
    async fn only_so_many_wait() {
        let house = House::new(|settings| settings.held_per_tenant_max = 1);
        let (_, vote) = house.poll().await;
        house.shards.set_away(true);
        let second = async {
            house.shards.is_asked(4).await;
            let refused = house.ask("PATCH", &vote, VOTER).await;
            house.shards.set_away(false);
            refused
        };
        let (first, second) = tokio::join!(house.ask("PATCH", &vote, VOTER), second);
        assert_eq!((second.status, &second.body["code"]), (503, &"busy".into()));
        assert_eq!(second.header("retry-after"), "1");
        assert_eq!(first.body["outcome"], "counted");
    }

    #[tokio::test]
    async fn a_vote_waits_for_a_sealed_slice_and_follows_its_route() {
        let house = House::new(|_| {});
        let (_, vote) = house.poll().await;
        let order = Order {
            move_id: MoveId("m".to_owned()),
            token: 1,
        };
        let at = |epoch| At {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        };
        let shard = house.shards.shard.clone();
        shard.seal(&at(2), &order).await.unwrap();
        let asked = house.source.asked();
        let moving = async {
            house.shards.is_asked(5).await;
            shard.unseal(&at(3), &order).await.unwrap();
            house.source.set_epoch("acme", Epoch(3));
        };
        let (counted, ()) = tokio::join!(house.ask("PATCH", &vote, VOTER), moving);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-epoch"), "3");
        assert_eq!(
            house.source.asked(),
            asked,
            "the key was not asked for again"
        );
    }
}
