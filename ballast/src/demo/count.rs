//! Compares acknowledged votes with stored votes.

use std::sync::atomic::Ordering;

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;

use super::api::FleetApi;
use super::crowd::Voters;
use super::people::{DemoItem, DemoTenant};

/// Polls to read concurrently.
const AT_ONCE: usize = 12;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VoteCount {
    /// Votes acknowledged before the count.
    pub(super) acknowledged: u64,
    /// Votes in all polls.
    pub(super) votes: u64,
    /// Acknowledged votes that are missing.
    pub(super) lost: u64,
    /// Votes counted more often than they were sent.
    pub(super) doubled: u64,
}

impl VoteCount {
    /// Adds an item with `there` votes, which must be between `least` and `most`.
    fn add_item(self, least: u64, there: u64, most: u64) -> Self {
        Self {
            acknowledged: self.acknowledged + least,
            votes: self.votes + there,
            lost: self.lost + least.saturating_sub(there),
            doubled: self.doubled + there.saturating_sub(most),
        }
    }
}

/// Counts every poll. While people vote, the count must include every vote acknowledged before it
/// began, and no vote that was sent after it ended.
pub(super) async fn count_all_votes(api: &FleetApi, crowd: &Voters) -> anyhow::Result<VoteCount> {
    let polls = stream::iter(crowd.tenants.clone()).map(|tenant| {
        let api = api.clone();
        async move { count_tenant_votes(&api, &tenant).await }
    });
    let all: Vec<VoteCount> = polls.buffered(AT_ONCE).try_collect().await?;
    Ok(all
        .into_iter()
        .fold(VoteCount::default(), |sum, one| VoteCount {
            acknowledged: sum.acknowledged + one.acknowledged,
            votes: sum.votes + one.votes,
            lost: sum.lost + one.lost,
            doubled: sum.doubled + one.doubled,
        }))
}

async fn count_tenant_votes(api: &FleetApi, tenant: &DemoTenant) -> anyhow::Result<VoteCount> {
    let path = format!("/polls/{}/votes", tenant.poll);
    let acknowledged = |item: &DemoItem| item.acknowledged.load(Ordering::SeqCst);
    let least: Vec<u64> = tenant.items.iter().map(acknowledged).collect();
    let results = api.with_key(Method::GET, &path, &tenant.key, None).await?;
    let items = results["items"].as_array();
    let items = items.context("results without items")?;
    let mut found = VoteCount::default();
    for (item, least) in tenant.items.iter().zip(least) {
        let there = items
            .iter()
            .find(|there| there["itemID"] == item.id.as_str());
        let there = there.and_then(|there| there["votesCount"].as_u64());
        let there = there.with_context(|| format!("no count for {}", item.id))?;
        found = found.add_item(least, there, item.begun.load(Ordering::SeqCst));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_that_is_missing_is_not_made_up_for_by_one_too_many() {
        let found = VoteCount::default()
            .add_item(5, 4, 5)
            .add_item(3, 4, 3)
            .add_item(2, 2, 2);
        let expected = VoteCount {
            acknowledged: 10,
            votes: 10,
            lost: 1,
            doubled: 1,
        };
        assert_eq!(found, expected);
        let on_its_way = VoteCount::default().add_item(5, 6, 7);
        assert_eq!((on_its_way.lost, on_its_way.doubled), (0, 0));
    }
}
