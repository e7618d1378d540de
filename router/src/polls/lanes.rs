//! `/polls/{poll}/lanes` and `/polls/{poll}/import`: how counters are spread,
//! and votes that come as sums.

use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State as Given;
use axum::http::HeaderMap;
use ballast_domain::bounds::{IMPORTED_VOTES_MAX, POLL_BODY_BYTES_MAX};
use ballast_domain::poll::lanes::{Spread, Verdict};
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result};
use ballast_web::body::decode;
use ballast_web::head::idempotency_key;
use serde::{Deserialize, Serialize};

use crate::admit::{Allowed, ToManage};
use crate::deliver::Target;
use crate::openapi::IdempotencyHeader;
use crate::request::{PollPath, read};
use crate::{RouterError, State};

/// How a poll's counters are spread over lanes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LanesView {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// How many lanes each item has.
    lanes: u16,
    /// The worst of the items' verdicts.
    verdict: Verdict,
    items: Vec<ItemLanes>,
    /// All votes.
    total: u64,
}

/// The lanes of an item.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemLanes {
    #[serde(rename = "itemID")]
    item_id: ItemId,
    item_name: String,
    /// The sum of its lanes.
    votes_count: u64,
    #[serde(flatten)]
    spread: Spread,
}

/// Show how evenly votes lie on a poll's lanes.
///
/// Within ten per cent of the mean is `even`, more than thirty is `skewed`.
#[utoipa::path(get, path = "/polls/{poll}/lanes", tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, body = LanesView)))]
pub(crate) async fn lanes(
    Allowed(access, _): Allowed<ToManage>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
) -> Result<Json<LanesView>, RouterError> {
    let (found, counts) = state
        .deliver(&access, &Target::Poll(poll), |place| async move {
            let slice = &place.at.slice;
            let found = place.read().await?.poll(slice, poll).await?;
            Ok((found, place.read().await?.lanes(slice, poll).await?))
        })
        .await?;
    Ok(Json(view(&found, counts)))
}

fn view(poll: &Poll, counts: Vec<Vec<u64>>) -> LanesView {
    let items: Vec<_> = poll
        .item_ids()
        .zip(&poll.spec.items)
        .zip(counts)
        .map(|((item_id, item), counts)| ItemLanes {
            item_id,
            item_name: item.item_name.clone(),
            votes_count: counts.iter().sum(),
            spread: Spread::of(counts),
        })
        .collect();
    let worst = items.iter().map(|item| item.spread.verdict).max();
    LanesView {
        poll_id: poll.poll_id,
        lanes: poll.spec.options.lanes,
        verdict: worst.unwrap_or(Verdict::Even),
        total: items.iter().map(|item| item.votes_count).sum(),
        items,
    }
}

/// Votes without voters.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "totals": { "item-7q0v9d1nqz8t5": 1503 } }))]
pub(crate) struct Import {
    /// Votes by itemID.
    totals: HashMap<ItemId, u64>,
}

/// What a poll's counts are after an import.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Imported {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    items: Vec<ItemTotal>,
    /// All votes.
    total: u64,
}

/// An item's votes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemTotal {
    #[serde(rename = "itemID")]
    item_id: ItemId,
    votes_count: u64,
}

/// Add votes that come as sums, such as old counters.
///
/// They are spread over the lanes with the sum kept exactly. Repeated with the
/// same `Idempotency-Key` they are added once; so send one.
#[utoipa::path(post, path = "/polls/{poll}/import", tag = "polls",
    params(("poll" = PollId, Path), IdempotencyHeader), request_body = Import,
    responses((status = 200, body = Imported)))]
pub(crate) async fn import(
    Allowed(access, _): Allowed<ToManage>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Imported>, RouterError> {
    let key = idempotency_key(&headers)?.map(RequestId::of);
    let request = key.unwrap_or_else(|| state.parts.requests.next());
    let bytes = read(body, POLL_BODY_BYTES_MAX).await?;
    let asked: Import = decode(&headers, &bytes, true)?;
    let target = Target::Poll(poll);
    let found = state
        .deliver(&access, &target, |place| async move {
            place.read().await?.poll(&place.at.slice, poll).await
        })
        .await?;
    let votes = &in_order(&found, asked.totals)?;
    let router = &state;
    let tally = state
        .deliver_write(&access, &target, |place| async move {
            let tally = place.shard.carry(&place.at, poll, request, votes).await?;
            router.look_anew(&place, poll).await?;
            Ok(tally)
        })
        .await?;
    let items = found.item_ids().zip(&tally.counts);
    Ok(Json(Imported {
        poll_id: poll,
        items: items
            .map(|(item_id, votes)| ItemTotal {
                item_id,
                votes_count: *votes,
            })
            .collect(),
        total: tally.total(),
    }))
}

/// The votes of each item, in the poll's order.
fn in_order(poll: &Poll, mut totals: HashMap<ItemId, u64>) -> Result<Vec<u64>> {
    let votes: Vec<u64> = poll
        .item_ids()
        .map(|item| totals.remove(&item).unwrap_or(0))
        .collect();
    if let Some(stranger) = totals.keys().min() {
        let detail = format!("the poll has no item {stranger}");
        let pointer = format!("/totals/{stranger}");
        return Err(Error::new(ErrorCode::ItemNotFound, detail).at(&pointer, "no such item"));
    }
    match votes.iter().find(|votes| **votes > IMPORTED_VOTES_MAX) {
        None => Ok(votes),
        Some(many) => {
            let message = format!("{many} votes are more than {IMPORTED_VOTES_MAX}");
            Err(Error::invalid_field("/totals", message))
        }
    }
}
