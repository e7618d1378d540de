//! Renders results as JSON, once for all requests. Pure.

use std::cmp::Reverse;

use axum::body::Bytes;
use ballast_domain::poll::{Poll, PollPhase};
use ballast_domain::tenant::Epoch;
use ballast_domain::{ItemId, PollId, Timestamp};
use serde::Serialize;

use crate::live::PollCounts;

/// A poll's results.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Results<'a> {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// Whether it takes votes.
    state: PollPhase,
    /// The items, those with the most votes first.
    items: Vec<ItemResult<'a>>,
    /// All votes.
    total: u64,
    /// Voters who have chosen something.
    voters: u64,
    /// The time of these results.
    as_of: Timestamp,
}

/// The result of an item.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ItemResult<'a> {
    /// The item.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// Its name.
    item_name: &'a str,
    /// How many voters chose it.
    votes_count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Closed {
    #[serde(rename = "pollID")]
    poll_id: PollId,
    state: PollPhase,
    closed_at: Timestamp,
}

/// Results as JSON.
#[derive(Debug)]
pub(crate) struct RenderedResults {
    /// The version of the results: grows with every change.
    pub(crate) id: u128,
    /// The time of these results.
    pub(crate) as_of: Timestamp,
    /// The results, JSON.
    pub(crate) json: Bytes,
    /// A weak tag, because results of the same version may differ in `asOf`.
    pub(crate) etag: String,
    /// The JSON of the final event, once the poll has closed.
    pub(crate) closing: Option<Bytes>,
}

impl RenderedResults {
    /// The version of results: a number that grows when counts change, when the poll
    /// opens and when it closes. The next number is reserved for the final event of a
    /// closed poll.
    pub(super) fn version_number(counts: &PollCounts, epoch: Epoch, phase: PollPhase) -> u128 {
        let phase = match phase {
            PollPhase::Scheduled => 0,
            PollPhase::Open => 1,
            PollPhase::Closed => 2,
        };
        (counts.version.number(epoch) << 2) + phase
    }

    pub(super) fn new(id: u128, poll: &Poll, counts: &PollCounts, phase: PollPhase) -> Self {
        let mut items: Vec<_> = poll
            .item_ids()
            .zip(&poll.spec.items)
            .enumerate()
            .map(|(index, (item_id, item))| ItemResult {
                item_id,
                item_name: &item.item_name,
                votes_count: counts.counts.get(index).copied().unwrap_or(0),
            })
            .collect();
        // A stable sort: items with equal counts keep the poll's order.
        items.sort_by_key(|item| Reverse(item.votes_count));
        let results = Results {
            poll_id: poll.poll_id,
            state: phase,
            total: items.iter().map(|item| item.votes_count).sum(),
            items,
            voters: counts.voters,
            as_of: counts.as_of,
        };
        let closing = counts.closed_at.map(|closed_at| Closed {
            poll_id: poll.poll_id,
            state: PollPhase::Closed,
            closed_at,
        });
        Self {
            id,
            as_of: counts.as_of,
            json: to_json(&results),
            etag: format!("W/\"{id}\""),
            closing: closing.map(|closed| to_json(&closed)),
        }
    }
}

fn to_json(value: &impl Serialize) -> Bytes {
    // Plain data with string keys: serialising it to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{CountsOrigin, LiveView, MemoryView};
    use ballast_domain::poll::{ItemSpec, PollOptions, PollSpec, RequestId};
    use ballast_domain::tenant::SliceId;
    use ballast_vote_shard::Tally;
    use serde_json::Value;

    fn poll() -> Poll {
        let items = ["a", "b", "c"].map(|name| ItemSpec {
            item_name: name.to_owned(),
            description: None,
        });
        Poll {
            poll_id: PollId::from_number(1),
            request: RequestId(0),
            spec: PollSpec {
                title: None,
                items: items.to_vec(),
                opening_time: None,
                expiration_time: Timestamp::from_unix_ms(1_000),
                expected_voters: None,
                options: PollOptions::default(),
            },
            created_at: Timestamp::from_unix_ms(0),
            closed_at: None,
        }
    }

    async fn poll_counts(counts: &[u64], closed: bool) -> std::sync::Arc<PollCounts> {
        let tally = Tally {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            poll: PollId::from_number(1),
            counts: counts.to_vec(),
            voters: counts.iter().sum(),
            closed_at: closed.then(|| Timestamp::from_unix_ms(900)),
            mark: 7,
        };
        let (shard, now) = ("shard-1".parse().unwrap(), Timestamp::from_unix_ms(950));
        let view = MemoryView::default();
        view.update(&shard, tally, CountsOrigin::Feed, now).await
    }

    #[tokio::test]
    async fn items_are_sorted_by_votes_and_then_by_the_polls_order() {
        let counts = poll_counts(&[1, 5, 1], false).await;
        let shown = RenderedResults::new(3, &poll(), &counts, PollPhase::Open);
        let json: Value = serde_json::from_slice(&shown.json).unwrap();
        let items = json["items"].as_array().unwrap();
        let names: Vec<_> = items.iter().map(|item| &item["itemName"]).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(json["total"], 7);
        assert_eq!(json["state"], "open");
        assert_eq!(shown.etag, "W/\"3\"");
        assert!(shown.closing.is_none());
    }

    #[tokio::test]
    async fn versions_grow_from_opening_to_the_final_event() {
        let counts = poll_counts(&[0, 0, 0], true).await;
        let number = |phase| RenderedResults::version_number(&counts, Epoch::FIRST, phase);
        let phases = [PollPhase::Scheduled, PollPhase::Open, PollPhase::Closed].map(number);
        assert!(phases.is_sorted() && phases[2] + 1 < number(PollPhase::Scheduled) + 4);
        let shown = RenderedResults::new(phases[2], &poll(), &counts, PollPhase::Closed);
        let last: Value = serde_json::from_slice(&shown.closing.unwrap()).unwrap();
        assert_eq!(last["closedAt"], "1970-01-01T00:00:00.900Z");
    }
}
