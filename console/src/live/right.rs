//! By what right somebody watches. A stream outlives the request that began
//! it, so it is looked at again and again whether the right still holds.

use ballast_control_plane::{shares, tokens};

use crate::console::Console;
use crate::session::Session;

/// Why somebody may watch.
pub(crate) enum Right {
    /// A login that has not ended.
    Session(Session),
    /// A link to results, by its name, that was not taken back.
    Link(String),
}

impl Right {
    /// The link that somebody watches by, who may be anyone.
    pub(super) fn link(&self) -> Option<&str> {
        match self {
            Self::Session(_) => None,
            Self::Link(id) => Some(id),
        }
    }

    /// Whether it holds no more. That it cannot be judged right now is no
    /// reason to go.
    pub(super) async fn is_over(&self, console: &Console) -> bool {
        match self {
            Self::Session(session) => {
                let token = tokens::working(&console.plane, &session.token_id).await;
                !session.is_alive(console) || matches!(token, Ok(None))
            }
            Self::Link(id) => matches!(shares::find(&console.plane, id).await, Ok(None)),
        }
    }
}
