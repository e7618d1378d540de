//! A request in the making: what is asked, of which path, with which body.

use reqwest::Method;
use serde_json::Value;

use super::args::{Creation, Guard};

/// A request in the making.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) if_match: Option<u64>,
    pub(super) idempotency_key: Option<String>,
    pub(super) body: Option<Content>,
    /// Read past what is kept for a moment.
    pub(super) fresh: bool,
}

/// What is sent.
#[derive(Debug, Clone)]
pub(super) struct Content {
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
        self.body = Some(Content {
            kind: "application/json",
            text: body.to_string(),
        });
        self
    }

    /// A body that is JSON already, letter by letter.
    pub(crate) fn document(mut self, text: String) -> Self {
        let kind = "application/json";
        self.body = Some(Content { kind, text });
        self
    }

    /// A body of one JSON document per line.
    pub(crate) fn lines(mut self, text: String) -> Self {
        let kind = "application/x-ndjson";
        self.body = Some(Content { kind, text });
        self
    }

    /// Asks for what is true now, not for what was true a moment ago.
    pub(crate) fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Names the request, so that it happens once.
    pub(crate) fn named(mut self, key: Option<String>) -> Self {
        self.idempotency_key = key;
        self
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.query.push((name, value.to_string()));
        }
        self
    }

    /// Reason and version.
    pub(crate) fn guarded(mut self, guard: Guard) -> Self {
        self.if_match = guard.if_match;
        self.query("reason", guard.reason)
    }

    /// Reason and idempotency key.
    pub(crate) fn creating(mut self, creation: Creation) -> Self {
        self.idempotency_key = creation.idempotency_key;
        self.query("reason", creation.reason)
    }

    /// With this value of a parameter in place of another.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.query.retain(|(other, _)| *other != name);
        self.query.push((name, value.to_owned()));
        self
    }
}
