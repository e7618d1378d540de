//! A fast path for the two most frequent requests: casting one vote and
//! resolving one key. They are recognised by method and path alone and skip
//! axum's routing, which costs a vote more than its key check, its limits and its
//! voting rules together.
//!
//! Every other request goes through axum, where the same handlers answer. Nothing
//! is refused here.

use axum::body::Body;
use axum::http::{Method, Request, Uri};
use axum::response::Response;
use ballast_domain::poll::VoteChoice;
use ballast_domain::{ItemId, PollId};

use crate::RouterState;
use crate::admit::{Access, Authorized, VoteAccess, handle_admitted};
use crate::request::ItemPath;
use crate::request_summary::SummarizedResponse;
use crate::{resolve, votes};

/// The path of one vote.
pub const VOTE_PATTERN: &str = "/polls/{poll}/votes/{item}";
/// The path that resolves a key.
pub const RESOLVE_PATTERN: &str = "/resolve";

/// A request that can be answered directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectRequest {
    /// A vote for an item of a poll.
    Vote(PollId, ItemId),
    /// Finding the shard of a key.
    Resolve,
}

impl DirectRequest {
    /// Recognises a request, if it can be answered directly.
    pub fn from_request(method: &Method, uri: &Uri) -> Option<Self> {
        let path = uri.path();
        match *method {
            Method::GET if path == RESOLVE_PATTERN => Some(Self::Resolve),
            Method::PATCH | Method::POST => {
                let (poll, rest) = path.strip_prefix("/polls/")?.split_once('/')?;
                let item = rest.strip_prefix("votes/")?;
                // A path with percent escapes does not parse; axum handles it.
                Some(Self::Vote(poll.parse().ok()?, item.parse().ok()?))
            }
            _ => None,
        }
    }

    /// Answers the request exactly as the axum handlers would.
    pub async fn answer(self, state: &RouterState, request: Request<Body>) -> Response {
        handle_admitted(state, request, |access, request| {
            self.dispatch(state, access, request)
        })
        .await
    }

    async fn dispatch(
        self,
        state: &RouterState,
        access: Access,
        request: Request<Body>,
    ) -> SummarizedResponse {
        let (head, body) = request.into_parts();
        match self {
            Self::Vote(poll, item) => match Authorized::<VoteAccess>::new(access, state) {
                Ok(Authorized { access, .. }) => {
                    let path = ItemPath(poll, item);
                    votes::handle_vote(state, access, VoteChoice::For, path, head.headers, body)
                        .await
                }
                Err(refusal) => refusal,
            },
            Self::Resolve => resolve::answer(state, access, &head.uri, &head.headers).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRouter;

    fn direct(method: &str, uri: &str) -> Option<DirectRequest> {
        DirectRequest::from_request(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn only_votes_and_key_lookups_are_direct() {
        let vote = "/polls/poll-01kb5q6s3ww3q0v9d1nqz8t5ma/votes/item-7q0v9d1nqz8t5";
        assert!(matches!(
            direct("PATCH", vote),
            Some(DirectRequest::Vote(..))
        ));
        assert!(direct("POST", &format!("{vote}?api_key=x")).is_some());
        assert_eq!(
            direct("GET", "/resolve?poll=x"),
            Some(DirectRequest::Resolve)
        );
        for (method, uri) in [
            ("DELETE", vote),
            ("OPTIONS", vote),
            ("GET", vote),
            ("PATCH", "/polls/poll-01kb5q6s3ww3q0v9d1nqz8t5ma/votes/"),
            ("PATCH", "/polls/nonsense/votes/item-7q0v9d1nqz8t5"),
            ("PATCH", &format!("{vote}/")),
            ("PATCH", &vote.replace("poll-", "poll%2d")),
            ("POST", "/resolve"),
            ("GET", "/resolve/"),
            ("GET", "/resolver"),
        ] {
            assert_eq!(direct(method, uri), None, "{method} {uri}");
        }
    }

    /// Sends every kind of request both ways and compares the answers.
    #[tokio::test]
    async fn both_ways_give_the_same_answer() {
        let mut server = TestRouter::new(|_| {});
        let (_, vote) = server.poll().await;
        let unknown = format!("{}{}", &vote[..vote.len() - 13], "0000000000000");
        let bodies = [
            r#"{"voterID":"v-1"}"#,
            r#"{"voterID":""}"#,
            r#"{"voter":"v-1"}"#,
            "[\"v-1\"]",
            "{",
            "",
        ];
        for path in [vote.as_str(), unknown.as_str()] {
            for body in bodies {
                // The first vote is counted, so that both ways answer "already".
                server.ask("PATCH", path, body).await;
                let ordinary = server.ask("PATCH", path, body).await;
                let direct = server.ask_directly("PATCH", path, body).await;
                assert_eq!(direct, ordinary, "{path} {body}");
            }
        }
        let ordinary = server.ask("GET", "/resolve", "").await;
        assert_eq!(server.ask_directly("GET", "/resolve", "").await, ordinary);
        server.key.clear();
        for (method, path) in [("PATCH", vote.as_str()), ("GET", "/resolve")] {
            let ordinary = server.ask(method, path, "").await;
            assert_eq!(ordinary.status, 401);
            assert_eq!(server.ask_directly(method, path, "").await, ordinary);
        }
    }
}
