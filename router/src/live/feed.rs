//! Feeds: one task per shard brings its counts into the live view.
//!
//! ```text
//!   first use ──► all counts, from mark 0 ──► caught up ──► changes
//!                         ▲                                    │ error
//!                         └─────────── not caught up ◄─────────┘
//! ```
//! Until a feed has caught up, no results of its shard are shown. So the first results
//! after a restart are not older than the last ones before it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_vote_shard::{ShardError, ShardResult};
use tokio::sync::watch;

use super::view::CountsOrigin;
use crate::RouterState;

/// The least time between two reads of a shard. Changes in between are read together.
const PACE: Duration = Duration::from_millis(20);
/// The pause grows by this for each poll that changed.
const PACE_PER_POLL: Duration = Duration::from_micros(10);
const PACE_MAX: Duration = Duration::from_secs(1);
/// How long a feed waits for a change before it opens its shard again.
const LET_GO: Duration = Duration::from_secs(2);
/// The pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// A feed ends after this many failures in a row. The next request starts it again.
const FAILURES_MAX: u32 = 120;

/// How long a request waits for a feed to catch up. After that it is held, like every
/// request that its shard cannot serve.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The running feeds, and whether each has caught up.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<HashMap<ShardId, watch::Receiver<bool>>>);

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, HashMap<ShardId, watch::Receiver<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RouterState {
    /// Waits until the live view has all counts of a shard. Starts the shard's feed if
    /// there is none.
    pub(crate) async fn await_feed(&self, shard: &ShardId) -> ShardResult<()> {
        let mut caught_up = self.subscribe_feed(shard);
        let waiting = caught_up.wait_for(|caught_up| *caught_up);
        match tokio::time::timeout(CATCH_UP, waiting).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(ShardError::unavailable("the live view is catching up")),
        }
    }

    /// Starts the feed of a shard if there is none.
    pub(crate) fn start_feed(&self, shard: &ShardId) {
        self.subscribe_feed(shard);
    }

    fn subscribe_feed(&self, shard: &ShardId) -> watch::Receiver<bool> {
        let mut feeds = self.parts.feeds.lock();
        if let Some(caught_up) = feeds.get(shard) {
            return caught_up.clone();
        }
        let (sender, caught_up) = watch::channel(false);
        feeds.insert(shard.clone(), caught_up.clone());
        drop(feeds);
        tokio::spawn(run_feed(self.clone(), shard.clone(), sender));
        caught_up
    }
}

async fn run_feed(state: RouterState, shard: ShardId, caught_up: watch::Sender<bool>) {
    let ending = state.wait_for_end();
    let feeding = async {
        let (mut mark, mut failures) = (0, 0);
        while failures < FAILURES_MAX {
            match apply_changes(&state, &shard, mark).await {
                Ok(Some((next, polls))) => {
                    (mark, failures) = (next, 0);
                    caught_up.send_replace(true);
                    tokio::time::sleep(pause_after(polls)).await;
                }
                Ok(None) => failures = 0,
                Err(error) => {
                    tracing::debug!(%shard, %error, "the live view cannot read the shard's changes");
                    caught_up.send_replace(false);
                    (mark, failures) = (0, failures + 1);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    tokio::select! {
        () = feeding => {}
        () = ending => {}
    }
    state.parts.feeds.lock().remove(&shard);
}

/// The pause after the counts of this many polls were read.
fn pause_after(polls: usize) -> Duration {
    let polls = u32::try_from(polls).unwrap_or(u32::MAX);
    (PACE + PACE_PER_POLL.saturating_mul(polls)).min(PACE_MAX)
}

/// Reads the counts that changed since mark `seen` into the view. Returns the next
/// mark and the number of polls, or `None` if nothing changed for a while. It does not
/// keep the shard for longer, so that a removed shard can close.
async fn apply_changes(
    state: &RouterState,
    shard: &ShardId,
    seen: u64,
) -> ShardResult<Option<(u64, usize)>> {
    let source = state.parts.shards.shard(shard)?;
    let waiting = tokio::time::timeout(LET_GO, source.tallies_since(seen)).await;
    let Ok(changed) = waiting else {
        return Ok(None);
    };
    let (next, tallies) = changed?;
    let polls = tallies.len();
    let now = state.parts.clock.now();
    for tally in tallies {
        let view = &state.parts.view;
        view.update(shard, tally, CountsOrigin::Feed, now).await;
    }
    Ok(Some((next, polls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_number_of_polls() {
        assert_eq!(pause_after(0), PACE);
        assert_eq!(pause_after(10_000), Duration::from_millis(120));
        assert_eq!(pause_after(usize::MAX), PACE_MAX);
    }
}
