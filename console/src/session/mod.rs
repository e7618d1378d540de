//! Who is looking: a login with an admin token becomes a sealed cookie.
//!
//! ```text
//!   token ──► login ──► cookie (sealed: token's id, expiry, CSRF token)
//!   request ──► cookie opened ──► is the token still good? ──► Visitor
//! ```
//! The token's secret is in no cookie and is not kept. A revoked or expired
//! token ends its sessions with the next request, and what they watch live a
//! few seconds later. The cookie survives a restart of the server; a logout
//! holds for as long as the process lives, and the cookie itself is gone from
//! the browser.

mod attempts;
mod enter;
mod logged_out;
mod login;
mod seal;
mod visitor;

pub(crate) use attempts::Attempts;
pub(crate) use enter::enter;
pub use enter::enter_path;
pub(crate) use logged_out::Loggedout;
pub(crate) use login::{login, login_page, logout};
pub(crate) use seal::{Purpose, Seal};
pub(crate) use visitor::{Turned, Visitor, known};

use axum::http::HeaderMap;
use axum::http::header;
use ballast_domain::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::console::Console;

/// The cookie that says who it is.
pub(crate) const COOKIE: &str = "ballast_session";
/// The cookie with what is to be said on the next page, once.
pub(crate) const FLASH: &str = "ballast_flash";

/// What the cookie holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Its name, by which it is ended.
    pub(crate) id: String,
    /// What each form of this session must carry.
    pub(crate) csrf: String,
    /// The token it was made with.
    pub(crate) token_id: TokenId,
    /// When it is over, whatever happens.
    pub(crate) expires_at: Timestamp,
}

impl Session {
    /// Whether it is neither over nor ended. Its token is another matter.
    pub(crate) fn is_alive(&self, console: &Console) -> bool {
        self.expires_at > console.plane.now() && !console.logged_out.has(&self.id)
    }
}

/// A cookie of the request.
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

/// The header that sets a cookie for the console only.
pub(crate) fn set_cookie(name: &str, value: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// A path, if it is one of the console's pages that can be gone back to.
pub(crate) fn page_of_ours(path: &str) -> Option<&str> {
    let ours = path == "/console" || path.starts_with("/console/") || path.starts_with("/console?");
    let mut bytes = path.bytes();
    let plain = bytes.all(|byte| (0x21..0x7f).contains(&byte) && byte != b'\\');
    (ours && plain && !path.starts_with("/console/log")).then_some(path)
}

/// The page of ours that a request came from, as far as the browser says.
pub(crate) fn came_from(headers: &HeaderMap) -> Option<String> {
    let said = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (_, rest) = said(header::REFERER)?.split_once("://")?;
    let path = rest.strip_prefix(said(header::HOST)?)?;
    let path = path.split('#').next().unwrap_or(path);
    page_of_ours(path).map(str::to_owned)
}

/// Whether a request that changes something comes from a page of ours, as far
/// as the browser says. Forms carry a token besides.
pub(crate) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if said("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return true;
    }
    let (Some(origin), Some(host)) = (said("origin"), said("host")) else {
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
    fn one_goes_back_to_pages_of_ours_only() {
        let from = |referer| came_from(&headers(&[("referer", referer), ("host", "a:1")]));
        assert_eq!(
            from("http://a:1/console/tenants/acme?x=1#keys").as_deref(),
            Some("/console/tenants/acme?x=1")
        );
        assert_eq!(from("http://a:12/console/tenants"), None);
        assert_eq!(from("http://evil.example/console/tenants"), None);
        assert_eq!(from("http://a:1/other"), None);
        assert_eq!(came_from(&headers(&[("host", "a:1")])), None);
    }

    #[test]
    fn other_sites_are_told_apart() {
        let elsewhere = |pairs| is_from_elsewhere(&headers(pairs));
        assert!(!elsewhere(&[]));
        assert!(!elsewhere(&[("origin", "http://a:1"), ("host", "a:1")]));
        assert!(elsewhere(&[("origin", "http://b:1"), ("host", "a:1")]));
        assert!(elsewhere(&[("origin", "null"), ("host", "a:1")]));
        assert!(elsewhere(&[("sec-fetch-site", "cross-site")]));
        assert!(elsewhere(&[("sec-fetch-site", "same-site")]));
        assert!(!elsewhere(&[("sec-fetch-site", "same-origin")]));
    }
}
