//! The listener: plain or TLS, bound before the greeting.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum_server::accept::DefaultAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server as HttpServer};
use hyper_util::rt::TokioTimer;
use tokio::net::TcpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::app::App;
use super::connections::{ConnectionTable, GuardingAcceptor};
use crate::config::{Config, Server, address};

/// How long running requests may take to finish during a stop.
const GRACE: Duration = Duration::from_secs(10);
/// Backlog of pending connections; the system may allow fewer.
const WAITING_MAX: u32 = 4_096;
/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// How often the other side of an HTTP/2 connection is asked whether it is there, and how long it
/// may take to answer.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// A bound listener.
pub(crate) struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<TlsFiles>,
    connections: Arc<ConnectionTable>,
}

/// The certificate in use.
#[derive(Clone)]
pub(crate) struct TlsFiles {
    /// What is served; reloading changes it for new connections.
    pub(crate) config: RustlsConfig,
    /// The certificate chain's file.
    pub(crate) cert: PathBuf,
    /// The private key's file.
    pub(crate) key: PathBuf,
}

impl Listener {
    /// Binds the configured address and reads the certificate.
    pub(crate) async fn bind(server: &Server) -> anyhow::Result<Self> {
        let wanted = address(&server.listen).map_err(anyhow::Error::msg)?;
        let tls = match (&server.tls_cert, &server.tls_key) {
            (Some(cert), Some(key)) => {
                let config = RustlsConfig::from_pem_file(cert, key)
                    .await
                    .with_context(|| {
                        format!(
                            "read the certificate {} and its key {}",
                            cert.display(),
                            key.display()
                        )
                    })?;
                Some(TlsFiles {
                    config,
                    cert: cert.clone(),
                    key: key.clone(),
                })
            }
            _ => None,
        };
        let tcp = match bind_socket(wanted) {
            Ok(tcp) => tcp,
            Err(error) => {
                bail!("cannot listen on {wanted}: {error}; choose another address with --listen")
            }
        };
        let address = tcp.local_addr()?;
        Ok(Self {
            tcp,
            address,
            tls,
            connections: ConnectionTable::for_this_process(),
        })
    }

    /// The open connections.
    pub(crate) fn connections(&self) -> Arc<ConnectionTable> {
        self.connections.clone()
    }

    /// The certificate in use, if any.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        self.tls.clone()
    }

    /// Where clients reach it.
    pub(crate) fn public_url(&self, config: &Config) -> String {
        match &config.server.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", reachable(self.address))
            }
        }
    }

    /// Serves `app` until stopped.
    pub(crate) fn serve(self, app: App) -> RunningServer {
        let handle = Handle::new();
        let (done, ended) = watch::channel(None);
        let (serving, address) = (handle.clone(), self.address);
        tokio::spawn(async move {
            let outcome = self.run(app, serving).await;
            done.send_replace(Some(outcome.map_err(|error| error.to_string())));
        });
        RunningServer {
            handle,
            address,
            ended,
        }
    }

    async fn run(self, app: App, handle: Handle<SocketAddr>) -> std::io::Result<()> {
        let mut server = axum_server::from_tcp(self.tcp)?.handle(handle);
        set_timeouts(&mut server);
        match self.tls {
            None => {
                let acceptor = GuardingAcceptor::new(DefaultAcceptor::new(), self.connections);
                server.acceptor(acceptor).serve(app).await
            }
            Some(tls) => {
                let acceptor = RustlsAcceptor::new(tls.config);
                let acceptor = GuardingAcceptor::new(acceptor, self.connections);
                server.acceptor(acceptor).serve(app).await
            }
        }
    }
}

/// Listens with a backlog for all clients of a restarted process: a client that finds no room
/// retries only after 1 s, then 7 s.
fn bind_socket(wanted: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match wanted {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Allows binding the port of a process that was just killed.
    socket.set_reuseaddr(true)?;
    socket.bind(wanted)?;
    socket.listen(WAITING_MAX)?.into_std()
}

fn set_timeouts(server: &mut HttpServer<SocketAddr>) {
    let mut http1 = server.http_builder().http1();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE);
    let mut http2 = server.http_builder().http2();
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE);
}

/// The address as a client on this machine writes it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A running server.
pub(crate) struct RunningServer {
    handle: Handle<SocketAddr>,
    /// The address it listens on.
    pub(crate) address: SocketAddr,
    ended: watch::Receiver<Option<Result<(), String>>>,
}

impl RunningServer {
    /// Waits until the server ends by itself, which is a failure.
    pub(crate) async fn ended(&self) -> anyhow::Result<()> {
        let mut ended = self.ended.clone();
        let outcome = ended
            .wait_for(Option::is_some)
            .await
            .map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Err(error))) => bail!(error),
            _ => Ok(()),
        }
    }

    /// Stops accepting requests and waits for running ones.
    pub(crate) async fn stop(&self) {
        self.handle.graceful_shutdown(Some(GRACE));
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(Option::is_some).await;
    }
}

/// Resolves at the first Ctrl-C or SIGTERM, or when standard input ends if that
/// is asked for; the second signal ends the process at once.
pub(crate) fn stop_signal(with_stdin: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stdin_ends = stdin_ends(with_stdin)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = stdin_ends => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(130);
        });
    })
}

/// Resolves when standard input ends, or never.
fn stdin_ends(is_asked: bool) -> anyhow::Result<impl Future<Output = ()>> {
    let (end, ended) = tokio::sync::oneshot::channel();
    if is_asked {
        // A dedicated thread: the runtime would wait for a blocked reader.
        let read = move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = end.send(());
        };
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(read)?;
    }
    Ok(async move {
        if !is_asked || ended.await.is_err() {
            std::future::pending().await
        }
    })
}
