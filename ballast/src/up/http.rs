//! All paths on one listener, and what every request passes through.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Path, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use ballast_console::Console;
use ballast_control_plane::ControlPlane;
use ballast_control_plane::api;
use ballast_domain::credential::redacted;
use ballast_domain::{Error, ErrorCode};
use ballast_router as router;
use ballast_web::ApiError;
use ballast_web::problem::{catalogue_page, wrong_method};
use futures::FutureExt;
use tracing::Instrument;

use super::app::App;
use super::client_address::{self, TrustedProxies};
use super::metrics::Metrics;
use super::parts::Parts;
use super::shards::LocalShards;
use crate::machine::stopwatch;

/// The longest an admin request may take.
const ADMIN_PATIENCE: Duration = Duration::from_secs(120);

/// The whole application.
pub(crate) fn app(
    parts: &Parts,
    metrics: Metrics,
    trusted: TrustedProxies,
    console: Option<Console>,
) -> App {
    let around = Arc::new(Around {
        trusted,
        metrics: metrics.clone(),
        traced: parts.traced,
    });
    let paths = paths(parts, metrics, around.clone(), console);
    App::new(paths, parts.router.clone(), around)
}

/// Every path.
fn paths(parts: &Parts, metrics: Metrics, around: Arc<Around>, console: Option<Console>) -> Router {
    let front = match &console {
        Some(_) => "/console",
        None => "/admin/v1/docs/",
    };
    let console = console.map(|console| ballast_console::router(console).layer(from_fn(in_time)));
    let admin = api::router(parts.plane.clone()).layer(from_fn(in_time));
    let health = Router::new()
        .route("/", get(async move || Redirect::to(front)))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state((parts.plane.clone(), parts.shards.clone()));
    let measured = Router::new().route("/metrics", get(exposed)).with_state((
        metrics.clone(),
        parts.plane.clone(),
        parts.shards.clone(),
        parts.router.clone(),
    ));
    let own = Router::new()
        .merge(health)
        .merge(measured)
        .route("/problems/{code}", get(problem))
        .method_not_allowed_fallback(wrong_method);
    router::router(parts.router.clone())
        .merge(own)
        .merge(admin)
        .merge(console.unwrap_or_default())
        .layer(from_fn_with_state(around, passing))
}

/// What every request needs on its way.
pub(super) struct Around {
    trusted: TrustedProxies,
    pub(super) metrics: Metrics,
    /// Whether anyone looks at spans.
    traced: bool,
}

impl Around {
    /// Whether anyone wants to be told of each request.
    pub(super) fn is_watched(&self) -> bool {
        self.traced || tracing::enabled!(tracing::Level::DEBUG)
    }
}

/// What every request passes through, in one layer: each layer costs a request
/// about as much as reading its key does.
async fn passing(State(around): State<Arc<Around>>, mut request: Request, next: Next) -> Response {
    client_address::note(&around.trusted, &mut request);
    let seen = Seen::new(&request);
    let span = seen.span(around.traced);
    let answer = safely(next.run(request));
    let response = if span.is_disabled() {
        answer.await
    } else {
        answer.instrument(span.clone()).await
    };
    span.record("status", response.status().as_u16());
    seen.told(&around.metrics, &response);
    response
}

/// An answer whatever happens, with the headers that every answer has.
pub(super) async fn safely(answer: impl Future<Output = Response>) -> Response {
    let answered = AssertUnwindSafe(answer).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        let error = Error::internal("answer the request", "a handler panicked");
        ApiError::from(error).into_response()
    });
    secure(&mut response);
    response
}

/// Gives up on an admin request that takes too long.
async fn in_time(request: Request, next: Next) -> Result<Response, ApiError> {
    tokio::time::timeout(ADMIN_PATIENCE, next.run(request))
        .await
        .map_err(|_| {
            let detail = format!("it took longer than {} s", ADMIN_PATIENCE.as_secs());
            Error::new(ErrorCode::Unavailable, detail)
                .retry_after(5)
                .into()
        })
}

/// Ready: the registry would take a commit, and every shard here a vote.
async fn ready(
    State((plane, shards)): State<(ControlPlane, Arc<LocalShards>)>,
) -> Result<&'static str, ApiError> {
    let usages = shards.usages().await.into_iter();
    let mut troubles: Vec<_> = usages
        .filter_map(|(id, usage)| usage.trouble.map(|why| format!("{id}: {why}")))
        .collect();
    if !shards.are_known() {
        troubles.push("shards: it is not known yet which there are".to_owned());
    }
    if let Err(error) = plane.registry().check().await {
        troubles.push(format!("registry: {}", causes(&error)));
    }
    if let Some(workflows) = plane.workflows()
        && let Err(error) = workflows.engine().check().await
    {
        troubles.push(format!("executions: {}", causes(&error)));
    }
    if troubles.is_empty() {
        return Ok("ready\n");
    }
    let detail = format!("not everything works: {}", troubles.join("; "));
    let error = Error::new(ErrorCode::Unavailable, detail);
    let next = "Free disk space, or bring back what is missing; it goes on by itself.";
    Err(error.next(next).retry_after(1).into())
}

/// An error with what caused it: for an operator, who can do something.
fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        told = format!("{told}: {next}");
        cause = next.source();
    }
    told
}

/// What is looked at when somebody asks for the figures.
type Measured = (Metrics, ControlPlane, Arc<LocalShards>, router::RouterState);

async fn exposed(State((metrics, plane, shards, router)): State<Measured>) -> Response {
    metrics.note_shards(&shards.usages().await);
    metrics.note_router(&router);
    if let Some(load) = plane.load() {
        metrics.note_load(load);
    }
    if let Some(workflows) = plane.workflows()
        && let Ok(counts) = workflows.engine().counts().await
    {
        metrics.note_executions(&counts);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics.text()).into_response()
}

/// The page that a problem's `type` leads to.
async fn problem(Path(code): Path<String>) -> Result<Response, ApiError> {
    catalogue_page(&code)
        .ok_or_else(|| Error::new(ErrorCode::NotFound, "there is no such problem code").into())
}

/// Headers that keep a browser from misreading an answer.
fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    let kind = headers.get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let mut set = |name: HeaderName, value| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Answers hold secrets or change at any time; who may be kept says so.
    set(header::CACHE_CONTROL, "no-store");
    if is_page {
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::X_FRAME_OPTIONS, "DENY");
    }
}

/// What is counted and logged of a request. Query strings may hold API keys:
/// what is logged is redacted, and the metrics know only the path's pattern.
struct Seen {
    watch: std::time::Instant,
    method: Method,
    route: Option<MatchedPath>,
    uri: Option<String>,
}

impl Seen {
    fn new(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().cloned();
        let uri = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            let pattern = route.as_ref().map_or("unmatched", MatchedPath::as_str);
            loggable(request.uri(), pattern)
        });
        Self {
            watch: stopwatch(),
            method: request.method().clone(),
            route,
            uri,
        }
    }

    fn pattern(&self) -> &str {
        self.route.as_ref().map_or("unmatched", MatchedPath::as_str)
    }

    /// A span, where anyone looks. It names the pattern, not the path: neither
    /// ids nor keys are in it.
    fn span(&self, traced: bool) -> tracing::Span {
        if !traced && self.uri.is_none() {
            return tracing::Span::none();
        }
        let (method, route) = (&self.method, self.pattern());
        tracing::info_span!("request", %method, route, status = tracing::field::Empty)
    }

    fn told(self, metrics: &Metrics, response: &Response) {
        let elapsed = self.watch.elapsed();
        let own = router::HeldFor::without(response, elapsed);
        metrics.request(&self.method, self.pattern(), response.status(), own);
        if let Some(uri) = &self.uri {
            let (method, status) = (&self.method, response.status().as_u16());
            let ms = elapsed.as_millis();
            tracing::debug!(%method, uri, status, ms, "request");
        }
    }
}

/// A URI without the keys in it. An escape could hide one (`bl%5Flive_…`), so
/// of a URI with escapes only the path's pattern is logged.
fn loggable(uri: &Uri, route: &str) -> String {
    let text = uri.to_string();
    if text.contains('%') {
        route.to_owned()
    } else {
        redacted(&text).into_owned()
    }
}
