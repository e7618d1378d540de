//! What was acknowledged against what is found.

use std::sync::atomic::Ordering;

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;

use super::api::Api;
use super::crowd::Crowd;
use super::people::Tenant;

/// Polls that are read at a time.
const AT_ONCE: usize = 12;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Votes in all polls.
    pub(super) votes: u64,
    /// Votes that were acknowledged and are not there.
    pub(super) lost: u64,
    /// Votes that are there more often than they were acknowledged.
    pub(super) doubled: u64,
}

impl Found {
    /// One item's votes: so many were acknowledged, so many are there.
    fn with(self, acknowledged: u64, there: u64) -> Self {
        Self {
            votes: self.votes + there,
            lost: self.lost + acknowledged.saturating_sub(there),
            doubled: self.doubled + there.saturating_sub(acknowledged),
        }
    }
}

/// Counts every poll, once nobody votes any more.
pub(super) async fn of(api: &Api, crowd: &Crowd) -> anyhow::Result<Found> {
    let polls = stream::iter(&crowd.tenants).map(|tenant| one(api, tenant));
    let all: Vec<Found> = polls.buffered(AT_ONCE).try_collect().await?;
    Ok(all.into_iter().fold(Found::default(), |sum, one| Found {
        votes: sum.votes + one.votes,
        lost: sum.lost + one.lost,
        doubled: sum.doubled + one.doubled,
    }))
}

async fn one(api: &Api, tenant: &Tenant) -> anyhow::Result<Found> {
    let path = format!("/polls/{}/votes", tenant.poll);
    let results = api.with_key(Method::GET, &path, &tenant.key, None).await?;
    let items = results["items"]
        .as_array()
        .context("results without items")?;
    let mut found = Found::default();
    for item in &tenant.items {
        let there = items
            .iter()
            .find(|there| there["itemID"] == item.id.as_str());
        let there = there.and_then(|there| there["votesCount"].as_u64());
        let there = there.with_context(|| format!("no count for {}", item.id))?;
        found = found.with(item.acknowledged.load(Ordering::SeqCst), there);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_that_is_missing_is_not_made_up_for_by_one_too_many() {
        let found = Found::default().with(5, 4).with(3, 4).with(2, 2);
        let expected = Found {
            votes: 10,
            lost: 1,
            doubled: 1,
        };
        assert_eq!(found, expected);
    }
}
