//! One HTTP request and its answer.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

/// How long a request may take until the last byte of its answer. Without a limit a client may
/// wait forever for a connection if the process died while it connected.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A request under construction.
pub struct Call(RequestBuilder);

/// A complete answer.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; `null` when it is not JSON.
    pub body: Value,
    /// The raw body.
    pub text: String,
}

impl Call {
    /// A request to an absolute URL.
    pub fn new(client: &Client, method: &str, url: &str) -> Self {
        Self(client.request(method.parse::<Method>().unwrap(), url))
    }

    /// Adds this bearer token.
    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Adds this header.
    pub fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value))
    }

    /// Sets this JSON body.
    pub fn json(self, body: &Value) -> Self {
        Self(self.0.json(body))
    }

    /// Sets this raw body.
    pub fn raw(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self(
            self.0
                .header("content-type", content_type)
                .body(body.into()),
        )
    }

    /// Sends it; `None` when no complete answer came.
    pub async fn try_send(self) -> Option<HttpAnswer> {
        self.outcome().await.ok()
    }

    /// Sends it.
    pub async fn send(self) -> HttpAnswer {
        self.outcome().await.unwrap()
    }

    /// Sends it; the error says why no answer came.
    pub async fn outcome(self) -> Result<HttpAnswer, reqwest::Error> {
        let response = self.0.timeout(REQUEST_TIMEOUT).send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        Ok(HttpAnswer {
            status,
            headers,
            body: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        })
    }
}

impl HttpAnswer {
    /// Checks the status and returns the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Whether the status is 2xx.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Checks that the answer is an error with this status and code, and returns the body.
    #[track_caller]
    pub fn expect_error(self, status: u16, code: &str) -> Value {
        let found = (self.status, self.body["code"].as_str().unwrap_or_default());
        assert_eq!(found, (status, code), "{}", self.text);
        self.body
    }

    /// A header's value, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}
