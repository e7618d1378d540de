//! The way to the admin API: one request, one answer, and every way it can
//! fail told in the operator's words. The token is never shown.

use std::path::Path;
use std::time::Duration;

use ballast_domain::error::Problem;
use reqwest::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH,
};
use reqwest::{StatusCode, Url, redirect};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::Paging;
use super::failure::Failure;
use super::globals::Globals;
pub(crate) use super::request::Request;
use super::stream::Stream;
use super::trust;

/// Where a token is looked for when nobody says: `up --admin-token-file` may put it there.
const TOKEN_FILE: &str = "ballast-data/admin-token";
const ADMIN_PATH: &str = "/admin/v1";
/// Longer than anybody looks on.
const STREAM_MAX: Duration = Duration::from_secs(365 * 86_400);

/// A connection to the admin API of an instance.
pub(crate) struct Client {
    http: reqwest::Client,
    pub(super) base: Url,
    /// How long an answer may take to begin.
    timeout: Duration,
}

/// The body of an answer that is no problem.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    /// Whether something was made, and not there already.
    pub(crate) created: bool,
}

/// The names of a list and of the way to its next page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub(crate) items: &'static str,
    pub(crate) next: &'static str,
}

/// As all lists have them that are our own.
const USUAL: Names = Names {
    items: "items",
    next: "nextCursor",
};

impl Reply {
    /// The body as what it should be.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.bytes).map_err(|bad| {
            Failure::unreachable(
                format!("the answer is not what this version of ballast knows: {bad}"),
                "compare ballast --version with the server's; --json shows the answer as it is",
            )
        })
    }
}

impl Client {
    /// Makes ready to connect; nothing is sent yet.
    pub(crate) fn new(globals: &Globals) -> Result<Self, Failure> {
        Self::connecting(globals, base(&globals.url)?, bearer(&token(globals)?)?)
    }

    /// Makes ready to speak to the tenants' API with an API key.
    pub(crate) fn with_key(globals: &Globals, key: &str) -> Result<Self, Failure> {
        let mut base = base(&globals.url)?;
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix(ADMIN_PATH).unwrap_or(path).to_owned();
        base.set_path(&path);
        Self::connecting(globals, base, bearer(key)?)
    }

    fn connecting(globals: &Globals, base: Url, credential: HeaderValue) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, credential);
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("ballast/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .timeout(globals.timeout)
            .connect_timeout(globals.timeout);
        if let Some(file) = &globals.ca_cert {
            builder = builder.tls_backend_preconfigured(trust::only(file)?);
        } else if base.scheme() == "http" {
            // No certificates are needed, so none need be there.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|bad| {
            Failure::usage(
                format!("no connection can be made: {}", innermost(&bad)),
                "--ca-cert names the certificates to trust",
            )
        })?;
        let timeout = globals.timeout;
        Ok(Self {
            http,
            base,
            timeout,
        })
    }

    /// Sends a request; a problem becomes a failure.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply, Failure> {
        let sent = self.prepared(&request)?;
        let answer = sent.send().await.map_err(|bad| self.unreachable(bad))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|bad| self.unreachable(bad))?;
        if !status.is_success() {
            return Err(self.refused(status.as_u16(), &bytes));
        }
        let bytes = if bytes.is_empty() {
            b"{}".to_vec()
        } else {
            bytes.to_vec()
        };
        let created = status == StatusCode::CREATED;
        Ok(Reply { bytes, created })
    }

    /// Sends a request for a stream. Its head must come in time; the stream
    /// itself takes as long as it takes.
    pub(crate) async fn open(&self, request: Request) -> Result<Stream<'_>, Failure> {
        let sent = self.prepared(&request)?.timeout(STREAM_MAX);
        let late = || {
            let next = "--timeout waits longer; --url or BALLAST_URL says where the server is";
            Failure::unreachable(format!("{} did not answer in time", self.base), next)
        };
        let answer = tokio::time::timeout(self.timeout, sent.send())
            .await
            .map_err(|_| late())?
            .map_err(|bad| self.unreachable(bad))?;
        let status = answer.status();
        if !status.is_success() {
            let bytes = tokio::time::timeout(self.timeout, answer.bytes())
                .await
                .map_err(|_| late())?
                .map_err(|bad| self.unreachable(bad))?;
            return Err(self.refused(status.as_u16(), &bytes));
        }
        let client = self;
        Ok(Stream { client, answer })
    }

    /// A request with all that belongs to it.
    fn prepared(&self, request: &Request) -> Result<reqwest::RequestBuilder, Failure> {
        let mut sent = self
            .http
            .request(request.method.clone(), self.url(request)?);
        if let Some(version) = request.if_match {
            sent = sent.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(key) = &request.idempotency_key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                Failure::usage(
                    "an idempotency key is visible ASCII characters only",
                    "choose another --idempotency-key",
                )
            })?;
            sent = sent.header("Idempotency-Key", value);
        }
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, body.kind).body(body.text.clone());
        }
        if request.fresh {
            sent = sent.header(CACHE_CONTROL, "no-cache");
        }
        Ok(sent)
    }

    /// Sends a request for a list: a page, or with `--all` every page merged
    /// into one. `page_max` is the largest page that may be asked for.
    pub(crate) async fn list(
        &self,
        request: Request,
        paging: &Paging,
        page_max: u32,
    ) -> Result<Reply, Failure> {
        self.list_of(USUAL, request, paging, page_max).await
    }

    /// Sends a request for a list whose parts have these names.
    pub(crate) async fn list_of(
        &self,
        names: Names,
        request: Request,
        paging: &Paging,
        page_max: u32,
    ) -> Result<Reply, Failure> {
        let limit = paging.limit.or(paging.all.then_some(page_max));
        let request = request
            .query("limit", limit)
            .query("cursor", paging.cursor.as_ref());
        let first = self.send(request.clone()).await?;
        if !paging.all {
            return Ok(first);
        }
        let mut merged: Value = first.read()?;
        let mut items = Vec::new();
        let mut page = merged.clone();
        loop {
            if let Some(Value::Array(more)) = page.get_mut(names.items).map(Value::take) {
                items.extend(more);
            }
            let Some(cursor) = page.get(names.next).and_then(Value::as_str) else {
                break;
            };
            page = self
                .send(request.clone().with("cursor", cursor))
                .await?
                .read()?;
        }
        merged[names.items] = Value::Array(items);
        merged[names.next] = Value::Null;
        Ok(Reply {
            bytes: merged.to_string().into_bytes(),
            created: false,
        })
    }

    fn url(&self, request: &Request) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        if let Some(bad) = request
            .path
            .iter()
            .find(|part| ["", ".", ".."].contains(&part.as_str()))
        {
            return Err(Failure::usage(
                format!("{bad:?} is no ID"),
                "an ID is such as acme or shard-1",
            ));
        }
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(&request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        Ok(url)
    }

    pub(super) fn unreachable(&self, bad: reqwest::Error) -> Failure {
        let base = &self.base;
        let bad = bad.without_url();
        if bad.is_timeout() {
            return Failure::unreachable(
                format!("{base} did not answer in time"),
                "--timeout waits longer; --url or BALLAST_URL says where the server is",
            );
        }
        let cause = innermost(&bad);
        let next = if cause.contains("certificate") {
            "--ca-cert or BALLAST_CA_CERT names the certificates to trust"
        } else {
            "is the server running there? --url or BALLAST_URL says where it is"
        };
        Failure::unreachable(format!("{base}: {cause}"), next)
    }

    /// The failure in an answer, however odd the answer is.
    fn refused(&self, status: u16, bytes: &[u8]) -> Failure {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(problem) = serde_json::from_slice::<Problem>(bytes) {
            return Failure::refused(problem, text.trim_end().to_owned());
        }
        let said: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        let detail = format!("{} answered {status}: {said}", self.base);
        let problem = json!({
            "type": "/problems/unexpected-answer",
            "title": "The answer is none of Ballast's",
            "status": status,
            "code": "unexpected-answer",
            "detail": detail,
            "next": "check that --url or BALLAST_URL is the admin URL, such as http://127.0.0.1:8080/admin/v1",
        });
        match serde_json::from_value(problem.clone()) {
            Ok(known) => Failure::refused(known, problem.to_string()),
            Err(_) => Failure::local(detail),
        }
    }
}

/// Reads the admin URL; one without a path gets the usual one.
fn base(text: &str) -> Result<Url, Failure> {
    let bad = |why: String| {
        Failure::usage(
            format!("{text:?} is no admin URL: {why}"),
            "give one such as http://127.0.0.1:8080/admin/v1 with --url or BALLAST_URL",
        )
    };
    let mut url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("it must begin with http:// or https://".to_owned()));
    }
    if url.path() == "/" {
        url.set_path(ADMIN_PATH);
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The token: from the file that was named, the environment, or where
/// `ballast up` leaves it.
fn token(globals: &Globals) -> Result<String, Failure> {
    let next = "set BALLAST_TOKEN, or name a file that holds it with --token-file";
    let read = |file: &Path| {
        std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(
                format!("the token file {} cannot be read: {error}", file.display()),
                next,
            )
        })
    };
    let from_env = std::env::var("BALLAST_TOKEN").ok();
    let token = match (&globals.token_file, from_env) {
        (Some(file), _) => read(file)?,
        (None, Some(token)) if !token.trim().is_empty() => token,
        _ if Path::new(TOKEN_FILE).exists() => read(Path::new(TOKEN_FILE))?,
        _ => {
            return Err(Failure::usage(
                "there is no token to show to the server",
                next,
            ));
        }
    };
    match token.trim() {
        "" => Err(Failure::usage("the token is empty", next)),
        token => Ok(token.to_owned()),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
        Failure::usage(
            "the token holds characters that no token has",
            "copy it again, whole: it begins with bl_admin_",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The cause at the bottom: "connection refused", not "error sending request".
fn innermost(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_url_is_read_and_completed() {
        assert_eq!(base("http://h:1").unwrap().as_str(), "http://h:1/admin/v1");
        assert_eq!(
            base("https://h/x/admin/v1?y").unwrap().as_str(),
            "https://h/x/admin/v1"
        );
        for bad in ["", "h:1", "ftp://h", "127.0.0.1:8080"] {
            assert_eq!(base(bad).unwrap_err().exit(), 2, "{bad}");
        }
        assert!(is_loopback(&base("http://[::1]:1").unwrap()));
        assert!(!is_loopback(&base("http://example.org").unwrap()));
    }

    #[test]
    fn a_token_with_a_line_break_is_not_shown() {
        let failure = bearer("bl_admin_secret\nx").unwrap_err();
        assert_eq!(failure.exit(), 2);
        assert!(!failure.document().contains("secret"));
    }
}
