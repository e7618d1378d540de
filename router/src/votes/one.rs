//! A vote in a request of its own.

use axum::Json;
use axum::body::Body;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::bounds::VOTE_BODY_BYTES_MAX;
use ballast_domain::poll::{Ballot, Choice, Verdict};
use ballast_domain::{Error, ItemId, PollId, Result, VoterId};
use ballast_web::body::decode;
use ballast_web::head::idempotency_key;
use ballast_web::problem::malformed;
use serde::{Deserialize, Serialize};

use super::cast_one;
use crate::admit::{Allowed, ToVote};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, VoterHeader};
use crate::request::{ItemPath, if_match, named_vote, read, utf8_header};
use crate::{RouterError, State};

/// Who votes, in the body.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "voterID": "user-1" }))]
pub(crate) struct VoterBody {
    /// Who votes; the header `Voter-Id` may say so instead.
    #[serde(rename = "voterID")]
    #[schema(value_type = Option<VoterId>)]
    voter_id: Option<String>,
}

/// What became of a vote.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counted {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// The item.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// Who voted.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// What became of it.
    outcome: VoteOutcome,
}

#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum VoteOutcome {
    /// It is counted now.
    Counted,
    /// It was so before.
    Already,
    /// It is given up now.
    Withdrawn,
}

/// Vote for an item.
///
/// The voter is named by the header `Voter-Id` or in the body. Sent again, the
/// vote is counted once and answered with `already`.
#[utoipa::path(patch, path = "/polls/{poll}/votes/{item}", tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>, responses((status = 200, body = Counted,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn vote(
    allowed: Allowed<ToVote>,
    Given(state): Given<State>,
    path: ItemPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    one(&state, allowed, Choice::For, path, headers, body).await
}

/// Vote for an item: the same as `PATCH`.
#[utoipa::path(post, path = "/polls/{poll}/votes/{item}", tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>, responses((status = 200, body = Counted,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn vote_by_post(
    allowed: Allowed<ToVote>,
    Given(state): Given<State>,
    path: ItemPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    one(&state, allowed, Choice::For, path, headers, body).await
}

/// Withdraw a vote. Only in polls whose votes may be changed.
#[utoipa::path(delete, path = "/polls/{poll}/votes/{item}", tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>, responses((status = 200, body = Counted,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn withdraw(
    allowed: Allowed<ToVote>,
    Given(state): Given<State>,
    path: ItemPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    one(&state, allowed, Choice::Withdraw, path, headers, body).await
}

/// One vote, whichever way it came in.
pub(crate) async fn one(
    state: &State,
    Allowed(access, _): Allowed<ToVote>,
    choice: Choice,
    ItemPath(poll, item): ItemPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    // Its poll's times are judged by when it arrived, whole, however long it is
    // held from here on.
    let arrived_at = state.parts.clock.now();
    let told: VoterBody = decode(&headers, &bytes, false)?;
    let voter = voter(&headers, told)?;
    let name = idempotency_key(&headers)?;
    let ballot = Ballot {
        poll,
        item,
        voter: voter.clone(),
        choice,
        request: match name {
            Some(name) => named_vote(name, item, choice),
            None => state.parts.requests.next(),
        },
        arrived_at,
        if_revision: if_match(&headers)?,
    };
    access.spend_vote(state, (poll, item), arrived_at)?;
    let (what, revision) = match (cast_one(state, &access, ballot).await?, choice) {
        (Verdict::Refused(refusal), _) => return Err(Error::from(refusal).into()),
        (Verdict::Already { revision }, _) => (VoteOutcome::Already, revision),
        (Verdict::Counted { revision }, Choice::For) => (VoteOutcome::Counted, revision),
        (Verdict::Counted { revision }, Choice::Withdraw) => (VoteOutcome::Withdrawn, revision),
    };
    let body = Counted {
        poll_id: poll,
        item_id: item,
        voter_id: voter,
        outcome: what,
    };
    Ok(with_revision(revision, Json(body)))
}

/// An answer with the revision of a voter's row.
pub(super) fn with_revision(revision: u32, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Who votes: by the header, by the body, or by both if they agree.
fn voter(headers: &HeaderMap, body: VoterBody) -> Result<VoterId> {
    let header = utf8_header(headers, "voter-id")?;
    let text = match (header, body.voter_id.as_deref()) {
        (Some(header), Some(body)) if header != body => {
            let detail = "the header Voter-Id names another voter than the body's voterID";
            return Err(malformed(detail));
        }
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => {
            let error = malformed("nobody votes: there is neither a voterID nor a Voter-Id");
            return Err(error.next("Send {\"voterID\": …} or the header Voter-Id."));
        }
    };
    let place = match header {
        Some(_) => "",
        None => "/voterID",
    };
    VoterId::new(text).map_err(|bad| Error::invalid_field(place, bad.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::ErrorCode;

    fn told(header: Option<&'static str>, body: Option<&str>) -> Result<String, ErrorCode> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            let value = HeaderValue::from_bytes(header.as_bytes()).unwrap();
            headers.insert("voter-id", value);
        }
        let body = VoterBody {
            voter_id: body.map(str::to_owned),
        };
        voter(&headers, body)
            .map(String::from)
            .map_err(|error| error.code())
    }

    #[test]
    fn a_voter_is_named_once_or_twice_alike() {
        assert_eq!(told(Some("a"), None).unwrap(), "a");
        assert_eq!(told(None, Some("a")).unwrap(), "a");
        assert_eq!(told(Some("Zoë"), Some("Zoë")).unwrap(), "Zoë");
        let malformed = ErrorCode::MalformedRequest;
        assert_eq!(told(Some("a"), Some("b")).unwrap_err(), malformed);
        assert_eq!(told(None, None).unwrap_err(), malformed);
        assert_eq!(told(Some(""), None).unwrap_err(), ErrorCode::InvalidField);
    }
}
