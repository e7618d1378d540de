//! Creates the file of the log's next segment before it is needed, on its own
//! thread, so that neither votes nor checkpoints wait for it. If that fails,
//! the log creates a file as large as the disk allows.

use std::time::Duration;

use crate::embedded::background::committer::error_chain;
use crate::embedded::engine::open::ShardOptions;
use crate::embedded::engine::shared::EngineShared;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The thread's main loop.
pub(in crate::embedded) fn run(shared: &EngineShared, options: &ShardOptions, name: &str) {
    // One attempt per segment: do not fill a full disk again and again.
    let mut tried = None;
    while !shared.sleep_unless_stopping(POLL_INTERVAL) {
        let store = shared.store();
        let Some(last) = store.log.needs_spare().filter(|last| tried != Some(*last)) else {
            continue;
        };
        tried = Some(last);
        if let Err(error) = store.log.make_spare(last, options.log.segment_bytes) {
            let cause = error_chain(&error);
            tracing::debug!(shard = name, cause, "failed to create a spare segment");
        }
    }
}
