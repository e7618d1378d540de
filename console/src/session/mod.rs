//! Sessions: a login with an admin token yields an encrypted cookie.
//!
//! ```text
//!   token ──► login ──► cookie (encrypted: token's id, expiry, CSRF token)
//!   request ──► cookie decrypted ──► is the token still valid? ──► Visitor
//! ```
//! The token's secret is not stored, neither in the cookie nor on the server. A revoked
//! or expired token ends its sessions at the next request, and their live streams within
//! seconds. The cookie survives a server restart. A logout deletes the cookie from the
//! browser; the server rejects the session until the server restarts.

mod cipher;
mod logged_out;
mod login;
mod login_failures;
mod login_link;
mod visitor;

pub(crate) use cipher::{Purpose, TokenCipher};
pub(crate) use logged_out::LoggedOutSessions;
pub(crate) use login::{login, login_page, logout};
pub(crate) use login_failures::LoginFailures;
pub(crate) use login_link::enter;
pub use login_link::enter_path;
pub(crate) use visitor::{AccessDenied, Visitor, load_visitor};

use axum::http::HeaderMap;
use axum::http::header;
use ballast_domain::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::console::Console;

/// The session cookie.
pub(crate) const COOKIE: &str = "ballast_session";
/// The cookie with the flash message.
pub(crate) const FLASH: &str = "ballast_flash";

/// The content of the session cookie.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Its ID, by which it is logged out.
    pub(crate) id: String,
    /// The CSRF token of this session's forms.
    pub(crate) csrf: String,
    /// The token that logged in.
    pub(crate) token_id: TokenId,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
}

impl Session {
    /// Whether it is neither expired nor logged out. Does not check its token.
    pub(crate) fn is_alive(&self, console: &Console) -> bool {
        self.expires_at > console.plane.now() && !console.logged_out.contains(&self.id)
    }
}

/// A cookie of the request, by name.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// The `Set-Cookie` value, restricted to the console's paths.
pub(crate) fn set_cookie(name: &str, value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// The path, if it is a console page that a redirect may target.
pub(crate) fn safe_console_path(path: &str) -> Option<&str> {
    let ours = path == "/console" || path.starts_with("/console/") || path.starts_with("/console?");
    let mut bytes = path.bytes();
    let plain = bytes.all(|byte| (0x21..0x7f).contains(&byte) && byte != b'\\');
    (ours && plain && !path.starts_with("/console/log")).then_some(path)
}

/// The console page in the `Referer` header, if any.
pub(crate) fn referring_page(headers: &HeaderMap) -> Option<String> {
    let header_text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (_, rest) = header_text(header::REFERER)?.split_once("://")?;
    let path = rest.strip_prefix(header_text(header::HOST)?)?;
    let path = path.split('#').next().unwrap_or(path);
    safe_console_path(path).map(str::to_owned)
}

/// Whether the browser reports that a request comes from another site. Forms also carry a
/// CSRF token.
pub(crate) fn is_cross_site(headers: &HeaderMap) -> bool {
    let header_text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header_text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return true;
    }
    let (Some(origin), Some(host)) = (header_text("origin"), header_text("host")) else {
        return false;
    };
    let origin = origin.split_once("://").map_or(origin, |(_, host)| host);
    !origin.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let sent = headers(&[
            ("cookie", "a=1; ballast_session=xyz; b=2"),
            ("cookie", "c=3"),
        ]);
        assert_eq!(cookie(&sent, COOKIE), Some("xyz"));
        assert_eq!(cookie(&sent, "c"), Some("3"));
        assert_eq!(cookie(&sent, "session"), None);
    }

    #[test]
    fn only_console_pages_are_redirect_targets() {
        let from = |referer| referring_page(&headers(&[("referer", referer), ("host", "a:1")]));
        assert_eq!(
            from("http://a:1/console/tenants/acme?x=1#keys").as_deref(),
            Some("/console/tenants/acme?x=1")
        );
        assert_eq!(from("http://a:12/console/tenants"), None);
        assert_eq!(from("http://evil.example/console/tenants"), None);
        assert_eq!(from("http://a:1/other"), None);
        assert_eq!(referring_page(&headers(&[("host", "a:1")])), None);
    }

    #[test]
    fn cross_site_requests_are_detected() {
        let elsewhere = |pairs| is_cross_site(&headers(pairs));
        assert!(!elsewhere(&[]));
        assert!(!elsewhere(&[("origin", "http://a:1"), ("host", "a:1")]));
        assert!(elsewhere(&[("origin", "http://b:1"), ("host", "a:1")]));
        assert!(elsewhere(&[("origin", "null"), ("host", "a:1")]));
        assert!(elsewhere(&[("sec-fetch-site", "cross-site")]));
        assert!(elsewhere(&[("sec-fetch-site", "same-site")]));
        assert!(!elsewhere(&[("sec-fetch-site", "same-origin")]));
    }
}
