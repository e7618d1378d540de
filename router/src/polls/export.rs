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
use ballast_vote_shard::shard::{Change, Cursor, Page, VoterName, VoterPrint, VoterRow};
use futures::stream::{self, StreamExt};
use serde::Serialize;

use crate::admit::{Access, Allowed, ToExport};
use crate::archived::File;
use crate::deliver::{Place, Target};
use crate::request::PollPath;
use crate::{RouterError, State};

/// How much is read of a shard at once.
const PAGE_BYTES: usize = 256 * 1024;

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
/// Votes that arrive meanwhile may or may not be in it. It ends without its
/// last line when the poll's data moves away meanwhile: begin again.
#[utoipa::path(get, path = "/polls/{poll}/export", tag = "polls", params(("poll" = PollId, Path)),
    responses((status = 200, body = ExportedRow, content_type = "application/x-ndjson")))]
pub(crate) async fn export(
    Allowed(access, _): Allowed<ToExport>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
) -> Result<Response, RouterError> {
    let target = Target::Poll(poll);
    // A poll that is not there is told before the answer begins.
    let first = state
        .deliver(&access, &target, |place| async move {
            place.read().await?.poll(&place.at.slice, poll).await?;
            place
                .read()
                .await?
                .export(&place.at.slice, &Cursor::Start, 1)
                .await
        })
        .await?;
    let begin = Reading {
        state,
        access,
        poll,
        cursor: from_poll(first.next, poll),
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

/// Skips the polls before this one: rows are in the order of their polls.
fn from_poll(cursor: Cursor, poll: PollId) -> Cursor {
    match (cursor, poll.number().checked_sub(1)) {
        (Cursor::Snapshot { position, .. }, Some(before)) => Cursor::Snapshot {
            position,
            after: Some((PollId::from_number(before), VoterPrint([u64::MAX; 2]))),
        },
        (cursor, _) => cursor,
    }
}

/// An export under way.
struct Reading {
    state: State,
    access: Access,
    poll: PollId,
    cursor: Cursor,
    /// The last voter whose row was handed out.
    last: Option<VoterPrint>,
    /// The file that holds the rows, if one does.
    file: Option<File>,
}

/// What comes next.
enum More {
    /// A page of the shard.
    Page(Page),
    /// Rows of a file, and whose the last is; none when there are no more.
    Rows(File, Option<(VoterPrint, Vec<VoterRow>)>),
}

impl Reading {
    /// The lines of the next page, and what is to be read after it.
    async fn next(mut self) -> Result<(Bytes, Option<Self>)> {
        crate::admit::still(&self.state, &self.access).await?;
        let target = Target::Poll(self.poll);
        let more = self
            .state
            .deliver(&self.access, &target, |place| {
                let reading = &self;
                async move { reading.more(&place).await }
            })
            .await?;
        match more {
            More::Page(page) => {
                let lines = lines(self.poll, rows_of(&page))?;
                if is_last(self.poll, &page) {
                    return Ok((lines, None));
                }
                if let Cursor::Snapshot { after, .. } = &page.next
                    && let Some((_, last)) = after.filter(|(poll, _)| *poll == self.poll)
                {
                    self.last = Some(last);
                }
                self.cursor = page.next;
                Ok((lines, Some(self)))
            }
            More::Rows(_, None) => Ok((Bytes::new(), None)),
            More::Rows(file, Some((last, rows))) => {
                let lines = lines(self.poll, rows.iter())?;
                (self.last, self.file) = (Some(last), Some(file));
                Ok((lines, Some(self)))
            }
        }
    }

    async fn more(&self, place: &Place) -> ShardResult<More> {
        if let Some(more) = self.of_file(place).await? {
            return Ok(more);
        }
        let slice = &place.at.slice;
        let page = place.read().await?.export(slice, &self.cursor, PAGE_BYTES);
        let page = page.await?;
        // The rows may have left the shard just before they were read.
        match self.of_file(place).await? {
            Some(more) => Ok(more),
            None => Ok(More::Page(page)),
        }
    }

    async fn of_file(&self, place: &Place) -> ShardResult<Option<More>> {
        let file = self
            .state
            .file(place, self.poll, self.file.as_ref())
            .await?;
        let Some(file) = file else {
            return Ok(None);
        };
        let rows = file.after(self.last).await?;
        Ok(Some(More::Rows(file, rows)))
    }
}

fn rows_of(page: &Page) -> impl Iterator<Item = &VoterRow> {
    page.changes.iter().filter_map(|change| match change {
        Change::Voter(row) => Some(row),
        Change::Poll(_) => None,
    })
}

/// Whether all rows of the poll that were there have been handed out.
fn is_last(poll: PollId, page: &Page) -> bool {
    let beyond = page.changes.iter().any(|change| match change {
        Change::Poll(row) => row.poll.poll_id > poll,
        Change::Voter(row) => row.poll > poll,
    });
    beyond || page.caught_up || matches!(page.next, Cursor::Changes { .. })
}

fn lines<'a>(poll: PollId, rows: impl Iterator<Item = &'a VoterRow>) -> Result<Bytes> {
    let mut text = Vec::new();
    for row in rows.filter(|row| row.poll == poll && !row.items.is_empty()) {
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
