//! Sessions that were logged out before they expired.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ballast_domain::Timestamp;

/// Sessions tracked.
const REMEMBERED_MAX: usize = 100_000;

/// Logged-out sessions, kept until their expiry.
#[derive(Default)]
pub(crate) struct LoggedOutSessions(Mutex<HashMap<String, Timestamp>>);

impl LoggedOutSessions {
    /// Ends a session.
    pub(crate) fn end(&self, id: &str, expires_at: Timestamp, now: Timestamp) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= REMEMBERED_MAX {
            ended.retain(|_, expires_at| *expires_at > now);
        }
        if ended.len() < REMEMBERED_MAX {
            ended.insert(id.to_owned(), expires_at);
        }
    }

    /// Whether a session was logged out.
    pub(crate) fn contains(&self, id: &str) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.contains_key(id)
    }
}
