//! A viewer's access to a live stream. A stream outlives the request that opened
//! it, so access is checked again at intervals.

use ballast_control_plane::{shares, tokens};

use crate::console::Console;
use crate::session::Session;

/// What gives a viewer access.
pub(crate) enum ViewerAccess {
    /// A login session.
    Session(Session),
    /// A shared results link, by its ID.
    Link(String),
}

impl ViewerAccess {
    /// The shared link, for a public viewer.
    pub(super) fn link(&self) -> Option<&str> {
        match self {
            Self::Session(_) => None,
            Self::Link(id) => Some(id),
        }
    }

    /// Whether access has ended. A failed check does not end it.
    pub(super) async fn is_over(&self, console: &Console) -> bool {
        match self {
            Self::Session(session) => {
                let token = tokens::find_active(&console.plane, &session.token_id).await;
                !session.is_alive(console) || matches!(token, Ok(None))
            }
            Self::Link(id) => matches!(shares::find(&console.plane, id).await, Ok(None)),
        }
    }
}
