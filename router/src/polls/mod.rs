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
use ballast_domain::bounds::{POLL_BODY_BYTES_MAX, SLICES_PER_TENANT_MAX, VOTE_BODY_BYTES_MAX};
use ballast_domain::poll::{Poll, PollOptions, PollSpec, RequestId};
use ballast_domain::routes::TenantRoute;
use ballast_domain::{Error, ErrorCode, PollId, Result};
use ballast_web::body::{Nothing, decode};
use ballast_web::head::{Params, idempotency_key};
use ballast_web::page::Page;

pub(crate) use export::{__path_export, export};
pub(crate) use lanes::{__path_import, __path_lanes, import, lanes};
pub(crate) use wire::{NewPoll, PollPatch, PollView};

use crate::admit::{Access, Allowed, ToManage, ToRead};
use crate::deliver::{Load, Target, Undelivered};
use crate::openapi::IdempotencyHeader;
use crate::request::{Paging, PollPath, read};
use crate::{RouterError, State};

/// How often an id is drawn for a request's name. All draws miss less than
/// once in a lifetime.
const DRAWS: usize = 10_000;
/// Into so many equal ranges the hashes of polls are divided here.
const RANGES: u64 = SLICES_PER_TENANT_MAX as u64;

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
    let poll = new_poll(&state, key, asked.spec())?;
    let target = Target::Poll(poll.poll_id);
    let made = state
        .deliver_write(&access, &target, |place| {
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
fn new_poll(state: &State, key: Option<RequestId>, spec: PollSpec) -> Result<Poll> {
    let now = state.parts.clock.now();
    spec.check(now)?;
    let draw = || PollId::random(now, &*state.parts.entropy);
    let poll_id = match key {
        Some(key) => named_id(key, draw)?,
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

/// An id whose hash lies where the request's name says: a repetition must come
/// to the slice where the poll is that it made, also when the tenant has been
/// cut since. So it is not the slices of now that are meant, but the narrowest
/// that there can ever be.
fn named_id(request: RequestId, mut draw: impl FnMut() -> PollId) -> Result<PollId> {
    let range = |id: PollId| id.hash() / (u64::MAX / RANGES + 1);
    let meant = range(PollId::from_number(request.0.into()));
    (0..DRAWS)
        .map(|_| draw())
        .find(|id| range(*id) == meant)
        .ok_or_else(|| {
            Error::new(ErrorCode::Unavailable, "no id fits the request's name").retry_after(1)
        })
}

/// Whether a poll is what was asked for. It may have got more or fewer lanes
/// since, and it may have closed.
fn is_answer_to(made: &Poll, asked: &Poll) -> bool {
    let mut spec = made.spec.clone();
    spec.options.lanes = asked.spec.options.lanes;
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
    let most = limit as usize + 1;
    let mut slices = access.tenant.clone();
    let mut found = loop {
        match polls_of(&state, &access, &slices, after, most).await {
            Ok(found) => break found,
            Err(Undelivered::Failed(error)) => return Err(error.into()),
            // A slice has become others: their polls are asked for instead.
            Err(Undelivered::Apart) => slices = state.route(&access).await?,
        }
    };
    // Ids sort as polls were created, whichever slice each is in.
    found.sort_by_key(|poll| poll.poll_id);
    let now = state.parts.clock.now();
    let views = found.into_iter().map(|poll| PollView::of(poll, now));
    Ok(Json(Page::of(views.collect(), limit, |poll| poll.poll_id)))
}

/// The polls of all slices, so many of each.
async fn polls_of(
    state: &State,
    access: &Access,
    route: &TenantRoute,
    after: Option<PollId>,
    most: usize,
) -> Result<Vec<Poll>, Undelivered> {
    let mut found = Vec::new();
    for slice in &route.slices {
        let target = Target::Slice(slice.slice);
        let polls = state.deliver_heavy(access, &target, Load::READ, |place| async move {
            let slice = &place.at.slice;
            place.read().await?.polls(slice, after, most).await
        });
        found.extend(polls.await?);
    }
    Ok(found)
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
        .deliver_write(&access, &Target::Poll(poll), |place| async move {
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
        let message = format!(
            "the poll has {has} lanes already; they become fewer by themselves when it has cooled"
        );
        return Err(Error::invalid_field("/lanes", message).into());
    }
    let widened = state
        .deliver_write(&access, &target, |place| async move {
            place.shard.widen_lanes(&place.at, poll, lanes).await
        })
        .await?;
    Ok(Json(PollView::of(widened, state.parts.clock.now())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::slicing::{Piece, equal_cuts};
    use ballast_domain::tenant::{Epoch, Slice, SliceId, slice_of};
    use ballast_domain::{ShardId, TenantId, Timestamp};
    use ballast_vote_shard::shard::{Cut, MoveId, Order};
    use ballast_vote_shard::{At, VoteShard as _};

    use crate::testing::House;

    #[test]
    fn a_repeated_request_comes_to_the_same_slice_however_the_tenant_is_cut() {
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
                named_id(request, &mut draw).unwrap(),
                named_id(request, &mut draw).unwrap(),
            );
            assert_ne!(first, again);
            for into in [1, 2, 8, SLICES_PER_TENANT_MAX] {
                let slices = cut(into);
                let slice = |id| slice_of(&slices, id).unwrap().slice;
                assert_eq!(slice(first), slice(again), "of {into}");
            }
        }
    }

    /// The slice of a house becomes two, and its router has not heard of it.
    async fn cut_in_two(house: &House) {
        let tenant_id: TenantId = "acme".parse().unwrap();
        let at = At {
            slice: SliceId {
                tenant_id: tenant_id.clone(),
                slice: 0,
            },
            epoch: Epoch(2),
        };
        let order = Order {
            move_id: MoveId("rc".to_owned()),
            token: 1,
        };
        let half = equal_cuts(2)[1];
        let piece = |slice, hash_from, hash_to| Piece {
            slice,
            hash_from,
            hash_to,
        };
        let cut = Cut {
            tenant_id,
            epoch: Epoch(2),
            parents: vec![0],
            children: vec![piece(1, 0, half - 1), piece(2, half, u64::MAX)],
        };
        house.shards.shard.seal(&at, &order).await.unwrap();
        house.shards.shard.recut(&order, &cut).await.unwrap();
        house.source.change_route(|route| {
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
    async fn a_router_that_is_behind_finds_every_poll_after_a_split() {
        let house = House::new(|_| {});
        let mut made = Vec::new();
        for number in 0..6 {
            let (poll, vote) = house.poll().await;
            let voter = format!(r#"{{"voterID":"v-{number}"}}"#);
            house.ask("PATCH", &vote, &voter).await;
            made.push((poll, vote));
        }
        cut_in_two(&house).await;
        let listed = house.ask("GET", "/polls", "").await;
        assert_eq!(listed.status, 200, "{listed:?}");
        let items = listed.body["items"].as_array().unwrap();
        let ids: Vec<String> = items
            .iter()
            .map(|poll| format!("/polls/{}", poll["pollID"].as_str().unwrap()))
            .collect();
        let mut all: Vec<String> = made.iter().map(|(poll, _)| poll.clone()).collect();
        all.sort();
        assert_eq!(ids, all);
        for (poll, vote) in made {
            let counted = house.ask("PATCH", &vote, r#"{"voterID":"late"}"#).await;
            assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
            let results = house.ask("GET", &format!("{poll}/votes"), "").await;
            assert_eq!(results.body["total"], 2, "{results:?}");
        }
    }
}
