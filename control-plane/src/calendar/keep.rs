//! Asks every shard which polls expect many voters, again and again.

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_domain::shard::ShardState;

use super::{Awaited, Calendar};
use crate::plane::ControlPlane;

/// How often shards are asked. An opening that is nearer than this is seen a
/// little late; what is expected is known long before.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// And as long as one has told nothing yet: moves wait for it.
const ASK_SOON: Duration = Duration::from_millis(250);
/// Polls that one shard tells, at the most: those that close first.
const TOLD_MAX: usize = 1_000;

/// Keeps the calendar until it is dropped.
pub async fn keep(plane: ControlPlane, calendar: Arc<Calendar>) {
    loop {
        let all_told = look(&plane, &calendar).await;
        tokio::time::sleep(if all_told { ASK_AGAIN } else { ASK_SOON }).await;
    }
}

/// Asks every shard once; whether all that serve have ever told.
pub async fn look(plane: &ControlPlane, calendar: &Calendar) -> bool {
    let settings = plane.settings();
    let snapshot = plane.fleet().snapshot();
    let mut told = Vec::new();
    for shard in snapshot.shards().iter().map(|shard| &shard.value) {
        let least = settings.calendar.audience_min;
        let awaited = match shard.state {
            ShardState::Down => None,
            _ => ask(plane, &shard.shard_id, least).await,
        };
        told.push((shard.shard_id.clone(), awaited));
    }
    calendar.take(told, settings.calendar.ready);
    let shards = snapshot.shards().iter().map(|shard| &shard.value);
    let mut serving = shards.filter(|shard| shard.state != ShardState::Down);
    serving.all(|shard| calendar.knows(&shard.shard_id))
}

async fn ask(plane: &ControlPlane, shard: &ShardId, least: u64) -> Option<Vec<Awaited>> {
    let shard = plane.movers()?.shards.shard(shard).ok()?;
    let polls = shard.awaited(least, TOLD_MAX).await.ok()?;
    let awaited = polls
        .into_iter()
        .map(|(slice, poll)| Awaited::of(slice, &poll));
    Some(awaited.collect())
}
