//! Logging in and out.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::tokens;
use ballast_domain::error::ErrorCode;
use ballast_domain::token::AdminToken;
use ballast_domain::{Entropy, Error, Result};
use maud::{Markup, html};

use super::visitor::{address, known};
use super::{COOKIE, Purpose, Session, is_from_elsewhere, page_of_ours, set_cookie};
use crate::act::Act;
use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::Broken;
use crate::page::layout;

/// What somebody is told whose form came when the session was over.
const LOST: &str = "Your session is over. What you sent was not taken: nothing was done. Log in, and send it again.";

/// The page with the login form.
pub(crate) async fn login_page(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, Broken> {
    let (parts, _) = request.into_parts();
    let asked = Fields::of_query(&parts.uri);
    if known(&console, &parts).await?.is_some() {
        return Ok(to(&next(&asked)));
    }
    let lost = asked.ticked("lost").then_some(LOST);
    Ok(layout::outside("Log in", &form(&next(&asked), lost)).into_response())
}

/// Takes a token and gives a cookie.
pub(crate) async fn login(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, Broken> {
    let (parts, body) = request.into_parts();
    if is_from_elsewhere(&parts.headers) {
        let detail = "the login was sent from another site";
        return Err(Error::new(ErrorCode::ForgedForm, detail).into());
    }
    let given = Fields::of_body(body).await?;
    let (plane, address) = (&console.plane, address(&parts));
    if let Some(seconds) = console.attempts.wait(address, plane.now()) {
        let refused = format!(
            "Too many logins from your address have failed. Wait {seconds} s, then try again."
        );
        let page = layout::outside("Log in", &form(&next(&given), Some(&refused)));
        let again = [(header::RETRY_AFTER, seconds.to_string())];
        return Ok((StatusCode::TOO_MANY_REQUESTS, again, page).into_response());
    }
    let shown = given.text("token").unwrap_or_default();
    let Some(token) = tokens::authenticate(plane, shown.trim()).await? else {
        console.attempts.failed(address, plane.now());
        tracing::info!(?address, "a login to the console failed");
        let refused = "This token does not work here: it is mistyped, unknown, expired or revoked.";
        let page = layout::outside("Log in", &form(&next(&given), Some(refused)));
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    console.attempts.succeeded(address);
    tracing::info!(token = %token.value.token_id, ?address, "logged in to the console");
    admitted(&console, &token.value, &next(&given))
}

/// Gives the holder of a token a session, and leads to a page.
pub(super) fn admitted(
    console: &Console,
    token: &AdminToken,
    page: &str,
) -> Result<Response, Broken> {
    let plane = &console.plane;
    let seconds = i64::try_from(console.settings.session.as_secs()).unwrap_or(i64::MAX);
    let latest = plane.now().plus_seconds(seconds);
    let session = Session {
        id: drawn(plane.entropy()),
        csrf: drawn(plane.entropy()),
        token_id: token.token_id.clone(),
        expires_at: token.expires_at.unwrap_or(latest).min(latest),
    };
    let sealed = console
        .seal
        .seal(Purpose::Session, &session, plane.entropy())
        .ok_or_else(|| Error::internal("log in", "the cookie could not be sealed"))?;
    let mut response = to(page);
    let cookie = set_cookie(COOKIE, &sealed, seconds, console.settings.secure);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Ends the session.
pub(crate) async fn logout(State(console): State<Console>, act: Act) -> Response {
    let session = &act.visitor.session;
    let now = console.plane.now();
    console.logged_out.end(&session.id, session.expires_at, now);
    let mut response = to("/console/login");
    let gone = set_cookie(COOKIE, "", 0, console.settings.secure);
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().append(header::SET_COOKIE, gone);
    }
    response
}

/// Sixteen random bytes in hexadecimal.
fn drawn(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where to go after the login: a page of ours, and nothing else.
fn next(fields: &Fields) -> String {
    let asked = fields.text("next").unwrap_or_default();
    page_of_ours(asked).unwrap_or("/console").to_owned()
}

fn to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

fn form(next: &str, refused: Option<&str>) -> Markup {
    html! {
        form class="login card" method="post" action="/console/login" {
            h1 { "Log in" }
            p class="muted" {
                "With an admin token: " code { "bl_admin_…" } ". The first start of Ballast printed one; "
                "more are made with " code { "ballast token create" } "."
            }
            @if let Some(refused) = refused {
                p class="note bad" role="alert" { (refused) }
            }
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="current-password"
                required autofocus spellcheck="false" maxlength="200";
            input type="hidden" name="next" value=(next);
            button class="primary" type="submit" { "Log in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_login_one_stays_in_the_console() {
        let goes = |text: &str| next(&Fields::from_pairs(&[("next", text)]));
        assert_eq!(goes("/console/tenants?q=a"), "/console/tenants?q=a");
        assert_eq!(goes("/console?x=1"), "/console?x=1");
        for bad in [
            "",
            "https://evil.example/",
            "//evil.example/console/",
            "/consoleevil",
            "/console/\r\nset-cookie: a=b",
            "/console/\\evil",
            "/console/login",
            "/console/logout",
        ] {
            assert_eq!(goes(bad), "/console", "{bad:?}");
        }
    }
}
