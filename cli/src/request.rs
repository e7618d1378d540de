//! Builds a request: method, path, query and body.

use reqwest::Method;
use serde_json::Value;

use super::args::{CreationArgs, GuardArgs};

/// A request to the API.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) if_match: Option<u64>,
    pub(super) idempotency_key: Option<String>,
    pub(super) body: Option<RequestBody>,
    /// Bypass the server's cache.
    pub(super) fresh: bool,
}

/// A request body.
#[derive(Debug, Clone)]
pub(super) struct RequestBody {
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Request {
    fn new(method: Method, path: &[&str]) -> Self {
        Self {
            method,
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            query: Vec::new(),
            if_match: None,
            idempotency_key: None,
            body: None,
            fresh: false,
        }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: &[&str]) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn patch(path: &[&str]) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(crate) fn put(path: &[&str]) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(crate) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(RequestBody {
            kind: "application/json",
            text: body.to_string(),
        });
        self
    }

    /// A JSON body, sent byte for byte.
    pub(crate) fn document(mut self, text: String) -> Self {
        let kind = "application/json";
        self.body = Some(RequestBody { kind, text });
        self
    }

    /// A body of one JSON document per line.
    pub(crate) fn lines(mut self, text: String) -> Self {
        let kind = "application/x-ndjson";
        self.body = Some(RequestBody { kind, text });
        self
    }

    /// Bypasses the server's cache.
    pub(crate) fn bypass_cache(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Sets the idempotency key.
    pub(crate) fn idempotency_key(mut self, key: Option<String>) -> Self {
        self.idempotency_key = key;
        self
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.query.push((name, value.to_string()));
        }
        self
    }

    /// Adds the reason and the expected version.
    pub(crate) fn with_guard(mut self, guard: GuardArgs) -> Self {
        self.if_match = guard.if_match;
        self.query("reason", guard.reason)
    }

    /// Adds the reason and the idempotency key.
    pub(crate) fn with_creation(mut self, creation: CreationArgs) -> Self {
        self.idempotency_key = creation.idempotency_key;
        self.query("reason", creation.reason)
    }

    /// Replaces a query parameter.
    pub(super) fn replace_query(mut self, name: &'static str, value: &str) -> Self {
        self.query.retain(|(other, _)| *other != name);
        self.query.push((name, value.to_owned()));
        self
    }
}
