//! Describes the differences between two sides for operators.

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::difference::{self, PollDifference};
use crate::worker::{DamagedFile, MigrationSide};

/// How many polls and files are described; the rest are counted.
const NAMED_MAX: usize = 5;

/// A description of what is wrong with one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DifferenceReport {
    words: Vec<String>,
    /// The number of rows and files.
    pub(super) count: u64,
    /// Whether the described side has rows that the other side lacks or has older.
    pub(super) ahead: bool,
    /// Whether a row differs although both sides have the same version of it.
    pub(super) forged: bool,
}

impl DifferenceReport {
    /// Describes a side that cannot be read at all.
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

    /// Formats the description in one line.
    pub(super) fn to_line(&self) -> String {
        self.words.join("; ")
    }

    /// Adds damaged files.
    pub(super) fn add_files(&mut self, files: &[DamagedFile]) {
        let named = files.iter().take(NAMED_MAX);
        self.words.extend(named.map(|file| file.problem.clone()));
        self.push_remainder(files.len(), "files");
        self.count += files.len() as u64;
    }

    fn push_remainder(&mut self, all: usize, what: &str) {
        let more = all.saturating_sub(NAMED_MAX);
        if more > 0 {
            self.words.push(format!("{more} more {what}"));
        }
    }
}

/// Describes the rows in which the second side differs from the first. `damaged` are
/// polls whose stored rows on the second side do not match what was written to it.
pub(super) async fn describe_differences(
    right: &MigrationSide,
    wrong: &MigrationSide,
    slice: &SliceId,
    polls: &[PollId],
    damaged: &[PollId],
) -> DifferenceReport {
    let mut report = DifferenceReport::default();
    for (place, poll) in polls.iter().enumerate() {
        let found = difference::compare_poll(&*right.1, &*wrong.1, slice, *poll).await;
        let words = match found {
            Ok(PollDifference { count: 0, .. }) if damaged.contains(poll) => {
                report.count += 1;
                let shard = &wrong.0;
                format!("poll {poll}: the rows stored on {shard} do not match what was written")
            }
            Ok(difference) => {
                report.count += difference.count as u64;
                report.ahead |= difference.ahead;
                report.forged |= difference.forged;
                difference.to_line()
            }
            Err(error) => {
                report.count += 1;
                format!("poll {poll}: cannot read its rows: {error}")
            }
        };
        if place < NAMED_MAX {
            report.words.push(words);
        }
    }
    report.push_remainder(polls.len(), "polls");
    report
}
