//! Tenants with a key and a poll each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use ballast_domain::Clock;
use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;
use serde_json::json;

use super::api::FleetApi;
use crate::machine::SystemClock;

/// Tenants to create concurrently.
const AT_ONCE: usize = 12;

/// Titles and items of the polls.
const QUESTIONS: [(&str, &[&str]); 6] = [
    (
        "Song of the night",
        &["Aurora", "Blue Harbour", "Copper Sky", "Drift", "Ember"],
    ),
    (
        "Player of the match",
        &["Okafor", "Silva", "Tanaka", "Novak"],
    ),
    ("Where next?", &["Lisbon", "Kyoto", "Oslo", "Lima"]),
    ("Best stand", &["North", "East", "South", "West"]),
    ("Encore?", &["Yes", "Absolutely"]),
    ("Team name", &["Otters", "Ravens", "Foxes"]),
];
const NAMES: [&str; 8] = [
    "gala", "derby", "expo", "choir", "league", "festival", "school", "radio",
];

/// A tenant with its poll.
pub(super) struct DemoTenant {
    pub(super) id: String,
    /// The shard that it was placed on.
    pub(super) shard: String,
    pub(super) key: String,
    pub(super) poll: String,
    pub(super) items: Vec<DemoItem>,
}

/// An item of a poll, and the number of its acknowledged votes.
pub(super) struct DemoItem {
    pub(super) id: String,
    pub(super) acknowledged: AtomicU64,
    /// Votes for it that were sent at least once.
    pub(super) begun: AtomicU64,
}

/// Maximum number of favourites.
const FAVOURITES: usize = 8;

/// Chooses the favourites, and a quiet neighbour on the same shard for the crowd. Uses the shard
/// with the most tenants: with many favourites, none of them is worth a migration by itself.
pub(super) fn choose_roles(tenants: &[Arc<DemoTenant>]) -> Option<(Vec<usize>, usize)> {
    let mut shards: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, tenant) in tenants.iter().enumerate() {
        shards.entry(&tenant.shard).or_default().push(place);
    }
    let fullest = shards.into_values().max_by_key(Vec::len)?;
    let (star, others) = fullest.split_last()?;
    let favourites: Vec<usize> = others.iter().copied().take(FAVOURITES).collect();
    (!favourites.is_empty()).then_some((favourites, *star))
}

/// Creates all tenants.
pub(super) async fn create_tenants(
    api: &FleetApi,
    count: u32,
) -> anyhow::Result<Vec<Arc<DemoTenant>>> {
    let made = stream::iter(0..count).map(|number| create_tenant(api, number));
    made.buffered(AT_ONCE).try_collect().await
}

async fn create_tenant(api: &FleetApi, number: u32) -> anyhow::Result<Arc<DemoTenant>> {
    let index = usize::try_from(number).unwrap_or(0);
    let name = NAMES[index % NAMES.len()];
    let id = format!("{name}-{:03}", number + 1);
    let body = json!({ "tenantID": id, "name": format!("{name} no. {}", number + 1) });
    let placed = api.admin(Method::POST, "/tenants", Some(&body)).await?;
    let shard = placed["slices"][0]["shardID"].as_str();
    let shard = shard.context("where a tenant is")?.to_owned();
    let key = api
        .admin(
            Method::POST,
            &format!("/tenants/{id}/keys"),
            Some(&json!({})),
        )
        .await?;
    let key = key["key"].as_str().context("a key")?.to_owned();
    let (title, items) = QUESTIONS[index % QUESTIONS.len()];
    let closes = SystemClock.now().plus_seconds(24 * 60 * 60);
    let poll = json!({ "title": title, "items": items, "expirationTime": closes });
    let made = api
        .with_key(Method::POST, "/polls", &key, Some(&poll))
        .await?;
    let items = made["items"].as_array().context("a poll's items")?.iter();
    let item = |item: &serde_json::Value| {
        Some(DemoItem {
            id: item["itemID"].as_str()?.to_owned(),
            acknowledged: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        })
    };
    Ok(Arc::new(DemoTenant {
        poll: made["pollID"].as_str().context("a poll")?.to_owned(),
        items: items.filter_map(item).collect(),
        shard,
        id,
        key,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_star_is_a_quiet_neighbour_of_the_favourites() {
        let on = |shards: &[&str]| -> Vec<Arc<DemoTenant>> {
            let tenant = |shard: &&str| {
                Arc::new(DemoTenant {
                    id: String::new(),
                    shard: (*shard).to_owned(),
                    key: String::new(),
                    poll: String::new(),
                    items: Vec::new(),
                })
            };
            shards.iter().map(tenant).collect()
        };
        assert_eq!(
            choose_roles(&on(&["a", "b", "a", "b", "a"])),
            Some((vec![0, 2], 4))
        );
        assert_eq!(choose_roles(&on(&["a", "b", "c", "b"])), Some((vec![1], 3)));
        assert_eq!(choose_roles(&on(&["a", "b"])), None);
    }
}
