//! A link that logs in: made by whoever has the console's key, for a token that
//! is known, good for a few minutes. A demonstration opens on it.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::tokens;
use ballast_domain::{Entropy, Error, ErrorCode, Result, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use super::login::admitted;
use super::{Purpose, Seal};
use crate::console::Console;
use crate::page::error::Broken;

/// What such a link says.
#[derive(Serialize, Deserialize)]
struct Ticket {
    token_id: TokenId,
    until: Timestamp,
}

/// The path of a link that logs in as the holder of a token, until a moment.
pub fn enter_path(
    key: [u8; 32],
    token_id: TokenId,
    until: Timestamp,
    entropy: &dyn Entropy,
) -> Option<String> {
    let ticket = Ticket { token_id, until };
    let sealed = Seal::new(key).seal(Purpose::Enter, &ticket, entropy)?;
    Some(format!("/console/enter/{sealed}"))
}

/// Logs in.
pub(crate) async fn enter(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, Broken> {
    let plane = &console.plane;
    let ticket: Option<Ticket> = console.seal.open(Purpose::Enter, &sealed);
    let good = ticket.filter(|ticket| ticket.until > plane.now());
    let token = match good {
        Some(ticket) => tokens::working(plane, &ticket.token_id).await?,
        None => None,
    };
    let Some(token) = token else {
        let error = Error::new(
            ErrorCode::BadCredential,
            "this link does not log in any more",
        );
        return Err(error.next("Log in with the token.").into());
    };
    admitted(&console, &token, "/console")
}
