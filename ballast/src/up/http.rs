//! All routes of the listener, and the layer that every request passes through.

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
use ballast_domain::credential::redact;
use ballast_domain::{Error, ErrorCode};
use ballast_router as router;
use ballast_web::ApiError;
use ballast_web::problem::{catalogue_page, wrong_method};
use futures::FutureExt;
use tracing::Instrument;

use super::app::App;
use super::client_address::{self, TrustedProxies};
use super::connections::ConnectionTable;
use super::metrics::Metrics;
use super::parts::Services;
use super::shards::LocalShards;
use crate::machine::stopwatch;

/// Timeout of an admin request.
const ADMIN_PATIENCE: Duration = Duration::from_secs(120);

/// Builds the whole application.
pub(crate) fn build_app(
    parts: &Services,
    metrics: Metrics,
    trusted: TrustedProxies,
    console: Option<Console>,
    connections: Arc<ConnectionTable>,
) -> App {
    let around = Arc::new(RequestContext {
        trusted,
        metrics: metrics.clone(),
        traced: parts.traced,
    });
    let paths = build_router(parts, metrics, around.clone(), console, connections);
    App::new(paths, parts.router.clone(), around)
}

/// Every path.
fn build_router(
    parts: &Services,
    metrics: Metrics,
    around: Arc<RequestContext>,
    console: Option<Console>,
    connections: Arc<ConnectionTable>,
) -> Router {
    let front = match &console {
        Some(_) => "/console",
        None => "/admin/v1/docs/",
    };
    let console =
        console.map(|console| ballast_console::router(console).layer(from_fn(with_deadline)));
    let admin = api::router(parts.plane.clone()).layer(from_fn(with_deadline));
    let health = Router::new()
        .route("/", get(async move || Redirect::to(front)))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state((parts.plane.clone(), parts.shards.clone()));
    let measured = Router::new()
        .route("/metrics", get(serve_metrics))
        .with_state((
            metrics.clone(),
            parts.plane.clone(),
            parts.shards.clone(),
            parts.router.clone(),
            connections,
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
        .layer(from_fn_with_state(around, wrap_request))
}

/// Shared state of the request layer.
pub(super) struct RequestContext {
    trusted: TrustedProxies,
    pub(super) metrics: Metrics,
    /// Whether spans are exported.
    traced: bool,
}

impl RequestContext {
    /// Whether requests are traced or logged one by one.
    pub(super) fn is_watched(&self) -> bool {
        self.traced || tracing::enabled!(tracing::Level::DEBUG)
    }
}

/// The one layer that every request passes through: each further layer would cost about as much as
/// reading the key.
async fn wrap_request(
    State(around): State<Arc<RequestContext>>,
    mut request: Request,
    next: Next,
) -> Response {
    client_address::record_client_address(&around.trusted, &mut request);
    let seen = RequestRecord::new(&request);
    let span = seen.span(around.traced);
    let answer = answer_safely(next.run(request));
    let response = if span.is_disabled() {
        answer.await
    } else {
        answer.instrument(span.clone()).await
    };
    span.record("status", response.status().as_u16());
    seen.record(&around.metrics, &response);
    response
}

/// Responds even if the handler panics, and sets the common headers.
pub(super) async fn answer_safely(answer: impl Future<Output = Response>) -> Response {
    let answered = AssertUnwindSafe(answer).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        let error = Error::internal("answer the request", "a handler panicked");
        ApiError::from(error).into_response()
    });
    set_security_headers(&mut response);
    response
}

/// Fails an admin request that takes too long.
async fn with_deadline(request: Request, next: Next) -> Result<Response, ApiError> {
    tokio::time::timeout(ADMIN_PATIENCE, next.run(request))
        .await
        .map_err(|_| {
            let detail = format!(
                "the request took longer than {} s",
                ADMIN_PATIENCE.as_secs()
            );
            Error::new(ErrorCode::Unavailable, detail)
                .retry_after(5)
                .into()
        })
}

/// Ready if the registry accepts commits and every shard of this process accepts votes.
async fn ready(
    State((plane, shards)): State<(ControlPlane, Arc<LocalShards>)>,
) -> Result<String, ApiError> {
    let usages = shards.usages().await.into_iter();
    let mut troubles: Vec<_> = usages
        .filter_map(|(id, usage)| usage.trouble.map(|why| format!("{id}: {why}")))
        .collect();
    if !shards.are_known() {
        troubles.push("shards: the list of shards is not loaded yet".to_owned());
    }
    if let Err(error) = plane.registry().check().await {
        troubles.push(format!("registry: {}", describe_causes(&error)));
    }
    if troubles.is_empty() {
        // Votes do not need workflows: without them the instance is ready, and says what waits.
        return Ok(match workflow_trouble(&plane).await {
            None => "ready\n".to_owned(),
            Some(why) => format!("ready\nworkflows are unavailable: {why}\n"),
        });
    }
    let detail = format!("not ready: {}", troubles.join("; "));
    let error = Error::new(ErrorCode::Unavailable, detail);
    let next = "Free disk space, or restore what is missing; Ballast recovers by itself.";
    Err(error.with_next_step(next).retry_after(1).into())
}

/// Why migrations and plans wait, if the workflow engine or its store does not work.
async fn workflow_trouble(plane: &ControlPlane) -> Option<String> {
    let Some(workflows) = plane.workflows() else {
        return plane.workflow_trouble();
    };
    let checked = workflows.engine().check().await;
    checked.err().map(|error| describe_causes(&error))
}

/// An error with its causes.
fn describe_causes(error: &dyn std::error::Error) -> String {
    let mut description = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        description = format!("{description}: {next}");
        cause = next.source();
    }
    description
}

/// The sources of `/metrics`.
type MetricsState = (
    Metrics,
    ControlPlane,
    Arc<LocalShards>,
    router::RouterState,
    Arc<ConnectionTable>,
);

async fn serve_metrics(
    State((metrics, plane, shards, router, connections)): State<MetricsState>,
) -> Response {
    metrics.note_connections(&connections);
    metrics.note_shards(&shards.usages().await);
    metrics.note_router(&router);
    if let Some(load) = plane.load_monitor() {
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

/// The page that a problem's `type` links to.
async fn problem(Path(code): Path<String>) -> Result<Response, ApiError> {
    catalogue_page(&code)
        .ok_or_else(|| Error::new(ErrorCode::NotFound, "unknown problem code").into())
}

/// Sets security headers.
fn set_security_headers(response: &mut Response) {
    let headers = response.headers_mut();
    let kind = headers.get(header::CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let mut set = |name: HeaderName, value| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Responses hold secrets or change at any time; a cacheable one sets its own header.
    set(header::CACHE_CONTROL, "no-store");
    if is_page {
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::X_FRAME_OPTIONS, "DENY");
    }
}

/// Records a request for metrics and logs. Query strings may hold API keys, so logs are redacted
/// and metrics use the path's pattern only.
struct RequestRecord {
    watch: std::time::Instant,
    method: Method,
    route: Option<MatchedPath>,
    uri: Option<String>,
}

impl RequestRecord {
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

    /// A span if spans are exported. It holds the pattern instead of the path, so neither ids nor
    /// keys.
    fn span(&self, traced: bool) -> tracing::Span {
        if !traced && self.uri.is_none() {
            return tracing::Span::none();
        }
        let (method, route) = (&self.method, self.pattern());
        tracing::info_span!("request", %method, route, status = tracing::field::Empty)
    }

    fn record(self, metrics: &Metrics, response: &Response) {
        let elapsed = self.watch.elapsed();
        let own = router::HeldDuration::without(response, elapsed);
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
        redact(&text).into_owned()
    }
}
