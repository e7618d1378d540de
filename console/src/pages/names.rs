//! Names in paths, and links to what they name.

use std::fmt::Display;
use std::str::FromStr;

use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use maud::{Markup, html};

/// A name out of a path. What cannot be a name names nothing.
pub(super) fn named<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|bad: T::Err| {
        let detail = format!("there is no such page: {bad}");
        Error::new(ErrorCode::NotFound, detail)
    })
}

pub(super) fn tenant(id: &TenantId) -> Markup {
    html! { a href=(format!("/console/tenants/{id}")) { (id) } }
}

pub(super) fn shard(id: &ShardId) -> Markup {
    html! { a href=(format!("/console/shards/{id}")) { (id) } }
}

pub(super) fn migration(id: &str) -> Markup {
    html! { a class="mono" href=(format!("/console/moves/{id}")) { (id) } }
}

/// From one shard to another.
pub(super) fn way(from: &ShardId, to: &ShardId) -> Markup {
    html! { (shard(from)) span class="arrow" aria-label="to" role="img" { "→" } (shard(to)) }
}
