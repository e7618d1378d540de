//! `/polls/{poll}/lanes` and `/polls/{poll}/import`: how a poll's counters are spread
//! over lanes, and imports of totals.

use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use ballast_domain::bounds::{IMPORTED_VOTES_MAX, POLL_BODY_BYTES_MAX};
use ballast_domain::poll::lanes::{LaneBalance, LaneSpread};
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result};
use ballast_web::body::decode;
use ballast_web::head::idempotency_key;
use serde::{Deserialize, Serialize};

use super::read_poll;
use crate::admit::{Access, Authorized, ManageAccess};
use crate::deliver::RouteKey;
use crate::openapi::IdempotencyHeader;
use crate::request::{PollPath, read};
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// How a poll's counters are spread over lanes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LanesView {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// How many lanes each item has.
    lanes: u16,
    /// The worst verdict of the items.
    verdict: LaneBalance,
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
    spread: LaneSpread,
}

/// Show how evenly votes are spread over a poll's lanes.
///
/// Lanes within 10 % of the mean are `even`; more than 30 % off is `skewed`.
#[utoipa::path(get, path = "/polls/{poll}/lanes", operation_id = "getLanes",
    tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, description = "The votes in each lane", body = LanesView)))]
pub(crate) async fn lanes(
    Authorized {
        mut access, path, ..
    }: Authorized<ManageAccess, PollPath>,
    State(state): State<RouterState>,
) -> SummarizedResponse {
    let lanes = read_lanes(&state, &mut access, path).await;
    access.answer(lanes.map(Json))
}

async fn read_lanes(
    state: &RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
) -> Result<LanesView, RouterError> {
    let (found, counts) = state
        .deliver(access, &RouteKey::Poll(poll), |target| async move {
            let slice = &target.fenced.slice;
            let found = target.consistent_reader().await?.poll(slice, poll).await?;
            Ok((
                found,
                target.consistent_reader().await?.lanes(slice, poll).await?,
            ))
        })
        .await?;
    Ok(lanes_view(&found, counts))
}

fn lanes_view(poll: &Poll, counts: Vec<Vec<u64>>) -> LanesView {
    let items: Vec<_> = poll
        .item_ids()
        .zip(&poll.spec.items)
        .zip(counts)
        .map(|((item_id, item), counts)| ItemLanes {
            item_id,
            item_name: item.item_name.clone(),
            votes_count: counts.iter().sum(),
            spread: LaneSpread::from_lanes(counts),
        })
        .collect();
    let worst = items.iter().map(|item| item.spread.verdict).max();
    LanesView {
        poll_id: poll.poll_id,
        lanes: poll.spec.options.lanes,
        verdict: worst.unwrap_or(LaneBalance::Even),
        total: items.iter().map(|item| item.votes_count).sum(),
        items,
    }
}

/// Totals to import: votes without voters.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "totals": { "item-7q0v9d1nqz8t5": 1503 } }))]
pub(crate) struct Import {
    /// Votes by itemID.
    totals: HashMap<ItemId, u64>,
}

/// A poll's counts after an import.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Imported {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    items: Vec<ItemTotal>,
    /// All votes.
    total: u64,
}

/// The votes of an item.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemTotal {
    #[serde(rename = "itemID")]
    item_id: ItemId,
    votes_count: u64,
}

/// Add totals of votes, such as those of old counters.
///
/// They are spread over the lanes so that the sum is exact. Send an `Idempotency-Key`:
/// a repeated request with the same key adds them once.
#[utoipa::path(post, path = "/polls/{poll}/import", operation_id = "importTotals",
    tag = "polls",
    params(("poll" = PollId, Path), IdempotencyHeader), request_body = Import,
    responses((status = 200, description = "The counts with the imported totals",
        body = Imported)))]
pub(crate) async fn import(
    Authorized {
        mut access, path, ..
    }: Authorized<ManageAccess, PollPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    let imported = import_totals(&state, &mut access, path, &headers, body).await;
    access.answer(imported.map(Json))
}

async fn import_totals(
    state: &RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
    headers: &HeaderMap,
    body: Body,
) -> Result<Imported, RouterError> {
    let key = idempotency_key(headers)?.map(RequestId::from_name);
    let request = key.unwrap_or_else(|| state.parts.requests.next());
    let bytes = read(body, POLL_BODY_BYTES_MAX).await?;
    let import: Import = decode(headers, &bytes, true)?;
    let route_key = RouteKey::Poll(poll);
    let found = read_poll(state, access, poll).await?;
    let votes = &order_totals(&found, import.totals)?;
    let tally = state
        .deliver_write(access, &route_key, |target| async move {
            let tally = target
                .shard
                .import_counts(&target.fenced, poll, request, votes)
                .await?;
            state.refresh_counts(&target, poll).await?;
            Ok(tally)
        })
        .await?;
    let items = found.item_ids().zip(&tally.counts);
    Ok(Imported {
        poll_id: poll,
        items: items
            .map(|(item_id, votes)| ItemTotal {
                item_id,
                votes_count: *votes,
            })
            .collect(),
        total: tally.total(),
    })
}

/// The votes of each item, in the poll's order.
fn order_totals(poll: &Poll, mut totals: HashMap<ItemId, u64>) -> Result<Vec<u64>> {
    let votes: Vec<u64> = poll
        .item_ids()
        .map(|item| totals.remove(&item).unwrap_or(0))
        .collect();
    if let Some(unknown) = totals.keys().min() {
        let detail = format!("the poll has no item {unknown}");
        let pointer = format!("/totals/{unknown}");
        return Err(
            Error::new(ErrorCode::ItemNotFound, detail).with_field(&pointer, "no such item")
        );
    }
    match votes.iter().find(|votes| **votes > IMPORTED_VOTES_MAX) {
        None => Ok(votes),
        Some(many) => {
            let message = format!("{many} votes are more than {IMPORTED_VOTES_MAX}");
            Err(Error::invalid_field("/totals", message))
        }
    }
}
