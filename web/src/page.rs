//! Paged lists and their cursors.

use std::fmt::Display;
use std::str::FromStr;

use ballast_domain::bounds::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use ballast_domain::{Error, Result};
use serde::Serialize;

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items.
    items: Vec<T>,
    /// The `cursor` of the next page; `null` on the last page.
    next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page from up to `limit + 1` items: the extra item shows that there is a next
    /// page.
    pub fn from_items<K: Display>(mut items: Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let last = items.last().filter(|_| more);
        let next_cursor = last.map(|last| cursor(key(last)));
        Self { items, next_cursor }
    }

    /// The same page with each item mapped.
    pub fn map<U>(self, make: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(make).collect(),
            next_cursor: self.next_cursor,
        }
    }
}

/// The prefix of a cursor: its version. Cursors are opaque to callers.
const CURSOR: &str = "c1.";
/// The longest text in a cursor.
const CURSOR_BYTES_MAX: usize = 200;

/// Writes a cursor.
pub fn cursor(after: impl Display) -> String {
    format!("{CURSOR}{after}")
}

/// Reads a cursor: the key of the item after which the page begins.
pub fn parse_cursor<K: FromStr>(cursor: Option<&str>) -> Result<Option<K>> {
    let Some(text) = cursor else { return Ok(None) };
    let after = text
        .strip_prefix(CURSOR)
        .filter(|after| (1..=CURSOR_BYTES_MAX).contains(&after.len()))
        .and_then(|after| after.parse().ok());
    match after {
        Some(after) => Ok(Some(after)),
        None => Err(Error::invalid_field(
            "?cursor",
            "it is not a nextCursor of this list",
        )),
    }
}

/// Reads a page size.
pub fn page_size(limit: Option<u32>) -> Result<u32> {
    page_size_within(limit, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX)
}

/// Reads a page size with its own bounds.
pub fn page_size_within(limit: Option<u32>, default: u32, max: u32) -> Result<u32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_cursor_of_the_next_one() {
        let page = Page::from_items(vec![1, 2, 3], 2, |number| *number);
        assert_eq!(page.items, [1, 2]);
        let next = page.next_cursor.as_deref();
        assert_eq!(parse_cursor::<u32>(next).unwrap(), Some(2));
        assert_eq!(parse_cursor::<String>(next).unwrap().as_deref(), Some("2"));
        assert!(
            Page::from_items(vec![1, 2, 3], 3, |n| *n)
                .next_cursor
                .is_none()
        );
    }

    #[test]
    fn invalid_cursors_are_refused() {
        assert_eq!(parse_cursor::<u32>(None).unwrap(), None);
        let long = cursor("1".repeat(CURSOR_BYTES_MAX + 1));
        for text in ["", "c1.", "2", "c2.2", &long] {
            assert!(parse_cursor::<String>(Some(text)).is_err(), "{text}");
        }
        assert!(parse_cursor::<u32>(Some("c1.two")).is_err());
    }

    #[test]
    fn a_page_has_a_size() {
        assert_eq!(page_size(None).unwrap(), PAGE_ITEMS_DEFAULT);
        assert_eq!(page_size(Some(PAGE_ITEMS_MAX)).unwrap(), PAGE_ITEMS_MAX);
        assert!(page_size(Some(0)).is_err());
        assert!(page_size(Some(PAGE_ITEMS_MAX + 1)).is_err());
        assert_eq!(page_size_within(None, 5, 7).unwrap(), 5);
        assert!(page_size_within(Some(8), 5, 7).is_err());
    }
}
