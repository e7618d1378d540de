//! A cache of poll titles, for lists that are rendered every second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ballast_domain::{PollId, Timestamp};

use crate::census::PollFigure;
use crate::console::Console;

/// How long a title is cached, in milliseconds.
const TTL_MS: i64 = 60_000;
/// Cached titles; the cache is cleared beyond this.
const TITLES_MAX: usize = 10_000;

/// Cached titles with the time they were read.
#[derive(Default)]
pub(crate) struct TitleCache(Mutex<HashMap<PollId, (Timestamp, String)>>);

impl TitleCache {
    fn get(&self, poll: PollId, now: Timestamp) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, title) = known.get(&poll)?;
        (now.unix_ms() - at.unix_ms() < TTL_MS).then(|| title.clone())
    }

    fn insert(&self, poll: PollId, now: Timestamp, title: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TITLES_MAX {
            known.clear();
        }
        known.insert(poll, (now, title));
    }
}

/// The titles of these polls; a poll's ID if it has no title or its shard cannot be read.
pub(crate) async fn load_titles<'a>(
    console: &Console,
    polls: &'a [PollFigure],
) -> Vec<(&'a PollFigure, String)> {
    let now = console.plane.now();
    let mut titled = Vec::with_capacity(polls.len());
    for poll in polls {
        let title = match console.titles.get(poll.poll, now) {
            Some(title) => title,
            None => {
                let read = read_title(console, poll).await;
                let title = read.unwrap_or_else(|| poll.poll.to_string());
                console.titles.insert(poll.poll, now, title.clone());
                title
            }
        };
        titled.push((poll, title));
    }
    titled
}

async fn read_title(console: &Console, poll: &PollFigure) -> Option<String> {
    let shard = console
        .plane
        .migration_backends()?
        .shards
        .shard(&poll.shard)
        .ok()?;
    let found = shard.poll(&poll.slice, poll.poll).await.ok()?;
    found.spec.title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_cached_until_its_ttl() {
        let titles = TitleCache::default();
        let poll: PollId = "poll-01m7n39dm6zs3brp6e5jk62kzf".parse().unwrap();
        let at = Timestamp::from_unix_ms;
        assert_eq!(titles.get(poll, at(0)), None);
        titles.insert(poll, at(0), "Lunch?".to_owned());
        assert_eq!(titles.get(poll, at(1)).as_deref(), Some("Lunch?"));
        assert_eq!(titles.get(poll, at(TTL_MS)), None);
    }
}
