//! `/polls`: created, listed, read, closed, widened.
//!
//! ```text
//!   wire.rs    polls as callers write and read them
//!   export.rs  the voters' rows of a poll, streamed
//!   lanes.rs   how counters are spread, and votes that come as sums
//! ```

mod export;
mod lanes;
mod wire;

use axum::Json;
use axum::body::Body;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::bounds::{POLL_BODY_BYTES_MAX, VOTE_BODY_BYTES_MAX};
use ballast_domain::poll::{Poll, PollOptions, PollSpec, RequestId};
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::slice_of;
use ballast_domain::{Error, ErrorCode, PollId, Result};
use ballast_web::body::{Nothing, decode};
use ballast_web::head::{Params, idempotency_key};
use ballast_web::page::Page;

pub(crate) use export::{__path_export, export};
pub(crate) use lanes::{__path_import, __path_lanes, import, lanes};
pub(crate) use wire::{NewPoll, PollPatch, PollView};

use crate::admit::{Access, Allowed, ToManage, ToRead};
use crate::deliver::Target;
use crate::openapi::IdempotencyHeader;
use crate::request::{Paging, PollPath, read};
use crate::{RouterError, State};

/// How often an id is drawn for a slice. With as many slices as a tenant can
/// have, all draws miss it less than once in a lifetime.
const DRAWS: usize = 10_000;

/// Create a poll.
///
/// Repeated with the same `Idempotency-Key`, the request finds the poll that
/// it made.
#[utoipa::path(post, path = "/polls", tag = "polls", params(IdempotencyHeader),
    request_body = NewPoll, responses((status = 201, body = PollView,
    headers(("Location" = String, description = "Where the poll is")))))]
pub(crate) async fn create(
    Allowed(access, _): Allowed<ToManage>,
    Given(state): Given<State>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    let key = idempotency_key(&headers)?.map(RequestId::of);
    let bytes = read(body, POLL_BODY_BYTES_MAX).await?;
    let asked: NewPoll = decode(&headers, &bytes, true)?;
    let poll = new_poll(&state, &access, key, asked.spec())?;
    let target = Target::Poll(poll.poll_id);
    let made = state
        .deliver(&access, &target, |place| {
            let poll = poll.clone();
            async move { place.shard.create_poll(&place.at, poll).await }
        })
        .await?;
    if !is_answer_to(&made, &poll) {
        let detail = "the poll that was created with this Idempotency-Key is another one";
        return Err(Error::new(ErrorCode::IdempotencyMismatch, detail).into());
    }
    Ok(created(&state, &poll, made))
}

/// The poll with its id and its request's id: both stay through all attempts.
fn new_poll(
    state: &State,
    access: &Access,
    key: Option<RequestId>,
    spec: PollSpec,
) -> Result<Poll> {
    let now = state.parts.clock.now();
    spec.check(now)?;
    let draw = || PollId::random(now, &*state.parts.entropy);
    let poll_id = match key {
        Some(key) => named_id(&access.tenant, key, draw)?,
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

/// An id in the slice that belongs to the request's name: a repetition must
/// come to the slice where the poll is that it made.
fn named_id(
    route: &TenantRoute,
    request: RequestId,
    mut draw: impl FnMut() -> PollId,
) -> Result<PollId> {
    let meant = slice_of(&route.slices, PollId::from_number(request.0.into()));
    (0..DRAWS)
        .map(|_| draw())
        .find(|id| slice_of(&route.slices, *id) == meant)
        .ok_or_else(|| {
            Error::new(ErrorCode::Unavailable, "no id fits the tenant's slices").retry_after(1)
        })
}

/// Whether a poll is what was asked for. Its lanes may have been widened
/// since, and it may have closed.
fn is_answer_to(made: &Poll, asked: &Poll) -> bool {
    let mut spec = made.spec.clone();
    if spec.options.lanes > asked.spec.options.lanes {
        spec.options.lanes = asked.spec.options.lanes;
    }
    spec == asked.spec
}

fn created(state: &State, asked: &Poll, made: Poll) -> Response {
    let (repeated, id) = (made.poll_id != asked.poll_id, made.poll_id);
    let body = Json(PollView::of(made, state.parts.clock.now()));
    let mut response = (StatusCode::CREATED, body).into_response();
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&format!("/polls/{id}")) {
        headers.insert(header::LOCATION, place);
    }
    if repeated {
        let name = HeaderName::from_static("idempotency-replayed");
        headers.insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// List polls, in the order in which they were created.
#[utoipa::path(get, path = "/polls", tag = "polls", params(Paging),
    responses((status = 200, body = Page<PollView>)))]
pub(crate) async fn list(
    Allowed(access, _): Allowed<ToRead>,
    Given(state): Given<State>,
    Params(paging): Params<Paging>,
) -> Result<Json<Page<PollView>>, RouterError> {
    let (limit, after) = paging.read()?;
    let mut found = Vec::new();
    let most = limit as usize + 1;
    for slice in &access.tenant.slices {
        let target = Target::Slice(slice.slice);
        let polls = state.deliver(&access, &target, |place| async move {
            let slice = &place.at.slice;
            place.read().await?.polls(slice, after, most).await
        });
        found.extend(polls.await?);
    }
    // Ids sort as polls were created, whichever slice each is in.
    found.sort_by_key(|poll| poll.poll_id);
    let now = state.parts.clock.now();
    let views = found.into_iter().map(|poll| PollView::of(poll, now));
    Ok(Json(Page::of(views.collect(), limit, |poll| poll.poll_id)))
}

/// Show a poll.
#[utoipa::path(get, path = "/polls/{poll}", tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, body = PollView)))]
pub(crate) async fn show(
    Allowed(access, _): Allowed<ToRead>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
) -> Result<Json<PollView>, RouterError> {
    let found = state
        .deliver(&access, &Target::Poll(poll), |place| async move {
            place.read().await?.poll(&place.at.slice, poll).await
        })
        .await?;
    Ok(Json(PollView::of(found, state.parts.clock.now())))
}

/// Close a poll now. One that is closed stays as it is.
#[utoipa::path(post, path = "/polls/{poll}/close", tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, body = PollView)))]
pub(crate) async fn close(
    Allowed(access, _): Allowed<ToManage>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PollView>, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    let Nothing {} = decode(&headers, &bytes, false)?;
    let router = &state;
    let closed = state
        .deliver(&access, &Target::Poll(poll), |place| async move {
            let closed = place.shard.close_poll(&place.at, poll).await?;
            router.look_anew(&place, poll).await?;
            Ok(closed)
        })
        .await?;
    Ok(Json(PollView::of(closed, state.parts.clock.now())))
}

/// Spread a poll's counters over more lanes.
#[utoipa::path(patch, path = "/polls/{poll}", tag = "polls", params(("poll" = PollId, Path)),
    request_body = PollPatch, responses((status = 200, body = PollView)))]
pub(crate) async fn widen(
    Allowed(access, _): Allowed<ToManage>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PollView>, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    let PollPatch { lanes } = decode(&headers, &bytes, true)?;
    PollOptions::check_lanes(lanes)?;
    let target = Target::Poll(poll);
    let found = state
        .deliver(&access, &target, |place| async move {
            place.read().await?.poll(&place.at.slice, poll).await
        })
        .await?;
    // Its items never change, so what holds now holds at the shard.
    found.spec.check_counters(lanes)?;
    let has = found.spec.options.lanes;
    if lanes < has {
        let message = format!("the poll has {has} lanes already, and they only become more");
        return Err(Error::invalid_field("/lanes", message).into());
    }
    let widened = state
        .deliver(&access, &target, |place| async move {
            place.shard.widen_lanes(&place.at, poll, lanes).await
        })
        .await?;
    Ok(Json(PollView::of(widened, state.parts.clock.now())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::limits::Limits;
    use ballast_domain::tenant::{Slice, TenantStatus};
    use ballast_domain::{ShardId, Timestamp};

    #[test]
    fn a_repeated_request_comes_to_the_same_slice() {
        let shard: ShardId = "shard-1".parse().unwrap();
        let slices = (0..8).map(|number| Slice {
            hash_from: u64::from(number) << 61,
            ..Slice::placed(number, shard.clone(), Timestamp::from_unix_ms(0))
        });
        let route = TenantRoute {
            tenant_id: "acme".parse().unwrap(),
            status: TenantStatus::Active,
            home_region: "local".parse().unwrap(),
            limits: Limits::default(),
            cors_origins: Vec::new(),
            slices: slices.collect(),
        };
        let mut next = 0_u128;
        let mut draw = || {
            next += 1;
            PollId::from_number(next << 64 | next)
        };
        for name in 0..50 {
            let request = RequestId(name * 7_919);
            let mut slice = || {
                let id = named_id(&route, request, &mut draw).unwrap();
                slice_of(&route.slices, id).unwrap().slice
            };
            assert_eq!(slice(), slice());
        }
    }
}
