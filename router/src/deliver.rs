//! Delivery: finds the slice that a request is about and its shard, calls the
//! shard, and holds the request while the shard cannot serve it.
//!
//! ```text
//!   route ──► slice ──► shard ──► call ──► answer
//!     ▲                            │ fenced or unavailable
//!     └── read again ◄── held ◄────┘ until the deadline, then 503
//! ```
//! How a request is held is in [`crate::held`].

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::routes::{RouteSource, TenantRoute};
use ballast_domain::tenant::{Epoch, Slice, SliceId, find_slice};
use ballast_domain::{Error, ErrorCode, PollId, Result, ShardId, TenantId};
use ballast_vote_shard::shard::FenceError;
use ballast_vote_shard::{FencedSlice, ShardError, ShardResult, VoteShard};

use crate::RouterState;
use crate::admit::Access;
use crate::consistent_read::ConsistentReader;
use crate::held::PendingRequest;
use crate::mirror::SyncReplica;
use crate::request_summary::RequestSummary;

/// Timeout of one call of a shard. The call may have taken effect even so; a
/// retry carries the same request id, so it takes effect once.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// About what a held request keeps in memory: its connection's buffers and its
/// state on the way to an answer.
const REQUEST_BYTES: usize = 4 * 1024;

/// The shard that serves a request, resolved for one attempt. The route that it
/// comes from may be stale: the shard's fence decides.
#[derive(Clone)]
pub(crate) struct ShardTarget {
    /// The slice and the epoch that the route names.
    pub(crate) fenced: FencedSlice,
    /// The shard's name.
    pub(crate) shard_id: ShardId,
    /// The shard.
    pub(crate) shard: Arc<dyn VoteShard>,
    /// The previous owner, which is read as well while a migration's window is
    /// open.
    pub(crate) previous_shard: Option<ShardId>,
    /// The shard that the slice is moving to.
    pub(crate) next_shard: Option<ShardId>,
    /// The replica that must also have a write before the write is answered.
    pub(crate) sync_replica: Option<SyncReplica>,
    /// The source of routes: the cached one may be stale.
    routes: Arc<dyn RouteSource>,
}

impl ShardTarget {
    /// Fails unless the tenant's record still names this shard at this epoch.
    pub(crate) async fn confirm(&self) -> ShardResult<()> {
        let route = self.routes.tenant(&self.fenced.slice.tenant_id).await;
        let route =
            route.map_err(|_| ShardError::unavailable("the tenant's record cannot be read"))?;
        let slices = route.iter().flat_map(|route| &route.slices);
        let mut slices = slices.filter(|slice| slice.slice == self.fenced.slice.slice);
        let owner = slices.next().map(|slice| (&slice.shard_id, slice.epoch));
        if owner == Some((&self.shard_id, self.fenced.epoch)) {
            return Ok(());
        }
        let epoch = owner.map_or(self.fenced.epoch, |(_, epoch)| epoch);
        Err(FenceError::NotOwner { epoch: Some(epoch) }.into())
    }

    /// A reader of the shard's data, if the shard owns the slice by this route.
    pub(crate) async fn consistent_reader(&self) -> ShardResult<ConsistentReader<'_>> {
        ConsistentReader::open(self).await
    }
}

/// What a request is about. This decides which slice serves it.
#[derive(Debug, Clone)]
pub(crate) enum RouteKey {
    /// A poll.
    Poll(PollId),
    /// Several polls of one slice. After a split they may be in several slices.
    Polls(Vec<PollId>),
    /// A slice by its number. A split or merge may have replaced it.
    Slice(u32),
}

impl RouteKey {
    /// The slice that serves it, by this route.
    pub(crate) fn slice<'r>(&self, route: &'r TenantRoute) -> Option<&'r Slice> {
        match self {
            Self::Poll(poll) => find_slice(&route.slices, *poll),
            Self::Polls(polls) => find_slice(&route.slices, *polls.first()?),
            Self::Slice(number) => route.slices.iter().find(|slice| slice.slice == *number),
        }
    }

    /// Whether its polls are in several slices of this route, or its slice was
    /// replaced by others.
    fn spans_slices(&self, route: &TenantRoute) -> bool {
        let polls = match self {
            Self::Poll(_) => return false,
            // Slice numbers are never reused.
            Self::Slice(_) => return self.slice(route).is_none() && !route.slices.is_empty(),
            Self::Polls(polls) => polls,
        };
        let slices = polls.iter().map(|poll| find_slice(&route.slices, *poll));
        let mut slices = slices.map(|slice| slice.map(|slice| slice.slice));
        let first = slices.next();
        slices.any(|slice| Some(slice) != first)
    }
}

/// What a call costs: whether it writes, and its memory while it is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallCost {
    /// Whether it changes something, or its answer depends on an earlier change.
    writes: bool,
    /// Bytes that it keeps in memory while it is held.
    bytes: usize,
}

impl CallCost {
    /// A read.
    pub(crate) const READ: Self = Self {
        writes: false,
        bytes: REQUEST_BYTES,
    };

    /// A write that keeps `bytes` more in memory than every request does.
    pub(crate) fn write(bytes: usize) -> Self {
        Self {
            writes: true,
            bytes: REQUEST_BYTES + bytes,
        }
    }
}

/// Why a call was not answered.
#[derive(Debug)]
pub(crate) enum DeliveryError {
    /// It failed.
    Failed(Error),
    /// Its polls are in several slices now: divide them and send the parts.
    SpansSlices,
}

impl From<Error> for DeliveryError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl DeliveryError {
    /// The error of a call that is about one poll.
    fn into_error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            // Only several polls, or a slice by its number, can span slices.
            Self::SpansSlices => {
                let detail = "the tenant is being split or merged";
                Error::new(ErrorCode::Unavailable, detail).retry_after(1)
            }
        }
    }
}

impl RouterState {
    /// Reads from the shard that serves `route_key`, and retries while the shard
    /// cannot serve it. `call` may run several times.
    pub(crate) async fn deliver<T, F>(
        &self,
        access: &mut Access,
        route_key: &RouteKey,
        call: impl Fn(ShardTarget) -> F,
    ) -> Result<T>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let call = self.deliver_with_cost(access, route_key, CallCost::READ, call);
        call.await.map_err(DeliveryError::into_error)
    }

    /// Writes to the shard that serves `route_key`, and retries while the shard
    /// cannot serve it. `call` may run several times: a write carries its
    /// request id.
    pub(crate) async fn deliver_write<T, F>(
        &self,
        access: &mut Access,
        route_key: &RouteKey,
        call: impl Fn(ShardTarget) -> F,
    ) -> Result<T>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let call = self.deliver_with_cost(access, route_key, CallCost::write(0), call);
        call.await.map_err(DeliveryError::into_error)
    }

    /// Makes a call of a stated cost, which may be about several polls.
    pub(crate) async fn deliver_with_cost<T, F>(
        &self,
        access: &mut Access,
        route_key: &RouteKey,
        cost: CallCost,
        call: impl Fn(ShardTarget) -> F,
    ) -> Result<T, DeliveryError>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let Access {
            tenant, summary, ..
        } = access;
        let mut pending = PendingRequest::new(self, &tenant.tenant_id, route_key, cost.bytes);
        let answer = self.retry_until_answered(&mut pending, summary, cost, call);
        let answer = answer.await;
        summary.add_held(pending.held_time());
        answer
    }

    /// Calls the shard, and holds the request between attempts.
    async fn retry_until_answered<T, F>(
        &self,
        pending: &mut PendingRequest<'_>,
        summary: &mut RequestSummary,
        cost: CallCost,
        call: impl Fn(ShardTarget) -> F,
    ) -> Result<T, DeliveryError>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let mut adopted = false;
        loop {
            let route = self.route(pending.tenant()).await;
            let route = route.inspect_err(|_| pending.end())?;
            if pending.route_key().spans_slices(&route) {
                pending.end();
                return Err(DeliveryError::SpansSlices);
            }
            // Also when the shard cannot be reached: the response names the route
            // that was tried.
            if let Some(slice) = pending.route_key().slice(&route) {
                summary.set_route(slice);
            }
            let failure = match self.resolve_target(&route, pending.route_key()) {
                Ok(target) => match self.call_shard(pending, &target, cost, &call).await {
                    Ok(answer) => {
                        pending.answered();
                        return Ok(answer);
                    }
                    Err(failure) if !adopted && is_unknown_new_slice(&target, &failure) => {
                        adopted = true;
                        match with_timeout(target.shard.adopt(&target.fenced)).await {
                            Ok(()) => continue,
                            Err(failure) => failure,
                        }
                    }
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            pending.wait(&route, failure).await?;
        }
    }

    /// Makes one attempt. A write also waits for the sync replica, if there is
    /// one.
    async fn call_shard<T, F>(
        &self,
        pending: &mut PendingRequest<'_>,
        target: &ShardTarget,
        cost: CallCost,
        call: impl Fn(ShardTarget) -> F,
    ) -> ShardResult<T>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let answer = {
            let _permit = pending.permit().await;
            self.timed_call(target, with_timeout(call(target.clone())))
                .await?
        };
        if cost.writes {
            with_timeout(self.await_replica(target)).await?;
        }
        Ok(answer)
    }

    /// A tenant's route, from the cache if it is there.
    pub(crate) async fn route(&self, tenant: &TenantId) -> Result<Arc<TenantRoute>> {
        let now = self.parts.clock.now();
        self.parts.routes.tenant(tenant, now).await
    }

    /// The shard that serves `route_key` by this route.
    pub(crate) fn resolve_target(
        &self,
        route: &TenantRoute,
        route_key: &RouteKey,
    ) -> ShardResult<ShardTarget> {
        let slice = route_key
            .slice(route)
            .ok_or_else(|| ShardError::unavailable("the route has no slice for the request"))?;
        let shard = self.parts.shards.shard(&slice.shard_id)?;
        Ok(ShardTarget {
            fenced: FencedSlice {
                slice: SliceId {
                    tenant_id: route.tenant_id.clone(),
                    slice: slice.slice,
                },
                epoch: slice.epoch,
            },
            shard_id: slice.shard_id.clone(),
            shard,
            previous_shard: slice.also_on().cloned(),
            next_shard: next_owner(slice).cloned(),
            sync_replica: SyncReplica::from_slice(slice),
            routes: self.parts.source.clone(),
        })
    }
}

/// The shard that a slice is moving to.
fn next_owner(slice: &Slice) -> Option<&ShardId> {
    let moving = slice.moving.as_ref()?;
    (moving.to != slice.shard_id).then_some(&moving.to)
}

async fn with_timeout<T>(call: impl Future<Output = ShardResult<T>>) -> ShardResult<T> {
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_| Err(ShardError::unavailable("the shard did not answer in time")))
}

/// Whether the shard does not know a slice that was just created. The router
/// then tells the shard to adopt the slice, which completes the creation of a
/// tenant. The shard refuses for a slice that has moved or that it has owned before.
fn is_unknown_new_slice(target: &ShardTarget, failure: &ShardError) -> bool {
    let unknown = matches!(
        failure,
        ShardError::Fenced(FenceError::NotOwner { epoch: None })
    );
    unknown && target.fenced.epoch == Epoch::FIRST
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_vote_shard::shard::{MigrationId, MigrationToken};
    use ballast_vote_shard::{FencedSlice, VoteShard};

    use crate::testing::TestRouter;

    const VOTER: &str = r#"{"voterID":"ada"}"#;

    #[tokio::test]
    async fn a_response_names_its_shard() {
        let server = TestRouter::new(|_| {});
        let (_, vote) = server.poll().await;
        let counted = server.ask("PATCH", &vote, VOTER).await;
        assert_eq!(counted.body["outcome"], "counted");
        assert_eq!(counted.header("ballast-tenant"), "acme");
        assert_eq!(counted.header("ballast-shard"), "shard-1");
        assert_eq!(counted.header("ballast-epoch"), "1");
        let nowhere = vote.replace("item-", "item-0");
        assert_eq!(server.ask("PATCH", &nowhere, VOTER).await.status, 404);
    }

    #[tokio::test]
    async fn a_vote_is_held_for_its_shard() {
        let server = TestRouter::new(|_| {});
        let (_, vote) = server.poll().await;
        server.shards.set_away(true);
        let back = async {
            server.shards.wait_for_calls(5).await;
            server.shards.set_away(false);
        };
        let (counted, ()) = tokio::join!(server.ask("PATCH", &vote, VOTER), back);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    }

    #[tokio::test]
    async fn requests_time_out_while_held() {
        let server = TestRouter::new(|settings| settings.hold_max = Duration::from_millis(20));
        let (poll, vote) = server.poll().await;
        server.shards.set_away(true);
        for (method, path) in [
            ("PATCH", &vote),
            ("GET", &poll),
            ("GET", &format!("{poll}/votes")),
            ("GET", &format!("{poll}/votes/live")),
            ("GET", &"/polls".to_owned()),
        ] {
            let body = if method == "GET" { "" } else { VOTER };
            let refused = server.ask(method, path, body).await;
            assert_eq!(refused.status, 503, "{path}: {refused:?}");
            assert_eq!(refused.body["code"], "unavailable");
            assert_eq!(refused.header("retry-after"), "1");
        }
    }

    #[tokio::test]
    async fn held_requests_are_bounded_per_tenant() {
        let server = TestRouter::new(|settings| settings.held_per_tenant_max = 1);
        let (_, vote) = server.poll().await;
        server.shards.set_away(true);
        let second = async {
            server.shards.wait_for_calls(4).await;
            let refused = server.ask("PATCH", &vote, VOTER).await;
            server.shards.set_away(false);
            refused
        };
        let (first, second) = tokio::join!(server.ask("PATCH", &vote, VOTER), second);
        assert_eq!((second.status, &second.body["code"]), (503, &"busy".into()));
        assert_eq!(second.header("retry-after"), "1");
        assert_eq!(first.body["outcome"], "counted");
    }

    #[tokio::test]
    async fn a_vote_is_held_for_a_sealed_slice_and_follows_its_route() {
        let server = TestRouter::new(|_| {});
        let (_, vote) = server.poll().await;
        let token = MigrationToken {
            migration_id: MigrationId("m".to_owned()),
            token: 1,
        };
        let at = |epoch| FencedSlice {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        };
        let shard = server.shards.shard.clone();
        shard.seal(&at(2), &token).await.unwrap();
        let asked = server.source.calls();
        let moving = async {
            server.shards.wait_for_calls(5).await;
            shard.unseal(&at(3), &token).await.unwrap();
            server.source.set_epoch("acme", Epoch(3));
        };
        let (counted, ()) = tokio::join!(server.ask("PATCH", &vote, VOTER), moving);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-epoch"), "3");
        assert_eq!(
            server.source.calls(),
            asked,
            "the key was not asked for again"
        );
    }
}
