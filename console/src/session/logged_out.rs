//! Sessions that were ended before their time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ballast_domain::Timestamp;

/// Sessions that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// Sessions that were ended, until they would be over anyway.
#[derive(Default)]
pub(crate) struct Loggedout(Mutex<HashMap<String, Timestamp>>);

impl Loggedout {
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

    /// Whether a session was ended.
    pub(crate) fn has(&self, id: &str) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.contains_key(id)
    }
}
