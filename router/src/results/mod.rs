//! `GET /polls/{poll}/votes`: the results.
//!
//! ```text
//!   live view, if it is fresh ───────┐
//!   otherwise the shard's own counts ┴─► written once ──► shared
//! ```

mod shown;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::poll::{Phase, Poll};
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode, PollId, Result, Timestamp};
use ballast_vote_shard::ShardResult;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

pub(crate) use shown::{Results, Shown};

use crate::admit::{Access, Allowed, ToRead};
use crate::deliver::{Place, Target};
use crate::live::{Origin, Standing, Subject};
use crate::request::PollPath;
use crate::{RouterError, State};

/// Memory that polls and their written results may take, each.
const BYTES_MAX: u64 = 64 << 20;
/// Polls that are expected to be in it.
const POLLS_EXPECTED: usize = 10_000;
/// How long others may keep results that still change.
const MAX_AGE_OPEN: &str = "public, max-age=1";
/// How long others may keep final results.
const MAX_AGE_CLOSED: &str = "public, max-age=60";

/// What has been read and written lately.
pub(crate) struct ResultCache {
    polls: Cache<Subject, Arc<Poll>, Size>,
    shown: Cache<Subject, Arc<Shown>, Size>,
    /// The epoch at which a poll's counts were last read from its shard.
    read_at: Cache<Subject, Epoch>,
}

impl ResultCache {
    /// Whether a poll's counts were read since its slice came to the shard.
    /// Until then the view may lack what another shard has counted and shown:
    /// it follows a copy as that is made, and may be behind.
    fn is_read_at(&self, subject: &Subject, epoch: Epoch) -> bool {
        epoch == Epoch::FIRST || self.read_at.get(subject) == Some(epoch)
    }
}

#[derive(Clone)]
struct Size;

impl Weighter<Subject, Arc<Poll>> for Size {
    fn weight(&self, _: &Subject, poll: &Arc<Poll>) -> u64 {
        let texts = poll.spec.items.iter().map(|item| {
            let more = item.description.as_ref().map_or(0, String::len);
            (64 + item.item_name.len() + more) as u64
        });
        300 + texts.sum::<u64>()
    }
}

impl Weighter<Subject, Arc<Shown>> for Size {
    fn weight(&self, _: &Subject, shown: &Arc<Shown>) -> u64 {
        300 + shown.json.len() as u64
    }
}

impl Default for ResultCache {
    fn default() -> Self {
        Self {
            polls: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, Size),
            shown: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, Size),
            read_at: Cache::new(POLLS_EXPECTED),
        }
    }
}

/// Show a poll's results, the item with the most votes first.
///
/// They are a few seconds old at the most; `Cache-Control: no-cache` asks for
/// those of this moment.
#[utoipa::path(get, path = "/polls/{poll}/votes", tag = "results",
    params(("poll" = PollId, Path),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that is known"),
        ("Cache-Control" = Option<String>, Header, description = "`no-cache` for the newest")),
    responses((status = 200, body = Results,
        headers(("ETag" = String, description = "Which results these are"))),
        (status = 304, description = "They are what you know")))]
pub(crate) async fn results(
    Allowed(access, _): Allowed<ToRead>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
    headers: HeaderMap,
) -> Result<Response, RouterError> {
    let shown = state.results(&access, poll, wants_newest(&headers)).await?;
    Ok(answer(&state, &headers, &shown))
}

fn wants_newest(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case("no-cache"))
}

/// A tag as it is compared: whether it is weak does not matter here.
fn weak(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

fn answer(state: &State, headers: &HeaderMap, shown: &Shown) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|tag| weak(tag.trim()))
        .any(|tag| tag == "*" || tag == weak(&shown.etag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (kind, Body::from(shown.json.clone())).into_response()
    };
    let age = match shown.closing {
        Some(_) => MAX_AGE_CLOSED,
        None => MAX_AGE_OPEN,
    };
    let answer = response.headers_mut();
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(age));
    answer.insert(header::VARY, state.parts.vary.clone());
    if let Ok(tag) = HeaderValue::from_str(&shown.etag) {
        answer.insert(header::ETAG, tag);
    }
    response
}

impl State {
    /// A poll's results, ready to be sent.
    pub(crate) async fn results(
        &self,
        access: &Access,
        poll: PollId,
        newest: bool,
    ) -> Result<Arc<Shown>> {
        let (place, poll, standing) = self
            .deliver(access, &Target::Poll(poll), |place| async move {
                let subject = subject(&place, poll);
                // First of all: of a poll that is not there nothing is shown.
                let poll = self.poll_of(&place, &subject).await?;
                let standing = self.standing(&place, &subject, newest).await?;
                Ok((place, poll, standing))
            })
            .await?;
        self.sample_counts(&place, poll.poll_id);
        let now = self.parts.clock.now();
        let phase = match standing.closed_at {
            Some(_) => Phase::Closed,
            None => poll.phase(now),
        };
        // Votes that arrived in time may still be on their way when it expires:
        // nothing is shown before it has closed for good.
        if poll.spec.options.results_hidden_until_closed && standing.closed_at.is_none() {
            let until = poll.spec.expiration_time;
            let detail = format!(
                "the results are hidden until the poll has closed, soon after it expires at {until}"
            );
            return Err(Error::new(ErrorCode::ResultsHidden, detail));
        }
        Ok(self.shown(&place, &poll, &standing, phase))
    }

    /// How the counts stand: by the view if it is fresh, or else by the shard.
    async fn standing(
        &self,
        place: &Place,
        subject: &Subject,
        newest: bool,
    ) -> ShardResult<Arc<Standing>> {
        // When the slice comes there, its counts are known already.
        if let Some(coming_to) = &place.coming_to {
            self.begin_feed(coming_to);
        }
        self.caught_up(&place.shard_id).await?;
        let now = self.parts.clock.now();
        if !newest
            && self.parts.results.is_read_at(subject, place.at.epoch)
            && let Some(known) = self.parts.view.standing(subject).await
            && is_fresh(known.as_of, now, self.parts.settings.results_max_age)
        {
            return Ok(known);
        }
        let tally = place
            .read()
            .await?
            .tally(&subject.slice, subject.poll)
            .await?;
        let view = &self.parts.view;
        let standing = view.take(&place.shard_id, tally, Origin::Read, now).await;
        let read_at = &self.parts.results.read_at;
        read_at.insert(subject.clone(), place.at.epoch);
        Ok(standing)
    }

    /// Brings a poll's counts into the view at once: after it was closed here,
    /// whoever asks next sees it closed.
    pub(crate) async fn look_anew(&self, place: &Place, poll: PollId) -> ShardResult<()> {
        let now = self.parts.clock.now();
        let tally = place.read().await?.tally(&place.at.slice, poll).await?;
        let view = &self.parts.view;
        view.take(&place.shard_id, tally, Origin::Read, now).await;
        Ok(())
    }

    /// What a poll is. Of that, results need what never changes.
    async fn poll_of(&self, place: &Place, subject: &Subject) -> ShardResult<Arc<Poll>> {
        if let Some(known) = self.parts.results.polls.get(subject) {
            return Ok(known);
        }
        let poll = place
            .read()
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

    /// Writes results, unless just these are written already.
    fn shown(&self, place: &Place, poll: &Poll, standing: &Standing, phase: Phase) -> Arc<Shown> {
        let subject = subject(place, poll.poll_id);
        let kept = &self.parts.results.shown;
        let id = Shown::number(standing, place.at.epoch, phase);
        if let Some(known) = kept.get(&subject)
            && (known.id, known.as_of) == (id, standing.as_of)
        {
            return known;
        }
        let shown = Arc::new(Shown::new(id, poll, standing, phase));
        kept.insert(subject, shown.clone());
        shown
    }
}

fn subject(place: &Place, poll: PollId) -> Subject {
    Subject {
        shard: place.shard_id.clone(),
        slice: place.at.slice.clone(),
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
    use crate::testing::House;
    use ballast_domain::limits::Limits;

    #[test]
    fn only_no_cache_asks_for_the_newest() {
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
    async fn only_so_many_queries_run_at_once() {
        let house = House::new(|_| {});
        let (poll, _) = house.poll().await;
        let limits = Limits {
            concurrent_queries: Some(1),
            ..Limits::default()
        };
        house.change_route(|route| route.limits = limits);
        let votes = format!("{poll}/votes");
        house.shards.set_away(true);
        let second = async {
            house.shards.is_asked(3).await;
            let refused = house.ask("GET", &poll, "").await;
            house.shards.set_away(false);
            refused
        };
        let (first, second) = tokio::join!(house.ask("GET", &votes, ""), second);
        assert_eq!(second.body["code"], "rate-limited", "{second:?}");
        assert_eq!(second.header("retry-after"), "1");
        assert_eq!(first.status, 200, "{first:?}");
        assert!(first.header("ratelimit").starts_with("\"queries\""));
        let third = house.ask("GET", &votes, "").await;
        assert_eq!(third.status, 200, "the first has given its permit back");
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
