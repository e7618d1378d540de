//! `GET /polls/{poll}/voters/{voter}`: what a voter has chosen.

use axum::Json;
use axum::extract::State as Given;
use axum::response::Response;
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, Timestamp, VoterId};
use serde::Serialize;

use super::one::with_revision;
use crate::admit::{Allowed, ToRead};
use crate::deliver::Target;
use crate::request::PollAndText;
use crate::{RouterError, State};

/// What a voter has chosen.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VoteView {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// Who.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// What they chose.
    #[serde(rename = "itemIDs")]
    item_ids: Vec<ItemId>,
    /// When they did so last.
    voted_at: Timestamp,
}

/// Show what a voter has chosen.
#[utoipa::path(get, path = "/polls/{poll}/voters/{voter}", tag = "votes",
    params(("poll" = PollId, Path), ("voter" = VoterId, Path)),
    responses((status = 200, body = VoteView,
    headers(("ETag" = String, description = "The revision of the voter's vote")))))]
pub(crate) async fn voter(
    Allowed(access, _): Allowed<ToRead>,
    Given(state): Given<State>,
    PollAndText(poll, text): PollAndText,
) -> Result<Response, RouterError> {
    let none = || Error::new(ErrorCode::VoteNotFound, "the voter has not voted");
    let voter =
        VoterId::new(&text).map_err(|bad| Error::new(ErrorCode::VoteNotFound, bad.to_string()))?;
    let row = state
        .deliver(&access, &Target::Poll(poll), |place| {
            let (state, voter) = (state.clone(), voter.clone());
            async move { state.row(&place, poll, &voter).await }
        })
        .await?
        .filter(|row| !row.items.is_empty())
        .ok_or_else(none)?;
    let item_ids = row.items.iter().map(|place| ItemId::of(poll, *place));
    let view = VoteView {
        poll_id: poll,
        voter_id: voter,
        item_ids: item_ids.collect(),
        voted_at: row.voted_at,
    };
    Ok(with_revision(row.version.revision, Json(view)))
}
