//! `POST /votes`: a stream of votes in one request.
//!
//! ```text
//!   body ──► lines ──► batch ──► cast ──► outcomes ──► response
//!            (one task)          (one batch at a time, in order)
//! ```
//! The response begins with the first outcomes, before the last vote has arrived. While
//! one batch is cast the next one is read. If the client does not read the outcomes, no
//! more votes are read. Batches are cast one after the other, so a voter's later line
//! never overtakes an earlier one. A tenant's limit on votes per second slows its
//! streams down and refuses nothing.

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use ballast_domain::poll::{Ballot, BallotOutcome};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, VoterId};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::CastResult;
use super::lines::{LineBatch, LineParser, ParsedLine};
use crate::RouterState;
use crate::admit::{Access, Authorized, VoteAccess, reauthenticate};
use crate::limits::Booking;
use crate::load::CallKind;
use crate::request_summary::SummarizedResponse;

/// The most lines of a batch.
const BATCH_LINES: usize = 4_096;

/// One line of the request.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[allow(dead_code, reason = "describes the lines, which are parsed by `lines`")]
#[schema(example = json!({
    "pollID": "poll-01kb5q6s3ww3q0v9d1nqz8t5ma", "itemID": "item-7q0v9d1nqz8t5", "voterID": "user-1"
}))]
pub(crate) struct VoteLine {
    /// The poll.
    #[serde(rename = "pollID")]
    poll_id: PollId,
    /// The item.
    #[serde(rename = "itemID")]
    item_id: ItemId,
    /// The voter.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// An id of this vote: use the same one when it is sent again.
    #[serde(rename = "requestID")]
    request_id: Option<String>,
}

/// One line of the answer.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[allow(
    dead_code,
    reason = "describes the outcomes, which are written as text"
)]
#[schema(example = json!({ "line": 1, "outcome": "counted" }))]
pub(crate) struct Outcome {
    /// The line number in the request, from 1, including empty lines.
    line: u64,
    /// The outcome.
    outcome: LineOutcome,
    /// Why it was refused.
    #[schema(example = "already-voted")]
    code: Option<String>,
    /// Why it was refused, in words.
    detail: Option<String>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(
    dead_code,
    reason = "describes the outcomes, which are written as text"
)]
enum LineOutcome {
    Counted,
    Already,
    Refused,
}

/// Cast many votes: one JSON object per line, one outcome per line.
///
/// Outcomes are sent while votes are received, in their order. Read them as they come:
/// while they wait, no more votes are read. Send a line again that was refused with the
/// code `unavailable` or `busy`: its shard was unavailable, and may or may not have
/// counted the vote. A repeated vote is counted once.
#[utoipa::path(post, path = "/votes", operation_id = "castVotes",
    tag = "votes",
    request_body(content = VoteLine, content_type = "application/x-ndjson"),
    responses((status = 200, description = "One outcome for each line of the request",
        body = Outcome, content_type = "application/x-ndjson")))]
pub(crate) async fn votes(
    Authorized { mut access, .. }: Authorized<VoteAccess>,
    State(state): State<RouterState>,
    headers: HeaderMap,
    body: Body,
) -> SummarizedResponse {
    // Load counts its votes when they are cast, and not the request itself.
    access.summary.call = CallKind::Other;
    let (sender, batches) = mpsc::channel(1);
    let mut body = body.into_data_stream();
    // A client that sent `Expect: 100-continue` waits for the first read of its body,
    // which must happen before the response begins.
    let first = match headers.contains_key(header::EXPECT) {
        true => body.next().await,
        false => None,
    };
    let seed = state.parts.requests.next().0;
    tokio::spawn(read_lines(
        state.clone(),
        first,
        body,
        LineParser::new(seed),
        sender,
    ));
    let casting = VoteStream::new(state, access.clone(), batches);
    let outcomes = stream::unfold(casting, async |mut casting| {
        let outcomes = casting.next_outcomes().await?;
        Some((Ok::<_, std::convert::Infallible>(outcomes), casting))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    access.answer(Ok((kind, Body::from_stream(outcomes))))
}

type Chunk = std::result::Result<Bytes, axum::Error>;

/// Reads lines and sends them in batches: at once while the casting side is idle, and
/// larger batches while it is busy.
async fn read_lines(
    state: RouterState,
    first: Option<Chunk>,
    body: BodyDataStream,
    mut lines: LineParser,
    sender: mpsc::Sender<LineBatch>,
) {
    let mut body = stream::iter(first).chain(body);
    let mut batch = LineBatch::default();
    loop {
        let chunk = tokio::select! {
            biased;
            room = sender.reserve(), if !batch.is_empty() => match room {
                Ok(room) => {
                    room.send(std::mem::take(&mut batch));
                    continue;
                }
                Err(_) => return,
            },
            chunk = body.next(), if batch.lines.len() < BATCH_LINES => chunk,
        };
        let now = state.parts.clock.now();
        let Some(Ok(mut chunk)) = chunk else {
            // Lines of a body that broke off are cast too, because they were sent. The
            // last line may be incomplete, so it is parsed only if the body has ended
            // properly.
            if chunk.is_none() {
                lines.finish(now, &mut batch);
            }
            break;
        };
        loop {
            let taken = lines.read_chunk(&chunk, BATCH_LINES, now, &mut batch);
            chunk = chunk.slice(taken..);
            if chunk.is_empty() {
                break;
            }
            if sender.send(std::mem::take(&mut batch)).await.is_err() {
                return;
            }
        }
    }
    if !batch.is_empty() {
        // An error means that the client has disconnected.
        let _ = sender.send(batch).await;
    }
}

/// The votes of a stream on their way to the shards.
struct VoteStream {
    state: RouterState,
    access: Access,
    batches: mpsc::Receiver<LineBatch>,
    /// The rest of the current batch.
    ballots: std::vec::IntoIter<Ballot>,
    lines: std::iter::Peekable<std::vec::IntoIter<(u64, ParsedLine)>>,
}

impl VoteStream {
    fn new(state: RouterState, access: Access, batches: mpsc::Receiver<LineBatch>) -> Self {
        let LineBatch { ballots, lines } = LineBatch::default();
        Self {
            state,
            access,
            batches,
            ballots: ballots.into_iter(),
            lines: lines.into_iter().peekable(),
        }
    }

    /// The outcomes of the next lines: of a whole batch, or of as many votes as the
    /// tenant's limit allows.
    async fn next_outcomes(&mut self) -> Option<Bytes> {
        if self.lines.peek().is_none() {
            let LineBatch { ballots, lines } = self.batches.recv().await?;
            self.ballots = ballots.into_iter();
            self.lines = lines.into_iter().peekable();
        }
        let mut outcomes = self.cast_next().await.into_iter();
        let mut text = Vec::with_capacity(self.lines.len() * 40);
        while let Some((number, line)) = self.lines.next() {
            match line {
                ParsedLine::Refused(code, detail) => {
                    write_refusal(&mut text, number, code, &detail)
                }
                ParsedLine::Ballot => match outcomes.next() {
                    Some(Ok(outcome)) => write_outcome(&mut text, number, outcome),
                    Some(Err(error)) => {
                        write_refusal(&mut text, number, error.code(), &error.to_string());
                    }
                    None => {
                        write_refusal(&mut text, number, ErrorCode::Internal, "it has no outcome");
                    }
                },
            }
            // The next vote has not been cast yet.
            let is_vote = matches!(self.lines.peek(), Some((_, ParsedLine::Ballot)));
            if is_vote && outcomes.len() == 0 {
                break;
            }
        }
        Some(text.into())
    }

    /// Casts the next votes: as many as the tenant's limit allows, after the booked
    /// wait.
    async fn cast_next(&mut self) -> Vec<CastResult> {
        while self.ballots.len() > 0 {
            // The key may have been revoked or the limit changed since the last batch.
            match reauthenticate(&self.state, &self.access).await {
                Ok(tenant) => self.access.tenant = tenant,
                Err(error) => {
                    let error = Arc::new(error);
                    let lost = self.ballots.by_ref();
                    return lost.map(|_| Err(error.clone())).collect();
                }
            }
            let now = self.state.parts.clock.now();
            let asked = u32::try_from(self.ballots.len()).unwrap_or(u32::MAX);
            let limiter = self.state.limiter();
            let Booking { votes, wait } = limiter.book_votes(&self.access.tenant, asked, now);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            if votes > 0 {
                let ballots = self.ballots.by_ref().take(votes as usize).collect();
                return super::cast_ballots(&self.state, &self.access, ballots).await;
            }
        }
        Vec::new()
    }
}

fn write_outcome(text: &mut Vec<u8>, number: u64, outcome: BallotOutcome) {
    // Writing to memory does not fail.
    let _ = match outcome {
        BallotOutcome::Counted { .. } => {
            writeln!(text, r#"{{"line":{number},"outcome":"counted"}}"#)
        }
        BallotOutcome::Already { .. } => {
            writeln!(text, r#"{{"line":{number},"outcome":"already"}}"#)
        }
        BallotOutcome::Refused(refusal) => {
            let code = refusal.code();
            write_refusal(text, number, code, &Error::from(refusal).to_string());
            Ok(())
        }
    };
}

fn write_refusal(text: &mut Vec<u8>, number: u64, code: ErrorCode, detail: &str) {
    let detail = serde_json::to_string(detail).unwrap_or_default();
    let code = code.name();
    let _ = writeln!(
        text,
        r#"{{"line":{number},"outcome":"refused","code":"{code}","detail":{detail}}}"#
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::TestRouter;
    use ballast_domain::poll::BallotRefusal;

    #[tokio::test]
    async fn lines_are_held_for_their_shard_and_can_be_repeated() {
        let server = TestRouter::new(|settings| settings.hold_max = Duration::from_millis(200));
        let (_, vote) = server.poll().await;
        let mut names = vote.split('/').skip(2).step_by(2);
        let (poll, item) = (names.next().unwrap(), names.next().unwrap());
        let line = format!(r#"{{"pollID":"{poll}","itemID":"{item}","voterID":"ada"}}"#);
        server.shards.set_away(true);
        let refused = server.ask("POST", "/votes", &line).await;
        assert_eq!(refused.status, 200, "{refused:?}");
        assert_eq!(refused.body["outcome"], "refused");
        assert_eq!(refused.body["code"], "unavailable");
        let asked = server.shards.calls();
        let back = async {
            server.shards.wait_for_calls(asked + 2).await;
            server.shards.set_away(false);
        };
        let (counted, ()) = tokio::join!(server.ask("POST", "/votes", &line), back);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-tenant"), "acme");
    }

    #[test]
    fn outcomes_are_valid_json() {
        let mut text = Vec::new();
        write_outcome(&mut text, 1, BallotOutcome::Counted { revision: 1 });
        write_outcome(&mut text, 2, BallotOutcome::Already { revision: 1 });
        write_outcome(&mut text, 3, BallotOutcome::Refused(BallotRefusal::Closed));
        write_refusal(&mut text, 4, ErrorCode::MalformedRequest, "a \"b\"\n");
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].clone()).collect();
        assert_eq!(outcomes, ["counted", "already", "refused", "refused"]);
        assert_eq!(lines[2]["code"], "poll-closed");
        assert_eq!(lines[3]["detail"], "a \"b\"\n");
        assert_eq!(lines[3]["line"], 4);
    }
}
