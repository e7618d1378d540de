//! A word for the next page: said once, after something was done.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::console::Console;
use crate::session::{FLASH, Purpose, set_cookie};

/// How long it may take until the next page is asked for, in seconds.
const SECONDS: i64 = 60;

/// What is said.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Flash {
    /// In words.
    pub(crate) said: String,
    /// What is shown this once and never again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// Goes to another page and says something there.
pub(crate) fn done(console: &Console, to: &str, said: impl Into<String>) -> Response {
    let said = said.into();
    leave(console, to, &Flash { said, secret: None })
}

/// Goes to another page and shows a secret there, once. It is not shown in the
/// answer to the form: loading that again would send the form again, and make
/// another.
pub(crate) fn shown_once(
    console: &Console,
    to: &str,
    said: impl Into<String>,
    secret: impl Into<String>,
) -> Response {
    let flash = Flash {
        said: said.into(),
        secret: Some(secret.into()),
    };
    leave(console, to, &flash)
}

fn leave(console: &Console, to: &str, flash: &Flash) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, to);
    }
    let sealed = console
        .seal
        .seal(Purpose::Flash, flash, console.plane.entropy());
    let cookie = sealed.map(|sealed| set_cookie(FLASH, &sealed, SECONDS, console.settings.secure));
    if let Some(Ok(cookie)) = cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

/// The cookie that forgets what was said.
pub(crate) fn forget(console: &Console) -> Option<HeaderValue> {
    HeaderValue::from_str(&set_cookie(FLASH, "", 0, console.settings.secure)).ok()
}
