//! What differs between two sides, in words.

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::difference::{self, Difference};
use crate::worker::{BadFile, Side};

/// Polls whose differing rows are named, and files; of more, their number.
const NAMED_MAX: usize = 5;

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    words: Vec<String>,
    /// Rows, and files.
    pub(super) count: u64,
    /// Whether the side that is told of has something that the other lacks, or
    /// newer.
    pub(super) ahead: bool,
    /// Whether something is another under the same version.
    pub(super) forged: bool,
}

impl Told {
    /// A side that cannot be read at all, and why.
    pub(super) fn unreadable(what: &str) -> Self {
        Self {
            words: vec![what.to_owned()],
            count: 1,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// In one line.
    pub(super) fn line(&self) -> String {
        self.words.join("; ")
    }

    /// These files as well.
    pub(super) fn files(&mut self, files: &[BadFile]) {
        let named = files.iter().take(NAMED_MAX);
        self.words.extend(named.map(|file| file.what.clone()));
        self.more(files.len(), "files");
        self.count += files.len() as u64;
    }

    fn more(&mut self, all: usize, what: &str) {
        let more = all.saturating_sub(NAMED_MAX);
        if more > 0 {
            self.words.push(format!("{more} more {what}"));
        }
    }
}

/// Names the rows in which the second side differs from the first. `damaged` are
/// polls of which it has stored something else than it was given.
pub(super) async fn told(
    right: &Side,
    wrong: &Side,
    slice: &SliceId,
    polls: &[PollId],
    damaged: &[PollId],
) -> Told {
    let mut told = Told::default();
    for (place, poll) in polls.iter().enumerate() {
        let found = difference::of(&*right.1, &*wrong.1, slice, *poll).await;
        let words = match found {
            Ok(Difference { count: 0, .. }) if damaged.contains(poll) => {
                told.count += 1;
                let shard = &wrong.0;
                format!("poll {poll}: what {shard} has stored is not what it was given")
            }
            Ok(difference) => {
                told.count += difference.count as u64;
                told.ahead |= difference.ahead;
                told.forged |= difference.forged;
                difference.told()
            }
            Err(error) => {
                told.count += 1;
                format!("poll {poll}: its rows cannot be read: {error}")
            }
        };
        if place < NAMED_MAX {
            told.words.push(words);
        }
    }
    told.more(polls.len(), "polls");
    told
}
