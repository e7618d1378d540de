//! Gives each new connection a place in the table, and its stream a guard.

use std::io;
use std::sync::Arc;

use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stream::{FIRST_BYTES_PATIENCE, GuardedStream};
use super::table::ConnectionTable;
use crate::up::app::ConnectionService;

/// Accepts connections, through TLS where `inner` does that.
#[derive(Clone)]
pub(crate) struct GuardingAcceptor<A> {
    inner: A,
    table: Arc<ConnectionTable>,
}

impl<A> GuardingAcceptor<A> {
    /// Guards what `inner` accepts.
    pub(crate) fn new(inner: A, table: Arc<ConnectionTable>) -> Self {
        Self { inner, table }
    }
}

impl<A> Accept<TcpStream, ConnectionService> for GuardingAcceptor<A>
where
    A: Accept<TcpStream, ConnectionService, Service = ConnectionService>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
{
    type Stream = GuardedStream<A::Stream>;
    type Service = ConnectionService;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, ConnectionService)>>;

    fn accept(&self, stream: TcpStream, service: ConnectionService) -> Self::Future {
        let place = self.table.enter(service.peer().ip());
        let accepted = self.inner.accept(stream, service);
        async move {
            let (place, mut closed) = place.ok_or(io::ErrorKind::ConnectionRefused)?;
            let accepted = timeout(FIRST_BYTES_PATIENCE, accepted);
            let (stream, mut service) = tokio::select! {
                accepted = accepted => accepted.map_err(|_| io::ErrorKind::TimedOut)??,
                _ = &mut closed => return Err(io::ErrorKind::ConnectionAborted.into()),
            };
            let stream = GuardedStream::new(stream, place, closed);
            service.attach(stream.connection().clone());
            Ok((stream, service))
        }
        .boxed()
    }
}
