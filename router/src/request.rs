//! What a request asks for in this API's own words: polls and items in the
//! path, the headers of a vote, the page of a list — each refused with the
//! place and the reason.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use ballast_domain::poll::{Choice, RequestId};
use ballast_domain::{Entropy, Error, ErrorCode, ItemId, PollId, Result};
use ballast_web::body::read_within;
use ballast_web::head::segments;
use ballast_web::page;
use ballast_web::problem::malformed;
use serde::Deserialize;

use crate::RouterError;

/// How long a client may take to send a body that is read whole.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// `{poll}` in a path. A text that is no poll's id names no poll.
pub(crate) struct PollPath(pub(crate) PollId);

impl<S: Send + Sync> FromRequestParts<S> for PollPath {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let named = segments(parts).await?;
        Ok(Self(poll_id(named.first().map_or("", String::as_str))?))
    }
}

/// `{poll}` and `{item}` in a path.
pub(crate) struct ItemPath(pub(crate) PollId, pub(crate) ItemId);

impl<S: Send + Sync> FromRequestParts<S> for ItemPath {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let named = segments(parts).await?;
        let text = |place: usize| named.get(place).map_or("", String::as_str);
        Ok(Self(poll_id(text(0))?, item_id(text(1))?))
    }
}

/// `{poll}` and another text in a path.
pub(crate) struct PollAndText(pub(crate) PollId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PollAndText {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let mut named = segments(parts).await?.into_iter();
        let poll = poll_id(&named.next().unwrap_or_default())?;
        Ok(Self(poll, named.next().unwrap_or_default()))
    }
}

fn poll_id(text: &str) -> Result<PollId> {
    text.parse()
        .map_err(|bad| Error::new(ErrorCode::PollNotFound, format!("{bad}")))
}

fn item_id(text: &str) -> Result<ItemId> {
    text.parse()
        .map_err(|bad| Error::new(ErrorCode::ItemNotFound, format!("{bad}")))
}

/// Reads a body whole, up to a size.
pub(crate) fn read(body: Body, most: usize) -> impl Future<Output = Result<Bytes>> + Send {
    read_within(BODY_PATIENCE, body, most)
}

/// The id of a vote that names itself. The same name for another item or for
/// a withdrawal is another request, so that no answer speaks of a vote that
/// was not cast.
pub(crate) fn named_vote(name: &str, item: ItemId, choice: Choice) -> RequestId {
    let verb = match choice {
        Choice::For => "for",
        Choice::Withdraw => "withdraw",
    };
    RequestId::of(&format!("{verb} {item} {name}"))
}

/// Names for requests that gave themselves none: no two alike in a process,
/// and by chance none like another process's. Cheaper than asking the
/// operating system for each.
pub(crate) struct FreshRequests(AtomicU64);

impl FreshRequests {
    /// Names from a random beginning.
    pub(crate) fn new(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        Self(AtomicU64::new(u64::from_le_bytes(bytes)))
    }

    /// The next one. SplitMix64: every number leads to another one.
    pub(crate) fn next(&self) -> RequestId {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId(mixed ^ (mixed >> 31))
    }
}

/// The revision that `If-Match` demands of a voter's row.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<u32>> {
    let mut given = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let tag = value.to_str().unwrap_or_default().trim();
    if given.next().is_some() || tag.contains(',') || tag == "*" {
        return Err(malformed("If-Match takes one ETag, such as \"3\""));
    }
    let revision = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    // A tag that is none of ours matches nothing.
    Ok(Some(
        revision
            .and_then(|text| text.parse().ok())
            .unwrap_or(u32::MAX),
    ))
}

/// A header's value as UTF-8.
pub(crate) fn utf8_header<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h str>> {
    let mut given = headers.get_all(HeaderName::from_static(name)).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        return Err(malformed(format!("the header {name} is there twice")));
    }
    std::str::from_utf8(value.as_bytes())
        .map(Some)
        .map_err(|_| malformed(format!("the header {name} is not UTF-8")))
}

/// Which page of a list is asked for. Other parameters are left alone: one of
/// them may be the key.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

impl Paging {
    /// How many, and after which poll.
    pub(crate) fn read(&self) -> Result<(u32, Option<PollId>)> {
        let limit = page::limit(self.limit)?;
        Ok((limit, page::after(self.cursor.as_deref())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        let name = HeaderName::from_static(name);
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn an_if_match_is_one_revision() {
        let read = |value| if_match(&with("if-match", value));
        assert_eq!(if_match(&HeaderMap::new()).unwrap(), None);
        assert_eq!(read("\"3\"").unwrap(), Some(3));
        assert_eq!(read("\"three\"").unwrap(), Some(u32::MAX));
        assert_eq!(read("3").unwrap(), Some(u32::MAX));
        assert!(read("*").is_err());
        assert!(read("\"1\", \"2\"").is_err());
    }

    #[test]
    fn a_named_vote_is_another_one_for_another_item() {
        let item = ItemId::from_number;
        let one = named_vote("a", item(1), Choice::For);
        assert_eq!(one, named_vote("a", item(1), Choice::For));
        assert_ne!(one, named_vote("a", item(2), Choice::For));
        assert_ne!(one, named_vote("a", item(1), Choice::Withdraw));
    }
}
