//! Makes the file of the log's next segment before it is needed, on a thread of
//! its own: neither votes nor checkpoints wait for it. If that fails the log
//! makes its own, as large as there is room for.

use std::time::Duration;

use super::committer::causes;
use super::open::Options;
use super::shared::Shared;

/// How often it looks whether one is wanted.
const LOOK: Duration = Duration::from_millis(100);

/// The thread.
pub(super) fn run(shared: &Shared, options: &Options, name: &str) {
    // It is tried once for each segment: a disk that is full is not filled to
    // the brim again and again.
    let mut tried = None;
    while !shared.linger(LOOK) {
        let store = shared.store();
        let Some(last) = store.log.wants_spare().filter(|last| tried != Some(*last)) else {
            continue;
        };
        tried = Some(last);
        if let Err(error) = store.log.make_spare(last, options.log.segment_bytes) {
            let cause = causes(&error);
            tracing::debug!(shard = name, cause, "no file for the next segment");
        }
    }
}
