//! Extractors for the parts of a request: polls and items in the path, the headers of
//! a vote, the page of a list. Each reports errors with the field and the reason.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use ballast_domain::poll::{RequestId, VoteChoice};
use ballast_domain::{Entropy, Error, ErrorCode, ItemId, PollId, Result};
use ballast_web::body::read_with_timeout;
use ballast_web::head::segments;
use ballast_web::page;
use ballast_web::problem::malformed;
use serde::Deserialize;

use crate::RouterError;

/// How long a client may take to send a body that is read whole.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// `{poll}` in a path. A text that is not a poll's id is answered with "not found".
pub(crate) struct PollPath(pub(crate) PollId);

impl<S: Send + Sync> FromRequestParts<S> for PollPath {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let segments = segments(parts).await?;
        Ok(Self(poll_id(segments.first().map_or("", String::as_str))?))
    }
}

/// `{poll}` and `{item}` in a path.
pub(crate) struct ItemPath(pub(crate) PollId, pub(crate) ItemId);

impl<S: Send + Sync> FromRequestParts<S> for ItemPath {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let segments = segments(parts).await?;
        let text = |index: usize| segments.get(index).map_or("", String::as_str);
        Ok(Self(poll_id(text(0))?, item_id(text(1))?))
    }
}

/// `{poll}` and another text in a path.
pub(crate) struct PollAndText(pub(crate) PollId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PollAndText {
    type Rejection = RouterError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RouterError> {
        let mut segments = segments(parts).await?.into_iter();
        let poll = poll_id(&segments.next().unwrap_or_default())?;
        Ok(Self(poll, segments.next().unwrap_or_default()))
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
    read_with_timeout(BODY_PATIENCE, body, most)
}

/// The request id of a vote with an `Idempotency-Key`. The same key for another item
/// or for a withdrawal gives another id, so that no answer refers to a vote that was
/// not cast.
pub(crate) fn vote_request_id(name: &str, item: ItemId, choice: VoteChoice) -> RequestId {
    let verb = match choice {
        VoteChoice::For => "for",
        VoteChoice::Withdraw => "withdraw",
    };
    RequestId::from_name(&format!("{verb} {item} {name}"))
}

/// Makes request ids for requests without an `Idempotency-Key`. They are unique in a
/// process, and with high probability among processes. This is cheaper than reading
/// random bytes from the operating system for each.
pub(crate) struct RequestIdGenerator(AtomicU64);

impl RequestIdGenerator {
    /// Starts at a random number.
    pub(crate) fn new(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        Self(AtomicU64::new(u64::from_le_bytes(bytes)))
    }

    /// The next id (SplitMix64, which maps every number to a different one).
    pub(crate) fn next(&self) -> RequestId {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId(mixed ^ (mixed >> 31))
    }
}

/// The revision of the voter's row that `If-Match` requires.
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
    // A tag of another form matches no revision.
    Ok(Some(
        revision
            .and_then(|text| text.parse().ok())
            .unwrap_or(u32::MAX),
    ))
}

/// The value of a header as UTF-8.
pub(crate) fn utf8_header<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h str>> {
    let mut given = headers.get_all(HeaderName::from_static(name)).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        return Err(malformed(format!(
            "the header {name} appears more than once"
        )));
    }
    std::str::from_utf8(value.as_bytes())
        .map(Some)
        .map_err(|_| malformed(format!("the header {name} is not UTF-8")))
}

/// The page of a list. Other parameters are ignored, because one of them may be the
/// key.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// The most items on the page; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

impl Paging {
    /// The limit, and the poll after which the page begins.
    pub(crate) fn read(&self) -> Result<(u32, Option<PollId>)> {
        let limit = page::page_size(self.limit)?;
        Ok((limit, page::parse_cursor(self.cursor.as_deref())?))
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
    fn a_vote_request_id_depends_on_item_and_choice() {
        let item = ItemId::from_number;
        let one = vote_request_id("a", item(1), VoteChoice::For);
        assert_eq!(one, vote_request_id("a", item(1), VoteChoice::For));
        assert_ne!(one, vote_request_id("a", item(2), VoteChoice::For));
        assert_ne!(one, vote_request_id("a", item(1), VoteChoice::Withdraw));
    }
}
