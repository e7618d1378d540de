//! A word for the next page: said once, after something was done.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::console::Console;
use crate::session::{FLASH, Purpose, set_cookie};

/// How long it may take until the next page is asked for, in seconds.
const SECONDS: i64 = 60;

/// What is said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Flash(pub(crate) String);

/// Goes to another page and says something there.
pub(crate) fn done(console: &Console, to: &str, said: impl Into<String>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, to);
    }
    let flash = Flash(said.into());
    let sealed = console
        .seal
        .seal(Purpose::Flash, &flash, console.plane.entropy());
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
