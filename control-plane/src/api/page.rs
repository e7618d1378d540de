//! Lists, a page at a time.

use ballast_domain::bounds::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use ballast_domain::{Error, Result};
use serde::Serialize;

/// A page of a list.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    /// The items.
    items: Vec<T>,
    /// What to send as `cursor` for the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// The form of a cursor: opaque to callers, versioned for us.
const CURSOR: &str = "c1.";

/// Writes a cursor.
pub(super) fn cursor(after: &str) -> String {
    format!("{CURSOR}{after}")
}

/// Reads a cursor.
pub(super) fn after(cursor: Option<&str>) -> Result<Option<String>> {
    let Some(text) = cursor else { return Ok(None) };
    match text.strip_prefix(CURSOR) {
        Some(after) if !after.is_empty() && after.len() <= 200 => Ok(Some(after.to_owned())),
        _ => Err(Error::invalid_field(
            "?cursor",
            "it is not a nextCursor of this list",
        )),
    }
}

/// Reads a page size.
pub(super) fn limit(limit: Option<u32>) -> Result<u32> {
    bounded(limit, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX)
}

/// Reads a page size with bounds of its own.
pub(super) fn bounded(limit: Option<u32>, default: u32, max: u32) -> Result<u32> {
    let limit = limit.unwrap_or(default);
    if (1..=max).contains(&limit) {
        Ok(limit)
    } else {
        Err(Error::invalid_field(
            "?limit",
            format!("{limit} is not from 1 to {max}"),
        ))
    }
}

impl<T> Page<T> {
    /// A page out of `limit + 1` items that were asked for: the one too many
    /// tells that there is a next page.
    pub(super) fn of(mut items: Vec<T>, limit: u32, key: impl Fn(&T) -> String) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = items.last().filter(|_| more).map(|last| cursor(&key(last)));
        Self { items, next_cursor }
    }
}
