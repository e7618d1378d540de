//! Polls every shard for polls that expect many voters.

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_domain::shard::ShardState;

use super::{Calendar, ExpectedPoll};
use crate::plane::ControlPlane;

/// Polling interval. An opening sooner than this is noticed a little late, but
/// expected voters are known long before.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Polling interval while a shard has not reported yet: migrations wait for it.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of polls reported per shard: those that close first.
const REPORTED_POLLS_MAX: usize = 1_000;

/// Updates the calendar forever.
pub async fn run(plane: ControlPlane, calendar: Arc<Calendar>) {
    loop {
        let all_reported = ask_shards(&plane, &calendar).await;
        tokio::time::sleep(if all_reported {
            POLL_INTERVAL
        } else {
            FIRST_POLL_INTERVAL
        })
        .await;
    }
}

/// Polls every shard once; returns whether all serving shards have reported.
pub async fn ask_shards(plane: &ControlPlane, calendar: &Calendar) -> bool {
    let settings = plane.settings();
    let snapshot = plane.fleet().snapshot();
    let mut reports = Vec::new();
    for shard in snapshot.shards().iter().map(|shard| &shard.value) {
        let least = settings.calendar.audience_min;
        let awaited = match shard.state {
            ShardState::Down => None,
            _ => fetch_expected_polls(plane, &shard.shard_id, least).await,
        };
        reports.push((shard.shard_id.clone(), awaited));
    }
    calendar.apply_reports(reports, settings.calendar.ready);
    let shards = snapshot.shards().iter().map(|shard| &shard.value);
    let mut serving = shards.filter(|shard| shard.state != ShardState::Down);
    serving.all(|shard| calendar.has_report_from(&shard.shard_id))
}

async fn fetch_expected_polls(
    plane: &ControlPlane,
    shard: &ShardId,
    least: u64,
) -> Option<Vec<ExpectedPoll>> {
    let shard = plane.migration_backends()?.shards.shard(shard).ok()?;
    let polls = shard.awaited_polls(least, REPORTED_POLLS_MAX).await.ok()?;
    let awaited = polls
        .into_iter()
        .map(|(slice, poll)| ExpectedPoll::from_poll(slice, &poll));
    Some(awaited.collect())
}
