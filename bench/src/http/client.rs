//! A client that costs little: HTTP/1.1 over kept connections, by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stopwatch::{Samples, Stopwatch};

/// A connection that is kept.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
}

/// What a load came to.
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// Where the body of an answer begins, and how long it is.
fn head(buffer: &[u8]) -> Option<(usize, usize)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..end])
        .ok()?
        .to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|length| length.trim().parse().ok());
    Some((end, length.unwrap_or(0)))
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and reads its answer's body; anything but 2xx is an
    /// error.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.stream.write_all(request).await?;
        loop {
            if let Some((start, length)) = head(&self.buffer)
                && self.buffer.len() >= start + length
            {
                let rest = self.buffer.split_off(start + length);
                let answer = std::mem::replace(&mut self.buffer, rest);
                if answer.get(9) != Some(&b'2') {
                    bail!("{}", String::from_utf8_lossy(&answer));
                }
                return Ok(answer[start..].to_vec());
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
        }
    }

    /// Sends a body in pieces while the answer is read; counts its lines that
    /// say "counted".
    pub(super) async fn stream(&mut self, head: &[u8], body: &[u8]) -> anyhow::Result<u64> {
        let (mut reading, mut writing) = self.stream.split();
        let send = async {
            writing.write_all(head).await?;
            for piece in body.chunks(64 << 10) {
                let size = format!("{:x}\r\n", piece.len());
                writing.write_all(size.as_bytes()).await?;
                writing.write_all(piece).await?;
                writing.write_all(b"\r\n").await?;
            }
            writing.write_all(b"0\r\n\r\n").await?;
            anyhow::Ok(())
        };
        let receive = async {
            let mut all = Vec::new();
            while !all.ends_with(b"\r\n0\r\n\r\n") {
                if reading.read_buf(&mut all).await? == 0 {
                    bail!("the server closed the connection");
                }
            }
            anyhow::Ok(all)
        };
        let ((), all) = tokio::try_join!(send, receive)?;
        let needle = b"\"counted\"";
        let counted = all.windows(needle.len()).filter(|some| some == needle);
        Ok(counted.count() as u64)
    }
}

/// Asks over many connections for a while. Each request has a number of its
/// own, counted up from `first`.
pub(super) async fn load(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    first: u64,
    request: &(dyn Fn(u64) -> Vec<u8> + Sync),
) -> anyhow::Result<Measured> {
    // Made before the watch runs: the client shares the cores.
    let per_connection = 20_000;
    let mut tasks = Vec::new();
    let total = Arc::new(AtomicU64::new(0));
    for n in 0..connections as u64 {
        let numbers = first + n * per_connection..first + (n + 1) * per_connection;
        let requests: Vec<Vec<u8>> = numbers.map(request).collect();
        let mut connection = Connection::open(address).await?;
        let total = total.clone();
        tasks.push(async move {
            let mut samples = Samples::new();
            let own = Stopwatch::start();
            for request in &requests {
                let one = Stopwatch::start();
                connection.ask(request).await?;
                samples.add(one.elapsed());
                total.fetch_add(1, Ordering::Relaxed);
                if own.elapsed() > time {
                    break;
                }
            }
            anyhow::Ok(samples)
        });
    }
    let began = Stopwatch::start();
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut all = Samples::new();
    for task in tasks {
        all.merge(task.await.context("a client failed")??);
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(Measured {
        per_second: total.load(Ordering::Relaxed) as f64 / seconds,
        p50: all.quantile(0.5),
        p99: all.quantile(0.99),
    })
}
