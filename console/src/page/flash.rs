//! Flash messages: shown once, on the page that follows an action.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::console::Console;
use crate::session::{FLASH, Purpose, set_cookie};

/// The cookie's lifetime, in seconds.
const SECONDS: i64 = 60;

/// A flash message.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Flash {
    /// The message.
    #[serde(rename = "said")]
    pub(crate) message: String,
    /// A secret that is shown only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// Redirects to a page and shows a message there.
pub(crate) fn redirect_with_message(
    console: &Console,
    to: &str,
    message: impl Into<String>,
) -> Response {
    let message = message.into();
    redirect(
        console,
        to,
        &Flash {
            message,
            secret: None,
        },
    )
}

/// Redirects to a page and shows a secret there, once. The form's response does not
/// show it, because reloading that response would submit the form again and create
/// another secret.
pub(crate) fn redirect_with_secret(
    console: &Console,
    to: &str,
    message: impl Into<String>,
    secret: impl Into<String>,
) -> Response {
    let flash = Flash {
        message: message.into(),
        secret: Some(secret.into()),
    };
    redirect(console, to, &flash)
}

fn redirect(console: &Console, to: &str, flash: &Flash) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, to);
    }
    let sealed = console
        .cipher
        .encrypt(Purpose::Flash, flash, console.plane.entropy());
    let cookie = sealed.map(|sealed| set_cookie(FLASH, &sealed, SECONDS, console.settings.secure));
    if let Some(Ok(cookie)) = cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

/// The header that deletes the flash cookie.
pub(crate) fn forget(console: &Console) -> Option<HeaderValue> {
    HeaderValue::from_str(&set_cookie(FLASH, "", 0, console.settings.secure)).ok()
}
