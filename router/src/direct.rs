//! The two requests that nearly all traffic consists of — one vote, one
//! resolved key — told by method and path alone, and answered past the
//! framework's dispatch: its layers cost a vote more than its key, its limits
//! and its rules together.
//!
//! Whatever is not plainly one of the two goes the ordinary way, where the
//! same handlers answer; nothing is refused here.

use axum::body::Body;
use axum::http::{Method, Request, Uri};
use axum::response::{IntoResponse, Response};
use ballast_domain::poll::Choice;
use ballast_domain::{ItemId, PollId};

use crate::State;
use crate::admit::{Access, Allowed, admitted};
use crate::request::ItemPath;
use crate::{resolve, votes};

/// The path of a vote.
pub const VOTE_PATTERN: &str = "/polls/{poll}/votes/{item}";
/// The path that resolves a key.
pub const RESOLVE_PATTERN: &str = "/resolve";

/// A request that can be answered directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// A vote for an item of a poll.
    Vote(PollId, ItemId),
    /// The shard of a key.
    Resolve,
}

impl Direct {
    /// Which of them a request is, if any.
    pub fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let path = uri.path();
        match *method {
            Method::GET if path == RESOLVE_PATTERN => Some(Self::Resolve),
            Method::PATCH | Method::POST => {
                let (poll, rest) = path.strip_prefix("/polls/")?.split_once('/')?;
                let item = rest.strip_prefix("votes/")?;
                // Escapes are no digits of an id: such a path is not for here.
                Some(Self::Vote(poll.parse().ok()?, item.parse().ok()?))
            }
            _ => None,
        }
    }

    /// The answer, the same as the ordinary way's.
    pub async fn answer(self, state: &State, request: Request<Body>) -> Response {
        admitted(state, request, |access, request| {
            self.let_in(state, access, request)
        })
        .await
    }

    async fn let_in(self, state: &State, access: Access, request: Request<Body>) -> Response {
        let (head, body) = request.into_parts();
        match self {
            Self::Vote(poll, item) => match Allowed::new(access, state) {
                Ok(allowed) => {
                    let path = ItemPath(poll, item);
                    votes::one(state, allowed, Choice::For, path, head.headers, body)
                        .await
                        .into_response()
                }
                Err(refused) => refused.into_response(),
            },
            Self::Resolve => resolve::answer(state, &access, &head.uri, &head.headers)
                .await
                .into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::House;

    fn direct(method: &str, uri: &str) -> Option<Direct> {
        Direct::of(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn only_what_is_plainly_one_of_the_two_is_direct() {
        let vote = "/polls/poll-01kb5q6s3ww3q0v9d1nqz8t5ma/votes/item-7q0v9d1nqz8t5";
        assert!(matches!(direct("PATCH", vote), Some(Direct::Vote(..))));
        assert!(direct("POST", &format!("{vote}?api_key=x")).is_some());
        assert_eq!(direct("GET", "/resolve?poll=x"), Some(Direct::Resolve));
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

    /// Both ways, with every kind of request that one of them might take
    /// otherwise.
    #[tokio::test]
    async fn the_answer_is_that_of_the_ordinary_way() {
        let mut house = House::new(|_| {});
        let (_, vote) = house.poll().await;
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
                // The first of them is counted; so both ways find it "already".
                house.ask("PATCH", path, body).await;
                let ordinary = house.ask("PATCH", path, body).await;
                let direct = house.ask_directly("PATCH", path, body).await;
                assert_eq!(direct, ordinary, "{path} {body}");
            }
        }
        let ordinary = house.ask("GET", "/resolve", "").await;
        assert_eq!(house.ask_directly("GET", "/resolve", "").await, ordinary);
        house.key.clear();
        for (method, path) in [("PATCH", vote.as_str()), ("GET", "/resolve")] {
            let ordinary = house.ask(method, path, "").await;
            assert_eq!(ordinary.status, 401);
            assert_eq!(house.ask_directly(method, path, "").await, ordinary);
        }
    }
}
