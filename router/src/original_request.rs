//! The original request that a proxy resolves a key for.
//!
//! nginx (if configured so) sends its URI in `X-Original-URI`, Traefik in
//! `X-Forwarded-Uri`, and Envoy appends it to the path: `/resolve/polls/…`. Any
//! client can send these, so they grant nothing: they are only additional places to
//! find a key, which is checked as usual, and a poll, which only selects among the
//! tenant's own slices.

use axum::http::{HeaderMap, Uri};
use ballast_domain::poll::PollId;

/// The path of a resolve request.
const RESOLVE: &str = "/resolve";
/// The headers with the original URI.
const HEADERS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];

/// The original URIs, the one in the path first.
#[derive(Debug, Default)]
pub(crate) struct OriginalRequest<'r>(Vec<&'r str>);

impl<'r> OriginalRequest<'r> {
    /// Reads the original URIs. A request that is not a resolve request has none.
    pub(crate) fn from_request(uri: &'r Uri, headers: &'r HeaderMap) -> Self {
        match uri.path().strip_prefix(RESOLVE) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let values = HEADERS.iter().filter_map(|name| headers.get(*name));
                let values = values.filter_map(|value| value.to_str().ok());
                let appended = (!rest.is_empty()).then_some(rest);
                Self(appended.into_iter().chain(values).collect())
            }
            _ => Self::default(),
        }
    }

    /// The query strings of the originals. (The query of an appended URI is the
    /// resolve request's own.)
    pub(crate) fn queries(&self) -> impl Iterator<Item = &'r str> {
        self.0
            .iter()
            .filter_map(|uri| uri.split_once('?').map(|(_, query)| query))
    }

    /// The poll of the original request: the segment after `polls` in its path, if
    /// that is a poll's id.
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

    fn poll(uri: &str, header: Option<&str>) -> Option<String> {
        let header = header.map(|uri| ("x-forwarded-uri".parse().unwrap(), uri.parse().unwrap()));
        let headers = header.into_iter().collect();
        let uri = uri.parse().unwrap();
        let poll = OriginalRequest::from_request(&uri, &headers).poll();
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
