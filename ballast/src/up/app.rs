//! The application as a tower service.
//!
//! ```text
//!   request ──► one vote, one key to resolve: answered directly
//!          └──► anything else: by its path (http.rs)
//! ```

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use axum::response::Response;
use ballast_router::{self as router, DirectRequest, HeldDuration};
use futures::FutureExt;
use futures::future::BoxFuture;
use tower::Service;

use super::connections::Connection;
use super::http::{RequestContext, answer_safely};
use super::metrics::Meter;
use crate::machine::stopwatch;

/// The application, shared by all connections.
#[derive(Clone)]
pub(crate) struct App(Arc<AppState>);

struct AppState {
    paths: Router,
    router: router::RouterState,
    around: Arc<RequestContext>,
    votes: Meter,
    posted_votes: Meter,
    resolves: Meter,
}

impl App {
    /// Builds the application.
    pub(super) fn new(
        paths: Router,
        router: router::RouterState,
        around: Arc<RequestContext>,
    ) -> Self {
        let (vote, resolve) = (router::VOTE_PATTERN, router::RESOLVE_PATTERN);
        let metrics = &around.metrics;
        Self(Arc::new(AppState {
            votes: metrics.meter(Method::PATCH, vote),
            posted_votes: metrics.meter(Method::POST, vote),
            resolves: metrics.meter(Method::GET, resolve),
            paths,
            router,
            around,
        }))
    }
}

impl AppState {
    /// How a request can be answered directly. Traced or logged requests take the ordinary path,
    /// which records them.
    fn direct<B>(&self, request: &Request<B>) -> Option<(DirectRequest, &Meter)> {
        let direct = DirectRequest::from_request(request.method(), request.uri())?;
        let meter = match (direct, request.method()) {
            (DirectRequest::Resolve, _) => &self.resolves,
            (DirectRequest::Vote(..), &Method::POST) => &self.posted_votes,
            (DirectRequest::Vote(..), _) => &self.votes,
        };
        (!self.around.is_watched()).then_some((direct, meter))
    }

    async fn answer(&self, peer: SocketAddr, mut request: Request<Body>) -> Response {
        let Some((direct, meter)) = self.direct(&request) else {
            request.extensions_mut().insert(ConnectInfo(peer));
            let answer = self.paths.clone().call(request).await;
            return answer.unwrap_or_else(|never| match never {});
        };
        let watch = stopwatch();
        let response = answer_safely(direct.answer(&self.router, request)).await;
        let elapsed = HeldDuration::without(&response, watch.elapsed());
        meter.request(response.status(), elapsed);
        response
    }
}

/// A new connection.
impl Service<SocketAddr> for App {
    type Response = ConnectionService;
    type Error = Infallible;
    type Future = Ready<Result<ConnectionService, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, peer: SocketAddr) -> Self::Future {
        ready(Ok(ConnectionService {
            app: self.0.clone(),
            peer,
            connection: None,
        }))
    }
}

/// The application for one connection.
#[derive(Clone)]
pub(crate) struct ConnectionService {
    app: Arc<AppState>,
    peer: SocketAddr,
    /// Its entry among the open connections.
    connection: Option<Arc<Connection>>,
}

impl ConnectionService {
    /// The other side.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reports its requests to the entry of the connection.
    pub(super) fn attach(&mut self, connection: Arc<Connection>) {
        self.connection = Some(connection);
    }
}

impl<B> Service<Request<B>> for ConnectionService
where
    B: HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (app, peer) = (self.app.clone(), self.peer);
        let request = request.map(Body::new);
        let answering = self.connection.as_ref().map(Connection::begin_request);
        async move {
            let response = app.answer(peer, request).await;
            drop(answering);
            Ok(response)
        }
        .boxed()
    }
}
