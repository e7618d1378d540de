//! `GET /polls/{poll}/export`: who voted for what, one line per voter.
//!
//! Pages are read from the shard as fast as the client takes them, and none is
//! kept. A vote that was counted before the export began is in it. The rows of
//! an archived poll are read from its file, group by group; a poll that is
//! archived meanwhile goes on there, since both have the same order.

use axum::body::{Body, Bytes};
use axum::extract::State as Given;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, Timestamp, VoterId};
use ballast_vote_shard::ShardResult;
use ballast_vote_shard::shard::{VoterName, VoterPrint, VoterRow};
use futures::stream::{self, StreamExt};
use serde::Serialize;

use crate::admit::{Access, Allowed, ToExport};
use crate::archived::File;
use crate::deliver::{Place, Target};
use crate::dual::Rows;
use crate::request::PollPath;
use crate::{RouterError, State};

/// A voter's row.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportedRow {
    /// Who; `null` when their name was erased.
    #[serde(rename = "voterID")]
    voter_id: Option<VoterId>,
    /// What they chose.
    #[serde(rename = "itemIDs")]
    item_ids: Vec<ItemId>,
    /// When they did so last.
    voted_at: Timestamp,
    /// How often they did so.
    revision: u32,
}

/// Export the voters of a poll and what they chose, one JSON object per line.
///
/// Votes that arrive meanwhile may or may not be in it. It goes on when the
/// poll's data moves meanwhile.
#[utoipa::path(get, path = "/polls/{poll}/export", tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, body = ExportedRow, content_type = "application/x-ndjson")))]
pub(crate) async fn export(
    Allowed(access, _): Allowed<ToExport>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
) -> Result<Response, RouterError> {
    let target = Target::Poll(poll);
    // A poll that is not there is told before the answer begins.
    state
        .deliver(&access, &target, |place| async move {
            place.read().await?.poll(&place.at.slice, poll).await
        })
        .await?;
    let begin = Reading {
        state,
        access,
        poll,
        rows: Rows::of(poll),
        last: None,
        file: None,
    };
    // So are rows that cannot be read.
    let (lines, rest) = begin.next().await?;
    let rest = stream::try_unfold(rest, async |reading: Option<Reading>| match reading {
        Some(reading) => reading.next().await.map(Some),
        None => Ok::<_, Error>(None),
    });
    let lines = stream::iter([Ok(lines)]).chain(rest);
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(lines)).into_response())
}

/// An export under way.
struct Reading {
    state: State,
    access: Access,
    poll: PollId,
    rows: Rows,
    /// The last voter whose row was handed out.
    last: Option<VoterPrint>,
    /// The file that holds the rows, if one does.
    file: Option<File>,
}

/// Rows of a file, and whose the last is; none when there are no more.
type OfFile = (File, Option<(VoterPrint, Vec<VoterRow>)>);

impl Reading {
    /// The lines of the next page, and what is to be read after it.
    async fn next(mut self) -> Result<(Bytes, Option<Self>)> {
        crate::admit::still(&self.state, &self.access).await?;
        let mut of_file = self.of_file().await?;
        let mut page = None;
        if of_file.is_none() {
            page = Some(self.rows.next(&self.state, &self.access).await?);
            // The rows may have left the shard just before they were read.
            of_file = self.of_file().await?;
        }
        match (of_file, page) {
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

    /// The next rows of the poll's file, if one has them.
    async fn of_file(&self) -> Result<Option<OfFile>> {
        let target = Target::Poll(self.poll);
        let reading = self
            .state
            .deliver(&self.access, &target, |place| async move {
                self.rows_of_file(&place).await
            });
        reading.await
    }

    async fn rows_of_file(&self, place: &Place) -> ShardResult<Option<OfFile>> {
        let open = self.file.as_ref();
        let Some(file) = self.state.file(place, self.poll, open).await? else {
            return Ok(None);
        };
        let rows = file.after(self.last).await?;
        Ok(Some((file, rows)))
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
            .map(|place| ItemId::of(row.poll, *place))
            .collect(),
        voted_at: row.voted_at,
        revision: row.version.revision,
    }
}
