//! Results as they are sent: written once, shared by all who look. Pure.

use std::cmp::Reverse;

use axum::body::Bytes;
use ballast_domain::poll::{Phase, Poll};
use ballast_domain::{ItemId, PollId, Timestamp};
use serde::Serialize;

use super::Closing;
use crate::live::Standing;

/// A poll's results.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Results<'a> {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// Whether it takes votes.
    state: Phase,
    /// The items, those with the most votes first.
    items: Vec<ItemResult<'a>>,
    /// All votes.
    total: u64,
    /// Voters who have chosen something.
    voters: u64,
    /// When that was so.
    as_of: Timestamp,
}

/// How many chose an item.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ItemResult<'a> {
    /// The item.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// What people call it.
    item_name: &'a str,
    /// How many chose it.
    votes_count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Closed {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    state: Phase,
    closed_at: Timestamp,
}

/// Results, written.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Which results these are: grows with every change.
    pub(crate) id: u128,
    /// When that was so.
    pub(crate) as_of: Timestamp,
    /// Whether the poll takes votes.
    pub(crate) phase: Phase,
    /// The results, JSON.
    pub(crate) json: Bytes,
    /// They may differ in `asOf` alone, so the tag is a weak one.
    pub(crate) etag: String,
    /// When the poll has closed for good: what is told last, JSON.
    pub(crate) closing: Option<Closing>,
}

impl Shown {
    pub(super) fn new(id: u128, poll: &Poll, standing: &Standing, phase: Phase) -> Self {
        let mut items: Vec<_> = poll
            .item_ids()
            .zip(&poll.spec.items)
            .enumerate()
            .map(|(place, (item_id, item))| ItemResult {
                item_id,
                item_name: &item.item_name,
                votes_count: standing.counts.get(place).copied().unwrap_or(0),
            })
            .collect();
        // The sort is stable: of equals the poll's own order stays.
        items.sort_by_key(|item| Reverse(item.votes_count));
        let results = Results {
            poll_id: poll.poll_id,
            state: phase,
            total: items.iter().map(|item| item.votes_count).sum(),
            items,
            voters: standing.voters,
            as_of: standing.as_of,
        };
        let closing = standing.closed_at.map(|closed_at| Closed {
            poll_id: poll.poll_id,
            state: Phase::Closed,
            closed_at,
        });
        Self {
            id,
            as_of: standing.as_of,
            phase,
            json: written(&results),
            etag: format!("W/\"{id}.{}\"", phase as u8),
            closing: closing.map(|closed| written(&closed)),
        }
    }
}

fn written(value: &impl Serialize) -> Bytes {
    // Plain data with names for keys: writing it to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}
