//! Login and logout.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_control_plane::tokens;
use ballast_domain::error::ErrorCode;
use ballast_domain::token::AdminToken;
use ballast_domain::{Entropy, Error, Result};
use maud::{Markup, html};

use super::visitor::{address, load_visitor};
use super::{COOKIE, Purpose, Session, is_cross_site, safe_console_path, set_cookie};
use crate::console::Console;
use crate::fields::Fields;
use crate::form_submission::FormSubmission;
use crate::page::error::ErrorPage;
use crate::page::layout;

/// The message after a form was submitted with an expired session.
const LOST: &str = "Your session has expired, so the form was not processed and nothing was done. Log in and submit it again.";

/// The page with the login form.
pub(crate) async fn login_page(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, ErrorPage> {
    let (parts, _) = request.into_parts();
    let query = Fields::from_query(&parts.uri);
    if load_visitor(&console, &parts).await?.is_some() {
        return Ok(redirect_to(&next_page(&query)));
    }
    let lost = query.ticked("lost").then_some(LOST);
    Ok(layout::outside("Log in", &form(&next_page(&query), lost)).into_response())
}

/// Authenticates a token and sets the session cookie.
pub(crate) async fn login(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, ErrorPage> {
    let (parts, body) = request.into_parts();
    if is_cross_site(&parts.headers) {
        let detail = "the login form was submitted from another site";
        return Err(Error::new(ErrorCode::ForgedForm, detail).into());
    }
    let form_fields = Fields::read_body(body).await?;
    let (plane, address) = (&console.plane, address(&parts));
    if let Some(seconds) = console.login_failures.wait(address, plane.now()) {
        let refused = format!(
            "Too many logins from your address have failed. Wait {seconds} s, then try again."
        );
        let page = layout::outside("Log in", &form(&next_page(&form_fields), Some(&refused)));
        let again = [(header::RETRY_AFTER, seconds.to_string())];
        return Ok((StatusCode::TOO_MANY_REQUESTS, again, page).into_response());
    }
    let shown = form_fields.text("token").unwrap_or_default();
    let Some(token) = tokens::authenticate(plane, shown.trim()).await? else {
        console.login_failures.record_failure(address, plane.now());
        tracing::info!(?address, "console login failed");
        let refused = "Invalid token: it is mistyped, unknown, expired or revoked.";
        let page = layout::outside("Log in", &form(&next_page(&form_fields), Some(refused)));
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    console.login_failures.clear(address);
    tracing::info!(token = %token.value.token_id, ?address, "logged in to the console");
    start_session(&console, &token.value, &next_page(&form_fields))
}

/// Creates a session for a token's holder and redirects to a page.
pub(super) fn start_session(
    console: &Console,
    token: &AdminToken,
    page: &str,
) -> Result<Response, ErrorPage> {
    let plane = &console.plane;
    let seconds = i64::try_from(console.settings.session.as_secs()).unwrap_or(i64::MAX);
    let latest = plane.now().plus_seconds(seconds);
    let session = Session {
        id: random_hex(plane.entropy()),
        csrf: random_hex(plane.entropy()),
        token_id: token.token_id.clone(),
        expires_at: token.expires_at.unwrap_or(latest).min(latest),
    };
    let sealed = console
        .cipher
        .encrypt(Purpose::Session, &session, plane.entropy())
        .ok_or_else(|| Error::internal("log in", "cookie encryption failed"))?;
    let mut response = redirect_to(page);
    let cookie = set_cookie(COOKIE, &sealed, seconds, console.settings.secure);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Ends the session.
pub(crate) async fn logout(State(console): State<Console>, act: FormSubmission) -> Response {
    let session = &act.visitor.session;
    let now = console.plane.now();
    console.logged_out.end(&session.id, session.expires_at, now);
    let mut response = redirect_to("/console/login");
    let gone = set_cookie(COOKIE, "", 0, console.settings.secure);
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().append(header::SET_COOKIE, gone);
    }
    response
}

/// Sixteen random bytes in hexadecimal.
fn random_hex(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The page after login: one of the console's pages only.
fn next_page(fields: &Fields) -> String {
    let query = fields.text("next").unwrap_or_default();
    safe_console_path(query).unwrap_or("/console").to_owned()
}

fn redirect_to(path: &str) -> Response {
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
                "create more with " code { "ballast token create" } "."
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
    fn login_redirects_only_to_console_pages() {
        let goes = |text: &str| next_page(&Fields::from_pairs(&[("next", text)]));
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
