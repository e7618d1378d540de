//! Results as they are sent: written once, shared by all who look. Pure.

use std::cmp::Reverse;

use axum::body::Bytes;
use ballast_domain::poll::{Phase, Poll};
use ballast_domain::tenant::Epoch;
use ballast_domain::{ItemId, PollId, Timestamp};
use serde::Serialize;

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
    /// The results, JSON.
    pub(crate) json: Bytes,
    /// They may differ in `asOf` alone, so the tag is a weak one.
    pub(crate) etag: String,
    /// When the poll has closed for good: what is told last, JSON.
    pub(crate) closing: Option<Bytes>,
}

impl Shown {
    /// Which results these are: a number that grows when counts change, when
    /// the poll opens and when it closes. The one above it is free for the
    /// last word on a closed poll.
    pub(super) fn number(standing: &Standing, epoch: Epoch, phase: Phase) -> u128 {
        let phase = match phase {
            Phase::Scheduled => 0,
            Phase::Open => 1,
            Phase::Closed => 2,
        };
        (standing.version.number(epoch) << 2) + phase
    }

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
            json: written(&results),
            etag: format!("W/\"{id}\""),
            closing: closing.map(|closed| written(&closed)),
        }
    }
}

fn written(value: &impl Serialize) -> Bytes {
    // Plain data with names for keys: writing it to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{LiveView, MemoryView, Origin};
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

    async fn standing(counts: &[u64], closed: bool) -> std::sync::Arc<Standing> {
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
        view.take(&shard, tally, Origin::Feed, now).await
    }

    #[tokio::test]
    async fn the_most_votes_come_first_and_equals_keep_their_order() {
        let standing = standing(&[1, 5, 1], false).await;
        let shown = Shown::new(3, &poll(), &standing, Phase::Open);
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
    async fn numbers_grow_from_opening_to_the_last_word() {
        let standing = standing(&[0, 0, 0], true).await;
        let number = |phase| Shown::number(&standing, Epoch::FIRST, phase);
        let phases = [Phase::Scheduled, Phase::Open, Phase::Closed].map(number);
        assert!(phases.is_sorted() && phases[2] + 1 < number(Phase::Scheduled) + 4);
        let shown = Shown::new(phases[2], &poll(), &standing, Phase::Closed);
        let last: Value = serde_json::from_slice(&shown.closing.unwrap()).unwrap();
        assert_eq!(last["closedAt"], "1970-01-01T00:00:00.900Z");
    }
}
