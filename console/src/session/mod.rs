//! Who is looking: a login with an admin token becomes a sealed cookie.
//!
//! ```text
//!   token ──► login ──► cookie (sealed: token's id, expiry, CSRF token)
//!   request ──► cookie opened ──► is the token still good? ──► Visitor
//! ```
//! The token's secret is in no cookie and is not kept. A revoked or expired
//! token ends its sessions with the next request. The cookie survives a
//! restart of the server; a logout holds for as long as the process lives, and
//! the cookie itself is gone from the browser.

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
pub(crate) use visitor::{Turned, Visitor};

use axum::http::HeaderMap;
use axum::http::header;
use ballast_domain::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

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
