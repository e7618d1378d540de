//! `POST /votes`: many votes in one request.
//!
//! ```text
//!   body ──► lines ──► batch ──► cast ──► outcomes ──► answer
//!            (one task)          (one batch at a time, in order)
//! ```
//! The answer begins with the first outcomes, not with the last vote. While a
//! batch is cast the next one is read; when the client does not take the
//! outcomes, nothing more is read. Batches are cast one after the other, so a
//! voter's later line never overtakes an earlier one. A tenant's limit on
//! votes per second slows its streams down; nothing is refused for it.

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::State as Given;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::poll::{Ballot, Verdict};
use ballast_domain::{Error, ErrorCode, ItemId, PollId, Result, VoterId};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Cast;
use super::lines::{Batch, Line, Lines};
use crate::admit::{Access, Allowed, ToVote, still};
use crate::limits::Booking;
use crate::load::Call;
use crate::{RouterError, State};

/// Lines that are cast together at the most.
const BATCH_LINES: usize = 4_096;

/// One line of the request.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[allow(dead_code, reason = "it only describes what is read line by line")]
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
    /// Who votes.
    #[serde(rename = "voterID")]
    voter_id: VoterId,
    /// A name for this vote, the same whenever it is sent.
    #[serde(rename = "requestID")]
    request_id: Option<String>,
}

/// One line of the answer.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[allow(dead_code, reason = "it only describes what is written by hand")]
#[schema(example = json!({ "line": 1, "outcome": "counted" }))]
pub(crate) struct Outcome {
    /// The line of the request, counted from 1, empty lines too.
    line: u64,
    /// What became of it.
    outcome: LineOutcome,
    /// Why it was refused.
    #[schema(example = "already-voted")]
    code: Option<String>,
    /// Why it was refused, in words.
    detail: Option<String>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "it only describes what is written by hand")]
enum LineOutcome {
    Counted,
    Already,
    Refused,
}

/// Cast many votes: one JSON object per line, one outcome per line.
///
/// Outcomes come while votes are sent, in their order; read them as they come,
/// for nothing more is read while they wait. A line that is refused with the
/// code `unavailable` or `busy` should be sent again: its shard was away, and in
/// the worst case went away with the vote on it. It counts once.
#[utoipa::path(post, path = "/votes", tag = "votes",
    request_body(content = VoteLine, content_type = "application/x-ndjson"),
    responses((status = 200, body = Outcome, content_type = "application/x-ndjson")))]
pub(crate) async fn votes(
    Allowed(access, _): Allowed<ToVote>,
    Given(state): Given<State>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, RouterError> {
    // Its votes are counted as load when they are cast, not the request.
    access.is(Call::Other);
    let (sender, batches) = mpsc::channel(1);
    let mut body = body.into_data_stream();
    // A client that waits to be asked for its body is asked by the first
    // read, which must come before the answer begins.
    let first = match headers.contains_key(header::EXPECT) {
        true => body.next().await,
        false => None,
    };
    let seed = state.parts.requests.next().0;
    tokio::spawn(read(state.clone(), first, body, Lines::new(seed), sender));
    let casting = Casting::new(state, access, batches);
    let outcomes = stream::unfold(casting, async |mut casting| {
        let outcomes = casting.next().await?;
        Some((Ok::<_, std::convert::Infallible>(outcomes), casting))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(outcomes)).into_response())
}

type Chunk = std::result::Result<Bytes, axum::Error>;

/// Reads lines and hands them over in batches: as they are when whoever casts
/// is idle, larger ones while they wait.
async fn read(
    state: State,
    first: Option<Chunk>,
    body: BodyDataStream,
    mut lines: Lines,
    sender: mpsc::Sender<Batch>,
) {
    let mut body = stream::iter(first).chain(body);
    let mut batch = Batch::default();
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
            // Also of a body that broke off, what has arrived is cast: those
            // lines were sent. Its last line may be half a line, and is read
            // only when the body has come to its end.
            if chunk.is_none() {
                lines.end(now, &mut batch);
            }
            break;
        };
        loop {
            let taken = lines.take(&chunk, BATCH_LINES, now, &mut batch);
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
        // When nobody is there any more, nobody misses it.
        let _ = sender.send(batch).await;
    }
}

/// The votes of a stream on their way to the shards.
struct Casting {
    state: State,
    access: Access,
    batches: mpsc::Receiver<Batch>,
    /// What is left of the batch at hand.
    ballots: std::vec::IntoIter<Ballot>,
    lines: std::iter::Peekable<std::vec::IntoIter<(u64, Line)>>,
}

impl Casting {
    fn new(state: State, access: Access, batches: mpsc::Receiver<Batch>) -> Self {
        let Batch { ballots, lines } = Batch::default();
        Self {
            state,
            access,
            batches,
            ballots: ballots.into_iter(),
            lines: lines.into_iter().peekable(),
        }
    }

    /// The outcomes of the next lines: of a whole batch, or of as many votes
    /// as the tenant may cast at once.
    async fn next(&mut self) -> Option<Bytes> {
        if self.lines.peek().is_none() {
            let Batch { ballots, lines } = self.batches.recv().await?;
            self.ballots = ballots.into_iter();
            self.lines = lines.into_iter().peekable();
        }
        let mut verdicts = self.cast().await.into_iter();
        let mut text = Vec::with_capacity(self.lines.len() * 40);
        while let Some((number, line)) = self.lines.next() {
            match line {
                Line::Refused(code, detail) => refused(&mut text, number, code, &detail),
                Line::Ballot => match verdicts.next() {
                    Some(Ok(verdict)) => judged(&mut text, number, verdict),
                    Some(Err(error)) => {
                        refused(&mut text, number, error.code(), &error.to_string());
                    }
                    None => refused(&mut text, number, ErrorCode::Internal, "it was lost"),
                },
            }
            // The next vote has not been cast yet.
            let is_vote = matches!(self.lines.peek(), Some((_, Line::Ballot)));
            if is_vote && verdicts.len() == 0 {
                break;
            }
        }
        Some(text.into())
    }

    /// Casts the next votes, as many as the tenant may, when it may.
    async fn cast(&mut self) -> Vec<Cast> {
        while self.ballots.len() > 0 {
            // The key may have been revoked since, or the limit changed.
            match still(&self.state, &self.access).await {
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
                return super::cast(&self.state, &self.access, ballots).await;
            }
        }
        Vec::new()
    }
}

fn judged(text: &mut Vec<u8>, number: u64, verdict: Verdict) {
    // Writing to memory does not fail.
    let _ = match verdict {
        Verdict::Counted { .. } => writeln!(text, r#"{{"line":{number},"outcome":"counted"}}"#),
        Verdict::Already { .. } => writeln!(text, r#"{{"line":{number},"outcome":"already"}}"#),
        Verdict::Refused(refusal) => {
            let code = refusal.code();
            refused(text, number, code, &Error::from(refusal).to_string());
            Ok(())
        }
    };
}

fn refused(text: &mut Vec<u8>, number: u64, code: ErrorCode, detail: &str) {
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
    use crate::testing::House;
    use ballast_domain::poll::Refusal;

    #[tokio::test]
    async fn lines_wait_for_their_shard_and_may_be_sent_again() {
        let house = House::new(|settings| settings.hold_max = Duration::from_millis(200));
        let (_, vote) = house.poll().await;
        let mut names = vote.split('/').skip(2).step_by(2);
        let (poll, item) = (names.next().unwrap(), names.next().unwrap());
        let line = format!(r#"{{"pollID":"{poll}","itemID":"{item}","voterID":"ada"}}"#);
        house.shards.set_away(true);
        let refused = house.ask("POST", "/votes", &line).await;
        assert_eq!(refused.status, 200, "{refused:?}");
        assert_eq!(refused.body["outcome"], "refused");
        assert_eq!(refused.body["code"], "unavailable");
        let asked = house.shards.asked();
        let back = async {
            house.shards.is_asked(asked + 2).await;
            house.shards.set_away(false);
        };
        let (counted, ()) = tokio::join!(house.ask("POST", "/votes", &line), back);
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-tenant"), "acme");
    }

    #[test]
    fn outcomes_are_json_whatever_is_in_them() {
        let mut text = Vec::new();
        judged(&mut text, 1, Verdict::Counted { revision: 1 });
        judged(&mut text, 2, Verdict::Already { revision: 1 });
        judged(&mut text, 3, Verdict::Refused(Refusal::Closed));
        refused(&mut text, 4, ErrorCode::MalformedRequest, "a \"b\"\n");
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
