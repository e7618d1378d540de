//! An HTTP client for the admin API. It turns every failure into a `CliError` with a next step, and
//! never shows the token.

use std::path::Path;
use std::time::Duration;

use ballast_domain::error::ProblemDocument;
use reqwest::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH,
};
use reqwest::{StatusCode, Url, redirect};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::PagingArgs;
use super::failure::CliError;
use super::globals::Globals;
pub(crate) use super::request::Request;
use super::stream::ResponseStream;
use super::trust;

/// The default token file; `up --admin-token-file` may write it.
const TOKEN_FILE: &str = "ballast-data/admin-token";
const ADMIN_PATH: &str = "/admin/v1";
/// A timeout that no watcher reaches.
const STREAM_MAX: Duration = Duration::from_secs(365 * 86_400);

/// A connection to the admin API of an instance.
pub(crate) struct Client {
    http: reqwest::Client,
    pub(super) base: Url,
    /// How long a response may take to start.
    timeout: Duration,
}

/// The body of a successful response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    /// Whether the request created a record (201), instead of finding one.
    pub(crate) created: bool,
}

/// The field names of a list's items and of its cursor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListFields {
    pub(crate) items: &'static str,
    pub(crate) next: &'static str,
}

/// The field names of all of Ballast's own lists.
const USUAL: ListFields = ListFields {
    items: "items",
    next: "nextCursor",
};

impl Reply {
    /// Parses the body.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CliError> {
        serde_json::from_slice(&self.bytes).map_err(|bad| {
            CliError::unreachable(
                format!("this version of ballast cannot read the response: {bad}"),
                "compare ballast --version with the server's; --json shows the raw response",
            )
        })
    }
}

impl Client {
    /// Prepares to connect; sends nothing yet.
    pub(crate) fn new(globals: &Globals) -> Result<Self, CliError> {
        Self::with_credential(
            globals,
            parse_base_url(&globals.url)?,
            bearer_header(&find_token(globals)?)?,
        )
    }

    /// Prepares to call the tenants' API with an API key.
    pub(crate) fn with_key(globals: &Globals, key: &str) -> Result<Self, CliError> {
        let mut base = parse_base_url(&globals.url)?;
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix(ADMIN_PATH).unwrap_or(path).to_owned();
        base.set_path(&path);
        Self::with_credential(globals, base, bearer_header(key)?)
    }

    fn with_credential(
        globals: &Globals,
        base: Url,
        credential: HeaderValue,
    ) -> Result<Self, CliError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, credential);
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("ballast/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .timeout(globals.timeout)
            .connect_timeout(globals.timeout);
        if let Some(file) = &globals.ca_cert {
            builder = builder.tls_backend_preconfigured(trust::trust_only(file)?);
        } else if base.scheme() == "http" {
            // Plain HTTP works without system certificates.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|bad| {
            CliError::usage(
                format!("the HTTP client cannot be built: {}", root_cause(&bad)),
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
    pub(crate) async fn send(&self, request: Request) -> Result<Reply, CliError> {
        let sent = self.build_request(&request)?;
        let answer = sent.send().await.map_err(|bad| self.unreachable(bad))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|bad| self.unreachable(bad))?;
        if !status.is_success() {
            return Err(self.rejected(status.as_u16(), &bytes));
        }
        let bytes = if bytes.is_empty() {
            b"{}".to_vec()
        } else {
            bytes.to_vec()
        };
        let created = status == StatusCode::CREATED;
        Ok(Reply { bytes, created })
    }

    /// Opens a stream. The timeout applies to the response head only.
    pub(crate) async fn open(&self, request: Request) -> Result<ResponseStream<'_>, CliError> {
        let sent = self.build_request(&request)?.timeout(STREAM_MAX);
        let late = || {
            let next = "raise --timeout, or check --url (BALLAST_URL)";
            CliError::unreachable(format!("{} did not answer in time", self.base), next)
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
            return Err(self.rejected(status.as_u16(), &bytes));
        }
        let client = self;
        Ok(ResponseStream { client, answer })
    }

    /// Builds the HTTP request with its headers and body.
    fn build_request(&self, request: &Request) -> Result<reqwest::RequestBuilder, CliError> {
        let mut sent = self
            .http
            .request(request.method.clone(), self.url(request)?);
        if let Some(version) = request.if_match {
            sent = sent.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(key) = &request.idempotency_key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                CliError::usage(
                    "an idempotency key may contain only visible ASCII characters",
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
        paging: &PagingArgs,
        page_max: u32,
    ) -> Result<Reply, CliError> {
        self.list_with_fields(USUAL, request, paging, page_max)
            .await
    }

    /// Requests a list with these field names.
    pub(crate) async fn list_with_fields(
        &self,
        names: ListFields,
        request: Request,
        paging: &PagingArgs,
        page_max: u32,
    ) -> Result<Reply, CliError> {
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
                .send(request.clone().replace_query("cursor", cursor))
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

    fn url(&self, request: &Request) -> Result<Url, CliError> {
        let mut url = self.base.clone();
        if let Some(bad) = request
            .path
            .iter()
            .find(|part| ["", ".", ".."].contains(&part.as_str()))
        {
            return Err(CliError::usage(
                format!("{bad:?} is not an ID"),
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

    pub(super) fn unreachable(&self, bad: reqwest::Error) -> CliError {
        let base = &self.base;
        let bad = bad.without_url();
        if bad.is_timeout() {
            return CliError::unreachable(
                format!("{base} did not answer in time"),
                "raise --timeout, or check --url (BALLAST_URL)",
            );
        }
        let cause = root_cause(&bad);
        let next = if cause.contains("certificate") {
            "--ca-cert or BALLAST_CA_CERT names the certificates to trust"
        } else {
            "is the server running? check --url (BALLAST_URL)"
        };
        CliError::unreachable(format!("{base}: {cause}"), next)
    }

    /// Turns an error response into an error, whatever its body is.
    fn rejected(&self, status: u16, bytes: &[u8]) -> CliError {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(problem) = serde_json::from_slice::<ProblemDocument>(bytes) {
            return CliError::rejected(problem, text.trim_end().to_owned());
        }
        let said: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        let detail = format!("{} answered {status}: {said}", self.base);
        let problem = json!({
            "type": "/problems/unexpected-answer",
            "title": "Unexpected response",
            "status": status,
            "code": "unexpected-answer",
            "detail": detail,
            "next": "check that --url or BALLAST_URL is the admin URL, such as http://127.0.0.1:8080/admin/v1",
        });
        match serde_json::from_value(problem.clone()) {
            Ok(known) => CliError::rejected(known, problem.to_string()),
            Err(_) => CliError::local(detail),
        }
    }
}

/// Parses the admin URL; adds the default path if it has none.
fn parse_base_url(text: &str) -> Result<Url, CliError> {
    let bad = |why: String| {
        CliError::usage(
            format!("{text:?} is not an admin URL: {why}"),
            "set --url or BALLAST_URL to a URL such as http://127.0.0.1:8080/admin/v1",
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

/// Finds the token: in the named file, the environment, or the default file.
fn find_token(globals: &Globals) -> Result<String, CliError> {
    let next = "set BALLAST_TOKEN, or pass a file with --token-file";
    let read = |file: &Path| {
        std::fs::read_to_string(file).map_err(|error| {
            CliError::usage(
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
            return Err(CliError::usage("no admin token was found", next));
        }
    };
    match token.trim() {
        "" => Err(CliError::usage("the token is empty", next)),
        token => Ok(token.to_owned()),
    }
}

fn bearer_header(token: &str) -> Result<HeaderValue, CliError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
        CliError::usage(
            "the token contains invalid characters",
            "copy the whole token again; it begins with bl_admin_",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The innermost cause: "connection refused", not "error sending request".
fn root_cause(error: &dyn std::error::Error) -> String {
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
        assert_eq!(
            parse_base_url("http://h:1").unwrap().as_str(),
            "http://h:1/admin/v1"
        );
        assert_eq!(
            parse_base_url("https://h/x/admin/v1?y").unwrap().as_str(),
            "https://h/x/admin/v1"
        );
        for bad in ["", "h:1", "ftp://h", "127.0.0.1:8080"] {
            assert_eq!(parse_base_url(bad).unwrap_err().exit(), 2, "{bad}");
        }
        assert!(is_loopback(&parse_base_url("http://[::1]:1").unwrap()));
        assert!(!is_loopback(&parse_base_url("http://example.org").unwrap()));
    }

    #[test]
    fn a_token_with_a_line_break_is_not_shown() {
        let failure = bearer_header("bl_admin_secret\nx").unwrap_err();
        assert_eq!(failure.exit(), 2);
        assert!(!failure.document().contains("secret"));
    }
}
