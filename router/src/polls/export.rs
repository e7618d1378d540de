//! `GET /polls/{poll}/export`: who voted for what, one line per voter.
//!
//! Pages are read from the shard as fast as the client reads the response, and are not
//! stored. The export includes every vote that was counted before it began. The rows
//! of an archived poll are read from its file, one row group at a time. If a poll is
//! archived during the export, reading continues in the file, which has the same order.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, Timestamp, VoterId};
use ballast_vote_shard::shard::{VoterName, VoterPrint, VoterRow};
use futures::stream::{self, StreamExt};
use serde::Serialize;

use super::read_poll;
use crate::admit::{Access, Authorized, ExportAccess};
use crate::archived::ArchivedPoll;
use crate::deliver::RouteKey;
use crate::dual::PollRows;
use crate::request::PollPath;
use crate::request_summary::SummarizedResponse;
use crate::{RouterError, RouterState};

/// A voter's row in an export.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportedRow {
    /// The voter; `null` if the name was erased.
    #[serde(rename = "voterID")]
    voter_id: Option<VoterId>,
    /// The items that the voter chose.
    #[serde(rename = "itemIDs")]
    item_ids: Vec<ItemId>,
    /// When the voter last voted.
    voted_at: Timestamp,
    /// How often the vote was changed.
    revision: u32,
}

/// Export the voters of a poll and what they chose, one JSON object per line.
///
/// Votes that arrive during the export may or may not be included. The export
/// continues when the poll's data moves.
#[utoipa::path(get, path = "/polls/{poll}/export", operation_id = "exportVotes",
    tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, description = "One line for each voter",
        body = ExportedRow, content_type = "application/x-ndjson")))]
pub(crate) async fn export(
    Authorized {
        mut access, path, ..
    }: Authorized<ExportAccess, PollPath>,
    State(state): State<RouterState>,
) -> SummarizedResponse {
    let lines = export_poll(state, &mut access, path).await;
    access.answer(lines)
}

async fn export_poll(
    state: RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
) -> Result<Response, RouterError> {
    // An unknown poll is refused before the response begins.
    read_poll(&state, access, poll).await?;
    let begin = PollExport {
        state,
        access: access.clone(),
        poll,
        rows: PollRows::new(poll),
        last: None,
        file: None,
    };
    // An error of the first page also becomes the response.
    let (lines, rest) = begin.next().await?;
    let rest = stream::try_unfold(rest, async |reading: Option<PollExport>| match reading {
        Some(reading) => reading.next().await.map(Some),
        None => Ok::<_, Error>(None),
    });
    let lines = stream::iter([Ok(lines)]).chain(rest);
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(lines)).into_response())
}

/// An export under way.
struct PollExport {
    state: RouterState,
    access: Access,
    poll: PollId,
    rows: PollRows,
    /// The voter of the last row that was returned.
    last: Option<VoterPrint>,
    /// The archive file with the rows, if the poll is archived.
    file: Option<ArchivedPoll>,
}

/// A page of an archive file: the last row's voter and the rows; `None` at the end.
type FilePage = (ArchivedPoll, Option<(VoterPrint, Vec<VoterRow>)>);

impl PollExport {
    /// The lines of the next page, and the rest of the export.
    async fn next(mut self) -> Result<(Bytes, Option<Self>)> {
        crate::admit::reauthenticate(&self.state, &self.access).await?;
        let mut archive_page = self.archive_page().await?;
        let mut page = None;
        if archive_page.is_none() {
            page = Some(self.rows.next(&self.state, &mut self.access).await?);
            // The poll may have been archived just before its rows were read.
            archive_page = self.archive_page().await?;
        }
        match (archive_page, page) {
            (Some((_, None)), _) | (None, None) => Ok((Bytes::new(), None)),
            (Some((file, Some((last, rows)))), _) => {
                let lines = lines(&rows)?;
                (self.last, self.file) = (Some(last), Some(file));
                Ok((lines, Some(self)))
            }
            (None, Some((rows, there_is_more))) => {
                let lines = lines(&rows)?;
                self.last = self.rows.last();
                Ok((lines, there_is_more.then_some(self)))
            }
        }
    }

    /// The next page of the poll's archive file, if the poll is archived.
    async fn archive_page(&mut self) -> Result<Option<FilePage>> {
        let route_key = RouteKey::Poll(self.poll);
        let (state, poll, last) = (&self.state, self.poll, self.last);
        let open = self.file.as_ref();
        let reading = state.deliver(&mut self.access, &route_key, |target| async move {
            let Some(file) = state.open_archive(&target, poll, open).await? else {
                return Ok(None);
            };
            let rows = file.rows_after(last).await?;
            Ok(Some((file, rows)))
        });
        reading.await
    }
}

fn lines(rows: &[VoterRow]) -> Result<Bytes> {
    let mut text = Vec::new();
    for row in rows.iter().filter(|row| !row.items.is_empty()) {
        serde_json::to_writer(&mut text, &exported(row))
            .map_err(|bad| Error::new(ErrorCode::Internal, bad.to_string()))?;
        text.push(b'\n');
    }
    Ok(text.into())
}

fn exported(row: &VoterRow) -> ExportedRow {
    ExportedRow {
        voter_id: match &row.voter {
            VoterName::Named(voter) => Some(voter.clone()),
            VoterName::Erased(_) => None,
        },
        item_ids: row
            .items
            .iter()
            .map(|index| ItemId::from_position(row.poll, *index))
            .collect(),
        voted_at: row.voted_at,
        revision: row.version.revision,
    }
}
