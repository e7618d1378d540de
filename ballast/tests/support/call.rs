//! One HTTP request and its answer.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

/// How long anything may take to be answered to the last byte. A client may wait
/// for a connection that never comes when the process died while it connected.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(90);

/// A request that is being put together.
pub struct Call(RequestBuilder);

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; `null` when it is none.
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl Call {
    /// A request to an absolute URL.
    pub fn new(client: &Client, method: &str, url: &str) -> Self {
        Self(client.request(method.parse::<Method>().unwrap(), url))
    }

    /// With this bearer token.
    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// With this header.
    pub fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value))
    }

    /// With this JSON.
    pub fn json(self, body: &Value) -> Self {
        Self(self.0.json(body))
    }

    /// With this body, as it is.
    pub fn raw(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self(
            self.0
                .header("content-type", content_type)
                .body(body.into()),
        )
    }

    /// Sends it; `None` when there was no whole answer.
    pub async fn try_send(self) -> Option<Answer> {
        self.outcome().await.ok()
    }

    /// Sends it.
    pub async fn send(self) -> Answer {
        self.outcome().await.unwrap()
    }

    /// Sends it and says why there was no answer.
    pub async fn outcome(self) -> Result<Answer, reqwest::Error> {
        let response = self.0.timeout(ANSWERED_WITHIN).send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        Ok(Answer {
            status,
            headers,
            body: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        })
    }
}

impl Answer {
    /// The body, when the status is the one expected.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Whether it was a success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the admin API refused it with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        let found = (self.status, self.body["code"].as_str().unwrap_or_default());
        assert_eq!(found, (status, code), "{}", self.text);
        self.body
    }

    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}
