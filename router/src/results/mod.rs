//! `GET /polls/{poll}/votes`: the results.
//!
//! ```text
//!   live view, if it is fresh enough ─┐
//!   otherwise the shard's counts ─────┴─► rendered once ──► shared by requests
//! ```

mod rendered;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::poll::{Poll, PollPhase};
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode, PollId, Result, Timestamp};
use ballast_vote_shard::ShardResult;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

pub(crate) use rendered::{RenderedResults, Results};

use crate::RouterState;
use crate::admit::{Access, Authorized, ReadAccess};
use crate::deliver::{RouteKey, ShardTarget};
use crate::live::{CountsOrigin, PollAtShard, PollCounts};
use crate::request::PollPath;
use crate::request_summary::SummarizedResponse;

/// The most memory for cached polls, and for rendered results.
const BYTES_MAX: u64 = 64 << 20;
/// The expected number of cached polls.
const POLLS_EXPECTED: usize = 10_000;
/// `Cache-Control` of results that may still change.
const MAX_AGE_OPEN: &str = "public, max-age=1";
/// `Cache-Control` of final results.
const MAX_AGE_CLOSED: &str = "public, max-age=60";

/// Caches for results.
pub(crate) struct ResultCache {
    polls: Cache<PollAtShard, Arc<Poll>, ResultWeigher>,
    shown: Cache<PollAtShard, Arc<RenderedResults>, ResultWeigher>,
    /// The epoch at which a poll's counts were last read from its shard.
    read_at: Cache<PollAtShard, Epoch>,
}

impl ResultCache {
    /// Whether a poll's counts were read from the shard since its slice moved there.
    /// Until then the view may be behind the counts that another shard has shown,
    /// because it follows the copy while that is being made.
    fn is_read_at(&self, subject: &PollAtShard, epoch: Epoch) -> bool {
        epoch == Epoch::FIRST || self.read_at.get(subject) == Some(epoch)
    }
}

#[derive(Clone)]
struct ResultWeigher;

impl Weighter<PollAtShard, Arc<Poll>> for ResultWeigher {
    fn weight(&self, _: &PollAtShard, poll: &Arc<Poll>) -> u64 {
        let texts = poll.spec.items.iter().map(|item| {
            let more = item.description.as_ref().map_or(0, String::len);
            (64 + item.item_name.len() + more) as u64
        });
        300 + texts.sum::<u64>()
    }
}

impl Weighter<PollAtShard, Arc<RenderedResults>> for ResultWeigher {
    fn weight(&self, _: &PollAtShard, shown: &Arc<RenderedResults>) -> u64 {
        300 + shown.json.len() as u64
    }
}

impl Default for ResultCache {
    fn default() -> Self {
        Self {
            polls: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, ResultWeigher),
            shown: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, ResultWeigher),
            read_at: Cache::new(POLLS_EXPECTED),
        }
    }
}

/// Show a poll's results, the item with the most votes first.
///
/// They are at most a few seconds old; `Cache-Control: no-cache` requests the current
/// ones.
#[utoipa::path(get, path = "/polls/{poll}/votes", operation_id = "getResults",
    tag = "results",
    params(("poll" = PollId, Path),
        ("If-None-Match" = Option<String>, Header,
        description = "The ETag of the results that you have"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache` for the newest")),
    responses((status = 200, description = "The results", body = Results,
        headers(("ETag" = String, description = "The version of the results"))),
        (status = 304, description = "The results have not changed")))]
pub(crate) async fn results(
    Authorized {
        mut access, path, ..
    }: Authorized<ReadAccess, PollPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
) -> SummarizedResponse {
    let PollPath(poll) = path;
    let results = state.results(&mut access, poll, wants_newest(&headers));
    let response = results
        .await
        .map(|results| respond(&state, &headers, &results));
    access.answer(response.map_err(Into::into))
}

fn wants_newest(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case("no-cache"))
}

/// A tag without its weakness flag, which does not matter when comparing.
fn weak(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

fn respond(state: &RouterState, headers: &HeaderMap, results: &RenderedResults) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|tag| weak(tag.trim()))
        .any(|tag| tag == "*" || tag == weak(&results.etag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (kind, Body::from(results.json.clone())).into_response()
    };
    let age = match results.closing {
        Some(_) => MAX_AGE_CLOSED,
        None => MAX_AGE_OPEN,
    };
    let answer = response.headers_mut();
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(age));
    answer.insert(header::VARY, state.parts.vary.clone());
    if let Ok(tag) = HeaderValue::from_str(&results.etag) {
        answer.insert(header::ETAG, tag);
    }
    response
}

impl RouterState {
    /// A poll's results, rendered.
    pub(crate) async fn results(
        &self,
        access: &mut Access,
        poll: PollId,
        newest: bool,
    ) -> Result<Arc<RenderedResults>> {
        let (target, poll, counts) = self
            .deliver(access, &RouteKey::Poll(poll), |target| async move {
                let subject = subject(&target, poll);
                // First of all, refuse an unknown poll.
                let poll = self.load_poll(&target, &subject).await?;
                let counts = self.read_counts(&target, &subject, newest).await?;
                Ok((target, poll, counts))
            })
            .await?;
        self.sample_counts(&target, poll.poll_id);
        let now = self.parts.clock.now();
        let phase = match counts.closed_at {
            Some(_) => PollPhase::Closed,
            None => poll.phase(now),
        };
        // Votes that arrived in time may still be on their way when the poll expires,
        // so hidden results stay hidden until it has closed.
        if poll.spec.options.results_hidden_until_closed && counts.closed_at.is_none() {
            let until = poll.spec.expiration_time;
            let detail = format!(
                "the results are hidden until the poll has closed, soon after it expires at {until}"
            );
            return Err(Error::new(ErrorCode::ResultsHidden, detail));
        }
        Ok(self.render(&target, &poll, &counts, phase))
    }

    /// Reads the counts from the view if it is fresh, or else from the shard.
    async fn read_counts(
        &self,
        target: &ShardTarget,
        subject: &PollAtShard,
        newest: bool,
    ) -> ShardResult<Arc<PollCounts>> {
        // Start the next owner's feed now, so that the view knows its counts when the
        // slice has moved.
        if let Some(next_shard) = &target.next_shard {
            self.start_feed(next_shard);
        }
        self.await_feed(&target.shard_id).await?;
        let now = self.parts.clock.now();
        if !newest
            && self.parts.results.is_read_at(subject, target.fenced.epoch)
            && let Some(known) = self.parts.view.counts(subject).await
            && is_fresh(known.as_of, now, self.parts.settings.results_max_age)
        {
            return Ok(known);
        }
        let tally = target
            .consistent_reader()
            .await?
            .tally(&subject.slice, subject.poll)
            .await?;
        let view = &self.parts.view;
        let counts = view
            .update(&target.shard_id, tally, CountsOrigin::Read, now)
            .await;
        let read_at = &self.parts.results.read_at;
        read_at.insert(subject.clone(), target.fenced.epoch);
        Ok(counts)
    }

    /// Reads a poll's counts into the view at once, so that the next request sees a
    /// change such as closing the poll.
    pub(crate) async fn refresh_counts(
        &self,
        target: &ShardTarget,
        poll: PollId,
    ) -> ShardResult<()> {
        let now = self.parts.clock.now();
        let tally = target
            .consistent_reader()
            .await?
            .tally(&target.fenced.slice, poll)
            .await?;
        let view = &self.parts.view;
        view.update(&target.shard_id, tally, CountsOrigin::Read, now)
            .await;
        Ok(())
    }

    /// Loads a poll, from the cache if possible. Results use only what never changes.
    async fn load_poll(
        &self,
        target: &ShardTarget,
        subject: &PollAtShard,
    ) -> ShardResult<Arc<Poll>> {
        if let Some(known) = self.parts.results.polls.get(subject) {
            return Ok(known);
        }
        let poll = target
            .consistent_reader()
            .await?
            .poll(&subject.slice, subject.poll)
            .await?;
        let poll = Arc::new(poll);
        self.parts
            .results
            .polls
            .insert(subject.clone(), poll.clone());
        Ok(poll)
    }

    /// Renders results, unless the cache has the same ones.
    fn render(
        &self,
        target: &ShardTarget,
        poll: &Poll,
        counts: &PollCounts,
        phase: PollPhase,
    ) -> Arc<RenderedResults> {
        let subject = subject(target, poll.poll_id);
        let cache = &self.parts.results.shown;
        let id = RenderedResults::version_number(counts, target.fenced.epoch, phase);
        if let Some(known) = cache.get(&subject)
            && (known.id, known.as_of) == (id, counts.as_of)
        {
            return known;
        }
        let rendered = Arc::new(RenderedResults::new(id, poll, counts, phase));
        cache.insert(subject, rendered.clone());
        rendered
    }
}

fn subject(target: &ShardTarget, poll: PollId) -> PollAtShard {
    PollAtShard {
        shard: target.shard_id.clone(),
        slice: target.fenced.slice.clone(),
        poll,
    }
}

fn is_fresh(as_of: Timestamp, now: Timestamp, max_age: Duration) -> bool {
    let age_ms = now.unix_ms().saturating_sub(as_of.unix_ms());
    u128::from(age_ms.unsigned_abs()) < max_age.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRouter;
    use ballast_domain::limits::TenantLimits;

    #[test]
    fn only_no_cache_requests_current_results() {
        let asks = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            wants_newest(&[(header::CACHE_CONTROL, value)].into_iter().collect())
        };
        assert!(asks("no-cache"));
        assert!(asks("max-age=0, No-Cache"));
        assert!(!asks("max-age=0"));
        assert!(!wants_newest(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn concurrent_queries_are_limited() {
        let server = TestRouter::new(|_| {});
        let (poll, _) = server.poll().await;
        let limits = TenantLimits {
            concurrent_queries: Some(1),
            ..TenantLimits::default()
        };
        server.change_route(|route| route.limits = limits);
        let votes = format!("{poll}/votes");
        server.shards.set_away(true);
        let second = async {
            server.shards.wait_for_calls(3).await;
            let refused = server.ask("GET", &poll, "").await;
            server.shards.set_away(false);
            refused
        };
        let (first, second) = tokio::join!(server.ask("GET", &votes, ""), second);
        assert_eq!(second.body["code"], "rate-limited", "{second:?}");
        assert_eq!(second.header("retry-after"), "1");
        assert_eq!(first.status, 200, "{first:?}");
        assert!(first.header("ratelimit").starts_with("\"queries\""));
        let third = server.ask("GET", &votes, "").await;
        assert_eq!(third.status, 200, "the first has released its permit");
    }

    #[test]
    fn results_are_fresh_for_their_time() {
        let at = Timestamp::from_unix_ms;
        let most = Duration::from_secs(5);
        assert!(is_fresh(at(0), at(4_999), most));
        assert!(!is_fresh(at(0), at(5_000), most));
        assert!(!is_fresh(at(0), at(0), Duration::ZERO));
    }
}
