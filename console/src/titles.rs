//! What polls are called, for lists that are drawn every second: kept for a
//! while, so that a shard is not asked each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ballast_domain::{PollId, Timestamp};

use crate::census::PollFigure;
use crate::console::Console;

/// How long a title is kept, in milliseconds.
const KEPT_MS: i64 = 60_000;
/// Titles that are kept; beyond it all are forgotten.
const KEPT_MAX: usize = 10_000;

/// The titles that are known, with when they were read.
#[derive(Default)]
pub(crate) struct Titles(Mutex<HashMap<PollId, (Timestamp, String)>>);

impl Titles {
    fn known(&self, poll: PollId, now: Timestamp) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, title) = known.get(&poll)?;
        (now.unix_ms() - at.unix_ms() < KEPT_MS).then(|| title.clone())
    }

    fn keep(&self, poll: PollId, now: Timestamp, title: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(poll, (now, title));
    }
}

/// What these polls are called: its ID, where a poll has no title or its shard
/// is away.
pub(crate) async fn titled<'a>(
    console: &Console,
    polls: &'a [PollFigure],
) -> Vec<(&'a PollFigure, String)> {
    let now = console.plane.now();
    let mut titled = Vec::with_capacity(polls.len());
    for poll in polls {
        let title = match console.titles.known(poll.poll, now) {
            Some(title) => title,
            None => {
                let read = read(console, poll).await;
                let title = read.unwrap_or_else(|| poll.poll.to_string());
                console.titles.keep(poll.poll, now, title.clone());
                title
            }
        };
        titled.push((poll, title));
    }
    titled
}

async fn read(console: &Console, poll: &PollFigure) -> Option<String> {
    let shard = console.plane.movers()?.shards.shard(&poll.shard).ok()?;
    let found = shard.poll(&poll.slice, poll.poll).await.ok()?;
    found.spec.title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_kept_for_a_while() {
        let titles = Titles::default();
        let poll: PollId = "poll-01m7n39dm6zs3brp6e5jk62kzf".parse().unwrap();
        let at = Timestamp::from_unix_ms;
        assert_eq!(titles.known(poll, at(0)), None);
        titles.keep(poll, at(0), "Lunch?".to_owned());
        assert_eq!(titles.known(poll, at(1)).as_deref(), Some("Lunch?"));
        assert_eq!(titles.known(poll, at(KEPT_MS)), None);
    }
}
