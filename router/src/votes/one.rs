//! One vote per request: cast or withdraw it.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::bounds::VOTE_BODY_BYTES_MAX;
use ballast_domain::poll::{Ballot, BallotOutcome, VoteChoice};
use ballast_domain::{Error, ItemId, PollId, Result, VoterId};
use ballast_web::body::decode;
use ballast_web::head::idempotency_key;
use ballast_web::problem::malformed;
use serde::{Deserialize, Serialize};

use super::cast_one;
use crate::admit::{Access, Authorized, VoteAccess};
use crate::openapi::{IdempotencyHeader, IfMatchHeader, VoterHeader};
use crate::request::{ItemPath, if_match, read, utf8_header, vote_request_id};
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// The voter, in the body.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "voterID": "user-1" }))]
pub(crate) struct VoterBody {
    /// The voter; may be sent as the header `Voter-Id` instead.
    #[serde(rename = "voterID")]
    #[schema(value_type = Option<VoterId>)]
    voter_id: Option<String>,
}

/// The outcome of a vote.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Counted)]
pub(crate) struct VoteResponse {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// The item.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// The voter.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// The outcome.
    outcome: VoteOutcome,
}

#[derive(Debug, Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum VoteOutcome {
    /// It was counted.
    Counted,
    /// It had been counted before.
    Already,
    /// It was withdrawn.
    Withdrawn,
}

/// Vote for an item.
///
/// Name the voter in the header `Voter-Id` or in the body. A repeated vote is counted
/// once and answered with `already`.
#[utoipa::path(patch, path = "/polls/{poll}/votes/{item}", operation_id = "castVote",
    tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>,
    responses((status = 200, description = "The vote counts, from now or from before",
        body = VoteResponse,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn vote(
    Authorized { access, path, .. }: Authorized<VoteAccess, ItemPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    handle_vote(&state, access, VoteChoice::For, path, headers, body).await
}

/// Vote for an item: the same as `PATCH`.
#[utoipa::path(post, path = "/polls/{poll}/votes/{item}", operation_id = "castVoteByPost",
    tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>,
    responses((status = 200, description = "The vote counts, from now or from before",
        body = VoteResponse,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn vote_by_post(
    Authorized { access, path, .. }: Authorized<VoteAccess, ItemPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    handle_vote(&state, access, VoteChoice::For, path, headers, body).await
}

/// Withdraw a vote, in a poll that allows changing votes.
#[utoipa::path(delete, path = "/polls/{poll}/votes/{item}", operation_id = "withdrawVote",
    tag = "votes",
    params(("poll" = PollId, Path), ("item" = ItemId, Path), VoterHeader, IdempotencyHeader,
        IfMatchHeader),
    request_body = Option<VoterBody>,
    responses((status = 200, description = "The vote does not count any more", body = VoteResponse,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn withdraw(
    Authorized { access, path, .. }: Authorized<VoteAccess, ItemPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    handle_vote(&state, access, VoteChoice::Withdraw, path, headers, body).await
}

/// Answers a request with one vote, through axum or directly.
pub(crate) async fn handle_vote(
    state: &RouterState,
    mut access: Access,
    choice: VoteChoice,
    path: ItemPath,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    let outcome = cast_vote(state, &mut access, choice, path, &headers, body).await;
    access.answer(outcome)
}

async fn cast_vote(
    state: &RouterState,
    access: &mut Access,
    choice: VoteChoice,
    ItemPath(poll, item): ItemPath,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    let bytes = read(body, VOTE_BODY_BYTES_MAX).await?;
    // The poll's opening and closing times are compared with the time at which the
    // whole request had arrived, however long it is held from here on.
    let arrived_at = state.parts.clock.now();
    let body: VoterBody = decode(headers, &bytes, false)?;
    let voter = read_voter_id(headers, body)?;
    let name = idempotency_key(headers)?;
    let ballot = Ballot {
        poll,
        item,
        voter: voter.clone(),
        choice,
        request: match name {
            Some(name) => vote_request_id(name, item, choice),
            None => state.parts.requests.next(),
        },
        arrived_at,
        if_revision: if_match(headers)?,
    };
    access.spend_vote(state, (poll, item), arrived_at)?;
    let (outcome, revision) = match (cast_one(state, access, ballot).await?, choice) {
        (BallotOutcome::Refused(refusal), _) => return Err(Error::from(refusal).into()),
        (BallotOutcome::Already { revision }, _) => (VoteOutcome::Already, revision),
        (BallotOutcome::Counted { revision }, VoteChoice::For) => (VoteOutcome::Counted, revision),
        (BallotOutcome::Counted { revision }, VoteChoice::Withdraw) => {
            (VoteOutcome::Withdrawn, revision)
        }
    };
    let body = VoteResponse {
        poll_id: poll,
        item_id: item,
        voter_id: voter,
        outcome,
    };
    Ok(with_revision(revision, Json(body)))
}

/// Adds the revision of the voter's row as an ETag.
pub(super) fn with_revision(revision: u32, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Reads the voter from the header or the body. If both are present they must agree.
fn read_voter_id(headers: &HeaderMap, body: VoterBody) -> Result<VoterId> {
    let header = utf8_header(headers, "voter-id")?;
    let text = match (header, body.voter_id.as_deref()) {
        (Some(header), Some(body)) if header != body => {
            let detail = "the header Voter-Id names another voter than the body's voterID";
            return Err(malformed(detail));
        }
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => {
            let error = malformed("missing voter id: send `Voter-Id` or `voterID`");
            return Err(error.with_next_step("Send {\"voterID\": …} or the header Voter-Id."));
        }
    };
    let pointer = match header {
        Some(_) => "",
        None => "/voterID",
    };
    VoterId::new(text).map_err(|bad| Error::invalid_field(pointer, bad.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::ErrorCode;

    fn voter_text(header: Option<&'static str>, body: Option<&str>) -> Result<String, ErrorCode> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            let value = HeaderValue::from_bytes(header.as_bytes()).unwrap();
            headers.insert("voter-id", value);
        }
        let body = VoterBody {
            voter_id: body.map(str::to_owned),
        };
        read_voter_id(&headers, body)
            .map(String::from)
            .map_err(|error| error.code())
    }

    #[test]
    fn header_and_body_must_name_the_same_voter() {
        assert_eq!(voter_text(Some("a"), None).unwrap(), "a");
        assert_eq!(voter_text(None, Some("a")).unwrap(), "a");
        assert_eq!(voter_text(Some("Zoë"), Some("Zoë")).unwrap(), "Zoë");
        let malformed = ErrorCode::MalformedRequest;
        assert_eq!(voter_text(Some("a"), Some("b")).unwrap_err(), malformed);
        assert_eq!(voter_text(None, None).unwrap_err(), malformed);
        assert_eq!(
            voter_text(Some(""), None).unwrap_err(),
            ErrorCode::InvalidField
        );
    }
}
