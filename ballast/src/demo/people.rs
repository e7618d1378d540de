//! Tenants with a key and a poll each.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use ballast_domain::Clock;
use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::Method;
use serde_json::json;

use super::api::Api;
use crate::machine::SystemClock;

/// Tenants that are made at a time.
const AT_ONCE: usize = 12;

/// What polls are about.
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
pub(super) struct Tenant {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) poll: String,
    pub(super) items: Vec<Item>,
}

/// An item of a poll, and how many votes for it were acknowledged.
pub(super) struct Item {
    pub(super) id: String,
    pub(super) acknowledged: AtomicU64,
}

/// Makes all of them.
pub(super) async fn settle(api: &Api, count: u32) -> anyhow::Result<Vec<Arc<Tenant>>> {
    let made = stream::iter(0..count).map(|number| one(api, number));
    made.buffered(AT_ONCE).try_collect().await
}

async fn one(api: &Api, number: u32) -> anyhow::Result<Arc<Tenant>> {
    let index = usize::try_from(number).unwrap_or(0);
    let name = NAMES[index % NAMES.len()];
    let id = format!("{name}-{:03}", number + 1);
    let body = json!({ "tenantID": id, "name": format!("{name} no. {}", number + 1) });
    api.admin(Method::POST, "/tenants", Some(&body)).await?;
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
        Some(Item {
            id: item["itemID"].as_str()?.to_owned(),
            acknowledged: AtomicU64::new(0),
        })
    };
    Ok(Arc::new(Tenant {
        poll: made["pollID"].as_str().context("a poll")?.to_owned(),
        items: items.filter_map(item).collect(),
        id,
        key,
    }))
}
