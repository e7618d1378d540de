//! What was acknowledged against what is found.

use std::sync::atomic::Ordering;

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;

use super::api::Api;
use super::crowd::Crowd;
use super::people::{Item, Tenant};

/// Polls that are read at a time.
const AT_ONCE: usize = 12;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Votes that were acknowledged before the count.
    pub(super) acknowledged: u64,
    /// Votes in all polls.
    pub(super) votes: u64,
    /// Votes that were acknowledged and are not there.
    pub(super) lost: u64,
    /// Votes that are there more often than they were acknowledged.
    pub(super) doubled: u64,
}

impl Found {
    /// One item's votes: so many are there; at least so many must be, and no
    /// more than so many may.
    fn with(self, least: u64, there: u64, most: u64) -> Self {
        Self {
            acknowledged: self.acknowledged + least,
            votes: self.votes + there,
            lost: self.lost + least.saturating_sub(there),
            doubled: self.doubled + there.saturating_sub(most),
        }
    }
}

/// Counts every poll. While people vote, what was acknowledged before the count
/// must be in it, and nothing may be that was not sent before its end.
pub(super) async fn of(api: &Api, crowd: &Crowd) -> anyhow::Result<Found> {
    let polls = stream::iter(crowd.tenants.clone()).map(|tenant| {
        let api = api.clone();
        async move { one(&api, &tenant).await }
    });
    let all: Vec<Found> = polls.buffered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().fold(Found::default(), |sum, one| Found {
        acknowledged: sum.acknowledged + one.acknowledged,
        votes: sum.votes + one.votes,
        lost: sum.lost + one.lost,
        doubled: sum.doubled + one.doubled,
    }))
}

async fn one(api: &Api, tenant: &Tenant) -> anyhow::Result<Found> {
    let path = format!("/polls/{}/votes", tenant.poll);
    let acknowledged = |item: &Item| item.acknowledged.load(Ordering::SeqCst);
    let least: Vec<u64> = tenant.items.iter().map(acknowledged).collect();
    let results = api.with_key(Method::GET, &path, &tenant.key, None).await?;
    let items = results["items"].as_array();
    let items = items.context("results without items")?;
    let mut found = Found::default();
    for (item, least) in tenant.items.iter().zip(least) {
        let there = items
            .iter()
            .find(|there| there["itemID"] == item.id.as_str());
        let there = there.and_then(|there| there["votesCount"].as_u64());
        let there = there.with_context(|| format!("no count for {}", item.id))?;
        found = found.with(least, there, item.begun.load(Ordering::SeqCst));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_that_is_missing_is_not_made_up_for_by_one_too_many() {
        let found = Found::default().with(5, 4, 5).with(3, 4, 3).with(2, 2, 2);
        let expected = Found {
            acknowledged: 10,
            votes: 10,
            lost: 1,
            doubled: 1,
        };
        assert_eq!(found, expected);
        let on_its_way = Found::default().with(5, 6, 7);
        assert_eq!((on_its_way.lost, on_its_way.doubled), (0, 0));
    }
}
