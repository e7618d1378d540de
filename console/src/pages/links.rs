//! IDs in paths, and links to their pages.

use std::fmt::Display;
use std::str::FromStr;

use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use maud::{Markup, html};

/// Parses an ID from a path segment; an invalid one is a 404.
pub(super) fn parse_path_id<T: FromStr<Err: Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|bad: T::Err| {
        let detail = format!("no such page: {bad}");
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

/// The source and the target shard, with an arrow.
pub(super) fn route(from: &ShardId, to: &ShardId) -> Markup {
    html! { (shard(from)) span class="arrow" aria-label="to" role="img" { "→" } (shard(to)) }
}
