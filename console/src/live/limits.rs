//! Limits on concurrent live streams. Holders of shared links have a limit of their
//! own, so that they cannot use up the operators' streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::{Error, ErrorCode, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent live streams of operators.
const OPERATORS_MAX: usize = 500;
/// Concurrent live streams of all shared links together.
const PUBLIC_MAX: usize = 500;
/// Concurrent live streams of one shared link.
const LINK_MAX: usize = 250;
/// The `Retry-After` of a rejected stream, in seconds.
const RETRY_AFTER_SECONDS: u64 = 15;

type Links = Arc<Mutex<HashMap<String, usize>>>;

/// The limits on concurrent live streams.
pub(crate) struct StreamLimits {
    operators: Arc<Semaphore>,
    public: Arc<Semaphore>,
    links: Links,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            operators: Arc::new(Semaphore::new(OPERATORS_MAX)),
            public: Arc::new(Semaphore::new(PUBLIC_MAX)),
            links: Links::default(),
        }
    }
}

/// Permission for one live stream, released on drop.
pub(crate) struct StreamPermit {
    _permit: OwnedSemaphorePermit,
    link: Option<(Links, String)>,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Some((links, id)) = self.link.take() else {
            return;
        };
        let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = links.get_mut(&id) {
            *open -= 1;
            if *open == 0 {
                links.remove(&id);
            }
        }
    }
}

impl StreamLimits {
    /// Acquires a stream for an operator.
    pub(super) fn acquire_operator(&self) -> Result<StreamPermit> {
        let permit = self.operators.clone().try_acquire_owned();
        Ok(StreamPermit {
            _permit: permit
                .map_err(|_| limit_reached(OPERATORS_MAX, "console pages are live already"))?,
            link: None,
        })
    }

    /// Acquires a stream for the holder of a shared link.
    pub(super) fn acquire_public(&self, link: &str) -> Result<StreamPermit> {
        let permit = self.public.clone().try_acquire_owned();
        let permit =
            permit.map_err(|_| limit_reached(PUBLIC_MAX, "shared results are live already"))?;
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.get(link).is_some_and(|open| *open >= LINK_MAX) {
            return Err(limit_reached(LINK_MAX, "viewers use this link already"));
        }
        *links.entry(link.to_owned()).or_default() += 1;
        Ok(StreamPermit {
            _permit: permit,
            link: Some((self.links.clone(), link.to_owned())),
        })
    }
}

fn limit_reached(most: usize, what: &str) -> Error {
    let error = Error::new(ErrorCode::Unavailable, format!("{most} {what}"));
    let next = "Reload the page for the newest figures; it updates live again when fewer viewers are connected.";
    error.with_next_step(next).retry_after(RETRY_AFTER_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_crowded_link_leaves_room_for_others() {
        let limits = StreamLimits::default();
        let crowd: Vec<_> = (0..LINK_MAX)
            .map(|_| limits.acquire_public("one").unwrap())
            .collect();
        assert!(limits.acquire_public("one").is_err());
        let others: Vec<_> = (LINK_MAX..PUBLIC_MAX)
            .map(|_| limits.acquire_public("two").unwrap())
            .collect();
        assert!(
            limits.acquire_public("three").is_err(),
            "the public limit is reached"
        );
        let operators: Vec<_> = (0..OPERATORS_MAX)
            .map(|_| limits.acquire_operator().unwrap())
            .collect();
        assert!(limits.acquire_operator().is_err());
        drop((crowd, operators));
        assert!(limits.acquire_public("one").is_ok() && limits.acquire_operator().is_ok());
        drop(others);
        assert!(limits.links.lock().unwrap().is_empty(), "nothing is left");
    }
}
