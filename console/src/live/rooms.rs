//! Room for those who watch. Anyone may have a link to results, so its holders
//! have a room of their own: however many they are, operators see theirs live.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::{Error, ErrorCode, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pages of the console that may be live at the same time.
const OPERATORS_MAX: usize = 500;
/// Shared results that may be live at the same time, of all links.
const PUBLIC_MAX: usize = 500;
/// Of one link: the others are not shut out by it.
const LINK_MAX: usize = 250;
/// When somebody without a place should ask again, in seconds.
const AGAIN: u64 = 15;

type Links = Arc<Mutex<HashMap<String, usize>>>;

/// The rooms.
pub(crate) struct Rooms {
    operators: Arc<Semaphore>,
    public: Arc<Semaphore>,
    links: Links,
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            operators: Arc::new(Semaphore::new(OPERATORS_MAX)),
            public: Arc::new(Semaphore::new(PUBLIC_MAX)),
            links: Links::default(),
        }
    }
}

/// A place, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    link: Option<(Links, String)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((links, id)) = self.link.take() else {
            return;
        };
        let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = links.get_mut(&id) {
            *held -= 1;
            if *held == 0 {
                links.remove(&id);
            }
        }
    }
}

impl Rooms {
    /// A place for somebody who is logged in.
    pub(super) fn operator(&self) -> Result<Place> {
        let permit = self.operators.clone().try_acquire_owned();
        Ok(Place {
            _permit: permit.map_err(|_| full(OPERATORS_MAX, "pages are live already"))?,
            link: None,
        })
    }

    /// A place for somebody with a link.
    pub(super) fn public(&self, link: &str) -> Result<Place> {
        let permit = self.public.clone().try_acquire_owned();
        let permit = permit.map_err(|_| full(PUBLIC_MAX, "results are watched already"))?;
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.get(link).is_some_and(|held| *held >= LINK_MAX) {
            return Err(full(LINK_MAX, "others watch by this link already"));
        }
        *links.entry(link.to_owned()).or_default() += 1;
        Ok(Place {
            _permit: permit,
            link: Some((self.links.clone(), link.to_owned())),
        })
    }
}

fn full(most: usize, what: &str) -> Error {
    let error = Error::new(ErrorCode::Unavailable, format!("{most} {what}"));
    let next = "Load the page again for the newest figures; it is live when there is room.";
    error.next(next).retry_after(AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_with_a_link_shuts_out_nobody_else() {
        let rooms = Rooms::default();
        let crowd: Vec<_> = (0..LINK_MAX)
            .map(|_| rooms.public("one").unwrap())
            .collect();
        assert!(rooms.public("one").is_err());
        let others: Vec<_> = (LINK_MAX..PUBLIC_MAX)
            .map(|_| rooms.public("two").unwrap())
            .collect();
        assert!(rooms.public("three").is_err(), "the public room is full");
        let operators: Vec<_> = (0..OPERATORS_MAX)
            .map(|_| rooms.operator().unwrap())
            .collect();
        assert!(rooms.operator().is_err());
        drop((crowd, operators));
        assert!(rooms.public("one").is_ok() && rooms.operator().is_ok());
        drop(others);
        assert!(rooms.links.lock().unwrap().is_empty(), "nothing is left");
    }
}
