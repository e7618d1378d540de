//! `GET /polls/{poll}/voters/{voter}`: what a voter has chosen.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, Timestamp, VoterId};
use serde::Serialize;

use super::one::with_revision;
use crate::admit::{Access, Authorized, ReadAccess};
use crate::deliver::RouteKey;
use crate::request::PollAndText;
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// A voter's vote.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VoteView {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// The voter.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// The items that the voter chose.
    #[serde(rename = "itemIDs")]
    item_ids: Vec<ItemId>,
    /// When the voter last voted.
    voted_at: Timestamp,
}

/// Show what a voter has chosen.
#[utoipa::path(get, path = "/polls/{poll}/voters/{voter}", operation_id = "getVote",
    tag = "votes",
    params(("poll" = PollId, Path), ("voter" = VoterId, Path)),
    responses((status = 200, description = "The voter's vote", body = VoteView,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn voter(
    Authorized {
        mut access, path, ..
    }: Authorized<ReadAccess, PollAndText>,
    State(state): State<RouterState>,
) -> SummarizedResponse {
    let row = read_vote(&state, &mut access, path).await;
    access.answer(row)
}

async fn read_vote(
    state: &RouterState,
    access: &mut Access,
    PollAndText(poll, text): PollAndText,
) -> Result<Response, RouterError> {
    let none = || Error::new(ErrorCode::VoteNotFound, "the voter has not voted");
    let voter =
        VoterId::new(&text).map_err(|bad| Error::new(ErrorCode::VoteNotFound, bad.to_string()))?;
    let row = state
        .deliver(access, &RouteKey::Poll(poll), |target| {
            let voter = voter.clone();
            async move { state.voter_row(&target, poll, &voter).await }
        })
        .await?
        .filter(|row| !row.items.is_empty())
        .ok_or_else(none)?;
    let item_ids = row
        .items
        .iter()
        .map(|index| ItemId::from_position(poll, *index));
    let view = VoteView {
        poll_id: poll,
        voter_id: voter,
        item_ids: item_ids.collect(),
        voted_at: row.voted_at,
    };
    Ok(with_revision(row.version.revision, Json(view)))
}
