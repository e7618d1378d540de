//! A cheap client: HTTP/1.1 over persistent connections, written by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stopwatch::{Samples, Stopwatch};

/// More requests than a connection sends in a round.
pub(crate) const NUMBERS_PER_CONNECTION: u64 = 100_000;

/// A persistent connection.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// The result of a load.
pub(crate) struct LoadResult {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Where the body of a response begins, and its length. The client shares the cores with
/// the server, so parsing has to be cheap.
fn head(buffer: &[u8]) -> Option<(usize, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut answer = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = answer.parse(buffer).ok()? else {
        return None;
    };
    let length = answer
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    Some((end, length.unwrap_or(0)))
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a request and reads the body of its response; any status but 2xx is an
    /// error.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Vec<u8>> {
        let (start, end) = self.exchange(request).await?;
        Ok(self.buffer[start..end].to_vec())
    }

    /// Sends a request, and returns where in the buffer the body is, without a copy.
    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(usize, usize)> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some((start, length)) = head(&self.buffer)
                && self.buffer.len() >= start + length
            {
                if self.buffer.get(9) != Some(&b'2') {
                    bail!("{}", String::from_utf8_lossy(&self.buffer));
                }
                return Ok((start, start + length));
            }
        }
    }

    /// Sends a body in pieces while reading the response, and counts its lines that say
    /// "counted".
    pub(crate) async fn stream(&mut self, head: &[u8], body: &[u8]) -> anyhow::Result<u64> {
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

/// The placeholder for a request's number.
pub(crate) const NUMBER: &str = "000000000";

/// A request with a number of its own.
struct Numbered {
    request: Vec<u8>,
    place: Option<usize>,
}

impl Numbered {
    fn new(request: &[u8]) -> Self {
        let mut places = request.windows(NUMBER.len());
        Self {
            place: places.position(|some| some == NUMBER.as_bytes()),
            request: request.to_vec(),
        }
    }

    fn with(&mut self, mut number: u64) -> &[u8] {
        if let Some(place) = self.place {
            for digit in self.request[place..place + NUMBER.len()].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        &self.request
    }
}

/// Sends requests over many connections for a while. Each request has a unique number,
/// counted up from `first`.
pub(crate) async fn load(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    first: u64,
    request: &[u8],
) -> anyhow::Result<LoadResult> {
    let mut tasks = Vec::new();
    let total = Arc::new(AtomicU64::new(0));
    for n in 0..connections as u64 {
        let mut request = Numbered::new(request);
        let mut connection = Connection::open(address).await?;
        let total = total.clone();
        tasks.push(async move {
            let mut samples = Samples::new();
            let own = Stopwatch::start();
            let mut number = first + n * NUMBERS_PER_CONNECTION;
            while own.elapsed() < time {
                let one = Stopwatch::start();
                connection.exchange(request.with(number)).await?;
                samples.add(one.elapsed());
                number += 1;
            }
            let asked = number - first - n * NUMBERS_PER_CONNECTION;
            total.fetch_add(asked, Ordering::Relaxed);
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
    Ok(LoadResult {
        per_second: total.load(Ordering::Relaxed) as f64 / seconds,
        p50: all.quantile(0.5),
        p99: all.quantile(0.99),
    })
}
