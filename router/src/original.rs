//! What a proxy says of the request it asks about, when it resolves a key for
//! it.
//!
//! nginx (by configuration) puts that request's URI into `X-Original-URI`,
//! Traefik into `X-Forwarded-Uri`, and Envoy appends it to the path:
//! `/resolve/polls/…`. Anybody can send these, so nothing is believed because
//! of them: they are further places for a key, which must be good wherever it
//! was found, and for the poll, which only picks among the tenant's own slices.

use axum::http::{HeaderMap, Uri};
use ballast_domain::poll::PollId;

/// Where resolving is.
const RESOLVE: &str = "/resolve";
/// The headers that name the URI.
const HEADERS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];

/// The URIs that a proxy names, the one in the path first.
#[derive(Debug, Default)]
pub(crate) struct Original<'r>(Vec<&'r str>);

impl<'r> Original<'r> {
    /// What is said of the original; nothing, unless this is a question.
    pub(crate) fn of(uri: &'r Uri, headers: &'r HeaderMap) -> Self {
        match uri.path().strip_prefix(RESOLVE) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let told = HEADERS.iter().filter_map(|name| headers.get(*name));
                let told = told.filter_map(|value| value.to_str().ok());
                let appended = (!rest.is_empty()).then_some(rest);
                Self(appended.into_iter().chain(told).collect())
            }
            _ => Self::default(),
        }
    }

    /// Its query strings. (That of an appended URI is the question's own.)
    pub(crate) fn queries(&self) -> impl Iterator<Item = &'r str> {
        self.0
            .iter()
            .filter_map(|uri| uri.split_once('?').map(|(_, query)| query))
    }

    /// The poll it is about: what follows `polls` in the path. What is no
    /// poll's id there may mean something to others, and is none.
    pub(crate) fn poll(&self) -> Option<PollId> {
        self.0.iter().find_map(|uri| {
            let path = uri.split_once('?').map_or(*uri, |(path, _)| path);
            let mut segments = path.split('/').peekable();
            while let Some(segment) = segments.next() {
                if let ("polls", Some(Ok(poll))) = (segment, segments.peek().map(|id| id.parse())) {
                    return Some(poll);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: &str = "poll-01kb5q6s3ww3q0v9d1nqz8t5ma";

    fn poll(uri: &str, told: Option<&str>) -> Option<String> {
        let told = told.map(|told| ("x-forwarded-uri".parse().unwrap(), told.parse().unwrap()));
        let headers = told.into_iter().collect();
        let uri = uri.parse().unwrap();
        let poll = Original::of(&uri, &headers).poll();
        poll.map(|poll| poll.to_string())
    }

    #[test]
    fn the_poll_is_found_in_the_path_and_nowhere_else() {
        let of_poll = format!("/v1/polls/{POLL}/votes?x=/polls/nonsense");
        let found = Some(POLL.to_owned());
        assert_eq!(poll(&format!("/resolve{of_poll}"), None), found);
        assert_eq!(poll("/resolve", Some(&of_poll)), found);
        assert_eq!(poll("/resolve/polls", Some(&of_poll)), found);
        for none in [
            "/resolve/polls",
            "/resolve/polls/mine",
            "/resolve/polls/polls/",
            &format!("/resolve/items/{POLL}"),
            &format!("/resolve/?x=/polls/{POLL}"),
            &format!("/resolved/polls/{POLL}"),
            &format!("/polls/{POLL}"),
        ] {
            assert_eq!(poll(none, None), None, "{none}");
        }
        assert_eq!(poll("/elsewhere", Some(&of_poll)), None);
    }
}
