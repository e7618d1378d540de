//! The feeds: one task per shard that brings its counts into the live view.
//!
//! ```text
//!   first asked for ──► from mark 0: all counts ──► caught up ──► what changes
//!                            ▲                                       │ failed
//!                            └───────────── not caught up ◄──────────┘
//! ```
//! Until a feed has caught up nothing of its shard is shown: after a restart
//! the first results are no older than the last before it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_vote_shard::{ShardError, ShardResult};
use tokio::sync::watch;

use super::view::Origin;
use crate::State;

/// The least time between two looks at a shard: what changed in between is
/// taken at once.
const PACE: Duration = Duration::from_millis(20);
/// The more there was to take, the longer the rest: so long for each poll.
const PACE_PER_POLL: Duration = Duration::from_micros(10);
const PACE_MAX: Duration = Duration::from_secs(1);
/// How long a feed waits for a change before it looks for its shard again.
const LET_GO: Duration = Duration::from_secs(2);
/// How long to wait after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// After so many failures in a row a feed ends. It begins again when somebody
/// asks.
const FAILURES_MAX: u32 = 120;

/// How long whoever asks waits for a feed to catch up, before the request is
/// held like any other that its shard cannot take.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The feeds there are, and whether each has caught up.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<HashMap<ShardId, watch::Receiver<bool>>>);

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, HashMap<ShardId, watch::Receiver<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Waits until the live view knows all that a shard has counted. Its feed
    /// is started if there is none.
    pub(crate) async fn caught_up(&self, shard: &ShardId) -> ShardResult<()> {
        let mut caught_up = self.feed_of(shard);
        let waiting = caught_up.wait_for(|caught_up| *caught_up);
        match tokio::time::timeout(CATCH_UP, waiting).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(ShardError::unavailable("the live view is catching up")),
        }
    }

    /// Starts a shard's feed if there is none.
    pub(crate) fn begin_feed(&self, shard: &ShardId) {
        self.feed_of(shard);
    }

    fn feed_of(&self, shard: &ShardId) -> watch::Receiver<bool> {
        let mut feeds = self.parts.feeds.lock();
        if let Some(caught_up) = feeds.get(shard) {
            return caught_up.clone();
        }
        let (sender, caught_up) = watch::channel(false);
        feeds.insert(shard.clone(), caught_up.clone());
        drop(feeds);
        tokio::spawn(feed(self.clone(), shard.clone(), sender));
        caught_up
    }
}

async fn feed(state: State, shard: ShardId, caught_up: watch::Sender<bool>) {
    let ending = state.ending();
    let feeding = async {
        let (mut mark, mut failures) = (0, 0);
        while failures < FAILURES_MAX {
            match round(&state, &shard, mark).await {
                Ok(Some((next, polls))) => {
                    (mark, failures) = (next, 0);
                    caught_up.send_replace(true);
                    tokio::time::sleep(rest(polls)).await;
                }
                Ok(None) => failures = 0,
                Err(error) => {
                    tracing::debug!(%shard, %error, "the live view cannot follow the shard");
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

/// How long to rest after the counts of so many polls were taken.
fn rest(polls: usize) -> Duration {
    let polls = u32::try_from(polls).unwrap_or(u32::MAX);
    (PACE + PACE_PER_POLL.saturating_mul(polls)).min(PACE_MAX)
}

/// Takes what has changed; says where to go on, and how many polls it was, or
/// nothing when nothing changed for a while. A shard is not held on to for
/// longer, so that one that was removed can close.
async fn round(state: &State, shard: &ShardId, seen: u64) -> ShardResult<Option<(u64, usize)>> {
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
        view.take(shard, tally, Origin::Feed, now).await;
    }
    Ok(Some((next, polls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_rests_longer_the_more_it_took() {
        assert_eq!(rest(0), PACE);
        assert_eq!(rest(10_000), Duration::from_millis(120));
        assert_eq!(rest(usize::MAX), PACE_MAX);
    }
}
