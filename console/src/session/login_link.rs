//! A short-lived login link for an existing token, created with the console's key. The
//! demonstration opens the browser with it.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::tokens;
use ballast_domain::{Entropy, Error, ErrorCode, Result, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use super::login::start_session;
use super::{Purpose, TokenCipher};
use crate::console::Console;
use crate::page::error::ErrorPage;

/// The content of a login link.
#[derive(Serialize, Deserialize)]
struct LoginTicket {
    token_id: TokenId,
    until: Timestamp,
}

/// The path of a login link for a token, valid until a moment.
pub fn enter_path(
    key: [u8; 32],
    token_id: TokenId,
    until: Timestamp,
    entropy: &dyn Entropy,
) -> Option<String> {
    let ticket = LoginTicket { token_id, until };
    let sealed = TokenCipher::new(key).encrypt(Purpose::Enter, &ticket, entropy)?;
    Some(format!("/console/enter/{sealed}"))
}

/// Logs in with a link.
pub(crate) async fn enter(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, ErrorPage> {
    let plane = &console.plane;
    let ticket: Option<LoginTicket> = console.cipher.decrypt(Purpose::Enter, &sealed);
    let good = ticket.filter(|ticket| ticket.until > plane.now());
    let token = match good {
        Some(ticket) => tokens::find_active(plane, &ticket.token_id).await?,
        None => None,
    };
    let Some(token) = token else {
        let error = Error::new(
            ErrorCode::BadCredential,
            "this login link has expired or is invalid",
        );
        return Err(error.with_next_step("Log in with the token.").into());
    };
    start_session(&console, &token, "/console")
}
