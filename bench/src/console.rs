//! What the console costs: its fleet page with many tenants, and how much its viewers
//! slow votes down.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::client::{Connection, LoadResult, NUMBER, NUMBERS_PER_CONNECTION, load};
use crate::http::server::{Ballast, Tenant};
use crate::http::{ms, print_comparison};
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, thousands};

/// Tenants of the fleet page.
const TENANTS: usize = 100_000;
/// How often the page is requested.
const ASKED: usize = 20;
/// Concurrent creators of tenants.
const CREATORS: usize = 16;
/// Viewers that watch the fleet during votes; each reloads the page once a round.
const WATCHERS: usize = 5;
/// Connections that vote.
const CONNECTIONS: usize = 64;
/// Rounds of each; the median counts.
const ROUNDS: usize = 9;
/// The length of a round.
const ROUND: Duration = Duration::from_secs(2);

/// Prints the tables.
pub(crate) async fn run() -> anyhow::Result<()> {
    let ballast = Ballast::start().await?;
    let visitor = Visitor::log_in(&ballast).await?;
    watched(&ballast, &visitor).await?;
    fleet(&ballast, &visitor).await?;
    ballast.stop().await
}

/// A viewer with a session.
#[derive(Clone)]
struct Visitor {
    address: SocketAddr,
    cookie: String,
}

impl Visitor {
    async fn log_in(ballast: &Ballast) -> anyhow::Result<Self> {
        let body = format!("token={}", ballast.token()?);
        let request = format!(
            "POST /console/login HTTP/1.1\r\nhost: b\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(ballast.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let cookie = answer
            .split_once("ballast_session=")
            .and_then(|(_, rest)| rest.split(';').next())
            .with_context(|| format!("login failed: {answer}"))?;
        Ok(Self {
            address: ballast.address,
            cookie: format!("ballast_session={cookie}"),
        })
    }

    fn request(&self, path: &str) -> String {
        let cookie = &self.cookie;
        format!("GET {path} HTTP/1.1\r\nhost: b\r\ncookie: {cookie}\r\n\r\n")
    }

    /// Loads the fleet page, and then follows it without end.
    async fn watch(self) -> anyhow::Result<()> {
        let mut page = Connection::open(self.address).await?;
        page.ask(self.request("/console").as_bytes()).await?;
        let mut live = TcpStream::connect(self.address).await?;
        let request = self.request("/console/live/fleet");
        live.write_all(request.as_bytes()).await?;
        let mut buffer = [0; 16 << 10];
        while live.read(&mut buffer).await? > 0 {}
        bail!("the stream of events ended")
    }
}

/// Votes by turns with and without viewers.
async fn watched(ballast: &Ballast, visitor: &Visitor) -> anyhow::Result<()> {
    let tenant = ballast.tenant("acme").await?;
    let poll = tenant.poll("single votes").await?;
    let vote = poll.vote(&format!("voter-{NUMBER}"));
    let mut rounds: [Vec<LoadResult>; 2] = [Vec::new(), Vec::new()];
    let mut next = 0;
    for turn in 0..ROUNDS {
        // Alternate the order, because the first one has the cooler machine.
        for side in [turn % 2, (turn + 1) % 2] {
            let watchers = if side == 0 { WATCHERS } else { 0 };
            let watching = (0..watchers).map(|_| tokio::spawn(visitor.clone().watch()));
            let watching: Vec<_> = watching.collect();
            rounds[side].push(load(ballast.address, CONNECTIONS, ROUND, next, &vote).await?);
            for one in watching {
                if one.is_finished() {
                    one.await??;
                } else {
                    one.abort();
                }
            }
            next += CONNECTIONS as u64 * NUMBERS_PER_CONNECTION;
        }
    }
    let watched = format!("{WATCHERS} watch the fleet");
    let title = format!("What the console costs a vote, over {CONNECTIONS} connections");
    print_comparison(&title, [watched.as_str(), "no viewers"], rounds);
    Ok(())
}

/// The fleet page with many tenants.
async fn fleet(ballast: &Ballast, visitor: &Visitor) -> anyhow::Result<()> {
    let token = ballast.token()?;
    let creators = (0..CREATORS).map(|part| create(ballast.address, token.clone(), part));
    let creators: Vec<_> = creators.map(tokio::spawn).collect();
    for creator in creators {
        creator.await??;
    }
    let mut table = Table::new(&["page", "bytes", "first", "p50", "longest"]);
    for path in [
        "/console",
        "/console/tenants",
        "/console/tenants?q=tenant-9",
    ] {
        let mut connection = Connection::open(ballast.address).await?;
        let request = visitor.request(path);
        let (mut samples, mut first, mut bytes) = (Samples::new(), Duration::ZERO, 0);
        for turn in 0..ASKED {
            let one = Stopwatch::start();
            bytes = connection.ask(request.as_bytes()).await?.len();
            let took = one.elapsed();
            samples.add(took);
            if turn == 0 {
                first = took;
            }
        }
        table.row([
            path.to_owned(),
            thousands(bytes as u64),
            ms(first),
            ms(samples.quantile(0.5)),
            ms(samples.quantile(1.0)),
        ]);
    }
    table.print(&format!("Pages with {} tenants", thousands(TENANTS as u64)));
    Ok(())
}

/// Creates tenants, each with a vote in a poll: tenants without votes are not shown.
async fn create(address: SocketAddr, token: String, part: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    for number in (part..TENANTS).step_by(CREATORS) {
        let name = format!("tenant-{number}");
        let body = format!(r#"{{"tenantID":"{name}"}}"#);
        let path = "/admin/v1/tenants";
        connection.ask(&post(path, &token, &body)).await?;
        let path = format!("{path}/{name}/keys");
        let made = connection.ask(&post(&path, &token, "{}")).await?;
        let made: serde_json::Value = serde_json::from_slice(&made)?;
        let key = made["key"].as_str().context("a key")?.to_owned();
        let tenant = Tenant { address, key };
        let poll = tenant.poll_over("one vote", &mut connection).await?;
        connection.ask(&poll.vote("ada")).await?;
    }
    Ok(())
}

fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
