//! `/polls`: create, list, show, close and widen polls.
//!
//! ```text
//!   wire.rs    the JSON of polls
//!   export.rs  streams the voters' rows of a poll
//!   lanes.rs   the lanes of a poll's counters, and imports of totals
//! ```

mod export;
mod lanes;
mod wire;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::bounds::{POLL_BODY_BYTES_MAX, SLICES_PER_TENANT_MAX, VOTE_BODY_BYTES_MAX};
use ballast_domain::poll::{Poll, PollOptions, PollSpec, RequestId};
use ballast_domain::routes::TenantRoute;
use ballast_domain::{Error, ErrorCode, PollId, Result};
use ballast_web::body::{EmptyBody, decode};
use ballast_web::head::{Params, idempotency_key};
use ballast_web::page::Page;

pub(crate) use export::{__path_export, export};
pub(crate) use lanes::{__path_import, __path_lanes, import, lanes};
pub(crate) use wire::{NewPoll, PollPatch, PollView};

use crate::admit::{Access, Authorized, ManageAccess, ReadAccess};
use crate::deliver::{CallCost, DeliveryError, RouteKey};
use crate::openapi::IdempotencyHeader;
use crate::request::{Paging, PollPath, read};
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// How many ids are drawn to find one in a given hash range. The chance that none fits
/// is negligible.
const DRAWS: usize = 10_000;
/// The number of equal hash ranges: the narrowest slices that a tenant can have.
const RANGES: u64 = SLICES_PER_TENANT_MAX as u64;

/// Create a poll.
///
/// A repeated request with the same `Idempotency-Key` returns the poll that the first
/// one created.
#[utoipa::path(post, path = "/polls", operation_id = "createPoll",
    tag = "polls", params(IdempotencyHeader),
    request_body = NewPoll, responses((status = 201, description = "The poll", body = PollView,
    headers(("Location" = String, description = "The path of the poll")))))]
pub(crate) async fn create(
    Authorized { mut access, .. }: Authorized<ManageAccess>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    let created = create_poll(&state, &mut access, &headers, body).await;
    access.answer(created)
}

async fn create_poll(
    state: &RouterState,
    access: &mut Access,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    let key = idempotency_key(headers)?.map(RequestId::from_name);
    let bytes = read(body, POLL_BODY_BYTES_MAX).await?;
    let asked: NewPoll = decode(headers, &bytes, true)?;
    let poll = new_poll(state, key, asked.spec())?;
    let route_key = RouteKey::Poll(poll.poll_id);
    let stored = state
        .deliver_write(access, &route_key, |target| {
            let poll = poll.clone();
            async move { target.shard.create_poll(&target.fenced, poll).await }
        })
        .await?;
    if !is_requested_poll(&stored, &poll) {
        let detail = "this Idempotency-Key was used to create a different poll";
        return Err(Error::new(ErrorCode::IdempotencyMismatch, detail).into());
    }
    Ok(created(state, &poll, stored))
}

/// Makes the poll with its id and its request id, which stay the same in all attempts.
fn new_poll(state: &RouterState, key: Option<RequestId>, spec: PollSpec) -> Result<Poll> {
    let now = state.parts.clock.now();
    spec.check(now)?;
    let draw = || PollId::random(now, &*state.parts.entropy);
    let poll_id = match key {
        Some(key) => poll_id_for_request(key, draw)?,
        None => draw(),
    };
    Ok(Poll {
        poll_id,
        request: key.unwrap_or_else(|| state.parts.requests.next()),
        spec,
        created_at: now,
        closed_at: None,
    })
}

/// Draws a poll id whose hash is in the range that the request id selects. So a
/// repeated request reaches the slice of the poll that the first one created, also
/// after the tenant was split. The ranges are therefore the narrowest slices that there
/// can be, and not the current slices.
fn poll_id_for_request(request: RequestId, mut draw: impl FnMut() -> PollId) -> Result<PollId> {
    let range_of = |id: PollId| id.hash() / (u64::MAX / RANGES + 1);
    let wanted = range_of(PollId::from_number(request.0.into()));
    (0..DRAWS)
        .map(|_| draw())
        .find(|id| range_of(*id) == wanted)
        .ok_or_else(|| {
            Error::new(
                ErrorCode::Unavailable,
                "no poll id was found for the request",
            )
            .retry_after(1)
        })
}

/// Whether a stored poll is the one that was requested. Its number of lanes may have
/// changed since, and it may have closed.
fn is_requested_poll(stored: &Poll, asked: &Poll) -> bool {
    let mut spec = stored.spec.clone();
    spec.options.lanes = asked.spec.options.lanes;
    spec == asked.spec
}

fn created(state: &RouterState, asked: &Poll, stored: Poll) -> Response {
    let (repeated, id) = (stored.poll_id != asked.poll_id, stored.poll_id);
    let body = Json(PollView::from_poll(stored, state.parts.clock.now()));
    let mut response = (StatusCode::CREATED, body).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&format!("/polls/{id}")) {
        headers.insert(header::LOCATION, location);
    }
    if repeated {
        let name = HeaderName::from_static("idempotency-replayed");
        headers.insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// List polls, in the order in which they were created.
#[utoipa::path(get, path = "/polls", operation_id = "listPolls",
    tag = "polls", params(Paging),
    responses((status = 200, description = "A page of polls", body = Page<PollView>)))]
pub(crate) async fn list(
    Authorized {
        mut access, path, ..
    }: Authorized<ReadAccess, Params<Paging>>,
    State(state): State<RouterState>,
) -> SummarizedResponse {
    let Params(paging) = path;
    let page = list_page(&state, &mut access, &paging).await;
    access.answer(page.map(Json))
}

async fn list_page(
    state: &RouterState,
    access: &mut Access,
    paging: &Paging,
) -> Result<Page<PollView>, RouterError> {
    let (limit, after) = paging.read()?;
    let most = limit as usize + 1;
    let mut slices = access.tenant.clone();
    let mut found = loop {
        match list_polls(state, access, &slices, after, most).await {
            Ok(found) => break found,
            Err(DeliveryError::Failed(error)) => return Err(error.into()),
            // A slice was split or merged: read the polls of the new ones instead.
            Err(DeliveryError::SpansSlices) => {
                slices = state.route(&access.tenant.tenant_id).await?
            }
        }
    };
    // Ids sort by creation time, whichever slices the polls are in.
    found.sort_by_key(|poll| poll.poll_id);
    let now = state.parts.clock.now();
    let views = found.into_iter().map(|poll| PollView::from_poll(poll, now));
    Ok(Page::from_items(views.collect(), limit, |poll| {
        poll.poll_id
    }))
}

/// The polls of all slices, up to `most` of each.
async fn list_polls(
    state: &RouterState,
    access: &mut Access,
    route: &TenantRoute,
    after: Option<PollId>,
    most: usize,
) -> Result<Vec<Poll>, DeliveryError> {
    let mut found = Vec::new();
    for slice in &route.slices {
        let route_key = RouteKey::Slice(slice.slice);
        let polls =
            state.deliver_with_cost(access, &route_key, CallCost::READ, |target| async move {
                let slice = &target.fenced.slice;
                target
                    .consistent_reader()
                    .await?
                    .polls(slice, after, most)
                    .await
            });
        found.extend(polls.await?);
    }
    Ok(found)
}

/// Show a poll.
#[utoipa::path(get, path = "/polls/{poll}", operation_id = "getPoll",
    tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, description = "The poll", body = PollView)))]
pub(crate) async fn show(
    Authorized {
        mut access, path, ..
    }: Authorized<ReadAccess, PollPath>,
    State(state): State<RouterState>,
) -> SummarizedResponse {
    let PollPath(poll) = path;
    let poll = read_poll(&state, &mut access, poll).await;
    let now = state.parts.clock.now();
    access.answer(
        poll.map(|poll| Json(PollView::from_poll(poll, now)))
            .map_err(Into::into),
    )
}

/// Reads a poll from its shard.
pub(super) async fn read_poll(
    state: &RouterState,
    access: &mut Access,
    poll: PollId,
) -> Result<Poll> {
    let route_key = RouteKey::Poll(poll);
    let reading = state.deliver(access, &route_key, |target| async move {
        let reader = target.consistent_reader().await?;
        reader.poll(&target.fenced.slice, poll).await
    });
    reading.await
}

/// Close a poll now. Closing a closed poll changes nothing.
#[utoipa::path(post, path = "/polls/{poll}/close", operation_id = "closePoll",
    tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, description = "The closed poll", body = PollView)))]
pub(crate) async fn close(
    Authorized {
        mut access, path, ..
    }: Authorized<ManageAccess, PollPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    let closed = close_poll(&state, &mut access, path, &headers, body).await;
    access.answer(closed.map(Json))
}

async fn close_poll(
    state: &RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
    headers: &HeaderMap,
    body: Body,
) -> Result<PollView, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    let EmptyBody {} = decode(headers, &bytes, false)?;
    let closed = state
        .deliver_write(access, &RouteKey::Poll(poll), |target| async move {
            let closed = target.shard.close_poll(&target.fenced, poll).await?;
            state.refresh_counts(&target, poll).await?;
            Ok(closed)
        })
        .await?;
    Ok(PollView::from_poll(closed, state.parts.clock.now()))
}

/// Spread a poll's counters over more lanes.
#[utoipa::path(patch, path = "/polls/{poll}", operation_id = "widenPoll",
    tag = "polls", params(("poll" = PollId, Path)),
    request_body = PollPatch,
    responses((status = 200, description = "The poll with its lanes", body = PollView)))]
pub(crate) async fn widen(
    Authorized {
        mut access, path, ..
    }: Authorized<ManageAccess, PollPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    let widened = widen_poll(&state, &mut access, path, &headers, body).await;
    access.answer(widened.map(Json))
}

async fn widen_poll(
    state: &RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
    headers: &HeaderMap,
    body: Body,
) -> Result<PollView, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    let PollPatch { lanes } = decode(headers, &bytes, true)?;
    PollOptions::check_lanes(lanes)?;
    let route_key = RouteKey::Poll(poll);
    let found = read_poll(state, access, poll).await?;
    // Items never change, so the check also holds when the shard widens the poll.
    found.spec.check_counters(lanes)?;
    let has = found.spec.options.lanes;
    if lanes < has {
        let message = format!(
            "the poll has {has} lanes; the number is reduced automatically when votes slow down"
        );
        return Err(Error::invalid_field("/lanes", message).into());
    }
    let widened = state
        .deliver_write(access, &route_key, |target| async move {
            target.shard.widen_lanes(&target.fenced, poll, lanes).await
        })
        .await?;
    Ok(PollView::from_poll(widened, state.parts.clock.now()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::slicing::{ChildSlice, equal_cuts};
    use ballast_domain::tenant::{Epoch, Slice, SliceId, find_slice};
    use ballast_domain::{ShardId, TenantId, Timestamp};
    use ballast_vote_shard::shard::{MigrationId, MigrationToken, RecutSpec};
    use ballast_vote_shard::{FencedSlice, VoteShard as _};

    use crate::testing::TestRouter;

    #[test]
    fn a_repeated_request_reaches_the_same_slice_after_any_split() {
        let shard: ShardId = "shard-1".parse().unwrap();
        let cut = |into| {
            let slices = (0..).zip(equal_cuts(into)).map(|(number, from)| Slice {
                hash_from: from,
                ..Slice::placed(number, shard.clone(), Timestamp::from_unix_ms(0))
            });
            slices.collect::<Vec<_>>()
        };
        let mut next = 0_u128;
        let mut draw = || {
            next += 1;
            PollId::from_number(next << 64 | next)
        };
        for name in 0..50 {
            let request = RequestId(name * 7_919);
            let (first, again) = (
                poll_id_for_request(request, &mut draw).unwrap(),
                poll_id_for_request(request, &mut draw).unwrap(),
            );
            assert_ne!(first, again);
            for into in [1, 2, 8, SLICES_PER_TENANT_MAX] {
                let slices = cut(into);
                let slice = |id| find_slice(&slices, id).unwrap().slice;
                assert_eq!(slice(first), slice(again), "of {into}");
            }
        }
    }

    /// Splits the slice of a test router, without telling the router.
    async fn split_slice(server: &TestRouter) {
        let tenant_id: TenantId = "acme".parse().unwrap();
        let at = FencedSlice {
            slice: SliceId {
                tenant_id: tenant_id.clone(),
                slice: 0,
            },
            epoch: Epoch(2),
        };
        let token = MigrationToken {
            migration_id: MigrationId("rc".to_owned()),
            token: 1,
        };
        let half = equal_cuts(2)[1];
        let piece = |slice, hash_from, hash_to| ChildSlice {
            slice,
            hash_from,
            hash_to,
        };
        let cut = RecutSpec {
            tenant_id,
            epoch: Epoch(2),
            parents: vec![0],
            children: vec![piece(1, 0, half - 1), piece(2, half, u64::MAX)],
        };
        server.shards.shard.seal(&at, &token).await.unwrap();
        server.shards.shard.recut(&token, &cut).await.unwrap();
        server.source.change_route(|route| {
            let old = route.slices.remove(0);
            for (slice, hash_from) in [(1, 0), (2, half)] {
                route.slices.push(Slice {
                    slice,
                    hash_from,
                    epoch: Epoch(2),
                    ..old.clone()
                });
            }
        });
    }

    #[tokio::test]
    async fn a_router_with_a_stale_route_finds_every_poll_after_a_split() {
        let server = TestRouter::new(|_| {});
        let mut stored = Vec::new();
        for number in 0..6 {
            let (poll, vote) = server.poll().await;
            let voter = format!(r#"{{"voterID":"v-{number}"}}"#);
            server.ask("PATCH", &vote, &voter).await;
            stored.push((poll, vote));
        }
        split_slice(&server).await;
        let listed = server.ask("GET", "/polls", "").await;
        assert_eq!(listed.status, 200, "{listed:?}");
        let items = listed.body["items"].as_array().unwrap();
        let ids: Vec<String> = items
            .iter()
            .map(|poll| format!("/polls/{}", poll["pollID"].as_str().unwrap()))
            .collect();
        let mut all: Vec<String> = stored.iter().map(|(poll, _)| poll.clone()).collect();
        all.sort();
        assert_eq!(ids, all);
        for (poll, vote) in stored {
            let counted = server.ask("PATCH", &vote, r#"{"voterID":"late"}"#).await;
            assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
            let results = server.ask("GET", &format!("{poll}/votes"), "").await;
            assert_eq!(results.body["total"], 2, "{results:?}");
        }
    }
}
