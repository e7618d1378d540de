//! The calendar of polls: lanes to add before a poll opens, and when its tenant must not be
//! moved.
//!
//! ```text
//!        widen        opens                                closes
//!   ───────┼────────────┼───────────────────────────────────┼──────────►
//!          ├─ frozen ─────── rush ─┤            ├── rush ── frozen ─┤
//! ```
//! Most people vote when a poll opens and just before it closes. In between a long poll is
//! quiet, and its tenant may be moved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ballast_domain::PollId;
use ballast_domain::bounds::{LANES_DEFAULT, LANES_MAX, POLL_COUNTERS_MAX};
use ballast_domain::clock::Timestamp;
use ballast_domain::id::TenantId;

use crate::format::rounded;
use crate::plan::TimeSpan;

/// A scheduled poll.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduledPoll {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// When it opens.
    pub opens_at: Timestamp,
    /// When it closes.
    pub closes_at: Timestamp,
    /// The number of expected voters.
    pub audience: u64,
    /// The number of items.
    pub items: usize,
}

/// Settings for preparing polls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PollReadiness {
    /// The share of the expected voters that vote in one rush.
    pub rush_share: f64,
    /// The duration of a rush.
    pub rush_seconds: i64,
    /// The votes per second that one lane is rated at.
    pub votes_per_lane: f64,
    /// How long before the opening lanes are added and migrations end.
    pub lead_seconds: i64,
    /// How long after the closing migrations may begin again.
    pub rest_seconds: i64,
}

impl Default for PollReadiness {
    fn default() -> Self {
        Self {
            rush_share: 0.3,
            rush_seconds: 600,
            votes_per_lane: 500.0,
            lead_seconds: 3_600,
            rest_seconds: 900,
        }
    }
}

/// The preparation of a poll before it opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollPreparation {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// The votes per second expected in its rush.
    pub votes_per_second: f64,
    /// The lanes it should have.
    pub lanes: u16,
    /// When to add lanes.
    pub widen_at: Timestamp,
    /// Votes per second above the capacity of the maximum number of lanes; 0 if none.
    pub short_by: f64,
}

/// The preparations for polls that have not closed, soonest first.
#[must_use]
pub fn preparations(
    events: &[ScheduledPoll],
    ready: &PollReadiness,
    now: Timestamp,
) -> Vec<PollPreparation> {
    let mut found: Vec<PollPreparation> = events
        .iter()
        .filter(|event| now < event.closes_at)
        .map(|event| prepare(event, ready, now))
        .collect();
    found.sort_by(|one, two| {
        let key = |of: &PollPreparation| (of.widen_at, of.tenant_id.clone());
        key(one).cmp(&key(two))
    });
    found
}

fn prepare(event: &ScheduledPoll, ready: &PollReadiness, now: Timestamp) -> PollPreparation {
    // In a poll shorter than a rush, everyone votes in the rush.
    let open_seconds = (event.closes_at.unix_ms() - event.opens_at.unix_ms()).max(1_000) / 1_000;
    let rush = ready.rush_seconds.clamp(1, open_seconds);
    let share = if open_seconds <= ready.rush_seconds {
        1.0
    } else {
        ready.rush_share.clamp(0.0, 1.0)
    };
    let votes_per_second = event.audience as f64 * share / rush as f64;
    let wanted = (votes_per_second / ready.votes_per_lane.max(1.0)).ceil();
    let most = (POLL_COUNTERS_MAX / event.items.max(1)).clamp(1, LANES_MAX.into());
    // The cast saturates; at least the default number of lanes.
    let lanes = (wanted as usize).max(LANES_DEFAULT.into()).min(most);
    PollPreparation {
        tenant_id: event.tenant_id.clone(),
        poll_id: event.poll_id,
        votes_per_second,
        lanes: u16::try_from(lanes).unwrap_or(LANES_MAX),
        widen_at: event.opens_at.plus_seconds(-ready.lead_seconds).max(now),
        short_by: (votes_per_second - lanes as f64 * ready.votes_per_lane).max(0.0),
    }
}

/// Formats a preparation with its reasons, like a plan.
#[must_use]
pub fn format_preparation(
    event: &ScheduledPoll,
    prepared: &PollPreparation,
    ready: &PollReadiness,
    lanes: u16,
) -> String {
    let ScheduledPoll {
        tenant_id,
        poll_id,
        opens_at,
        closes_at,
        audience,
        ..
    } = event;
    let voters = rounded(*audience as f64);
    let (rate, lane) = (
        rounded(prepared.votes_per_second),
        rounded(ready.votes_per_lane),
    );
    let to = prepared.lanes;
    let mut text = format!(
        "Finding   {poll_id} of {tenant_id} expects {voters} voters from {opens_at} to {closes_at}\n\
         Evidence  In its rush that is {rate} votes/s, and a lane is rated at {lane} votes/s\n\
         Cause     {lanes} lanes are too few for that rate\n\
         Cure      Change the lanes of {poll_id} from {lanes} to {to} before it opens\n"
    );
    if prepared.short_by > 0.0 {
        let short = rounded(prepared.short_by);
        text.push_str(&format!(
            "          That is the maximum: {short} votes/s above it are queued, and none is lost\n"
        ));
    }
    text.push_str("If not    If the counter still gets hot, it is detected as a hot counter.\n");
    text
}

/// When each tenant must not be moved: around the opening and the closing of its polls.
/// Overlapping spans are merged.
#[must_use]
pub fn freezes(
    events: &[ScheduledPoll],
    ready: &PollReadiness,
) -> BTreeMap<TenantId, Vec<TimeSpan>> {
    let mut found: BTreeMap<TenantId, Vec<TimeSpan>> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.opens_at < event.closes_at)
    {
        let opening = TimeSpan {
            from: event.opens_at.plus_seconds(-ready.lead_seconds),
            until: event.opens_at.plus_seconds(ready.rush_seconds),
        };
        let closing = TimeSpan {
            from: event.closes_at.plus_seconds(-ready.rush_seconds),
            until: event.closes_at.plus_seconds(ready.rest_seconds),
        };
        let spans = found.entry(event.tenant_id.clone()).or_default();
        spans.extend([opening, closing]);
    }
    for spans in found.values_mut() {
        *spans = merge_overlapping(std::mem::take(spans));
    }
    found
}

fn merge_overlapping(mut spans: Vec<TimeSpan>) -> Vec<TimeSpan> {
    spans.sort();
    let mut joined: Vec<TimeSpan> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.from <= last.until => last.until = last.until.max(span.until),
            _ => joined.push(span),
        }
    }
    joined
}
