//! A running Ballast over HTTP, compared with a bare axum handler that reads the same
//! requests and answers with as many bytes. Both are separate processes on this machine,
//! measured with the same client over the same number of connections.

pub(crate) mod bare;
pub(crate) mod client;
mod live;
pub(crate) mod server;

use std::time::Duration;

use self::client::{NUMBER, NUMBERS_PER_CONNECTION, load};
use self::server::{Ballast, Bare, Tenant};
use crate::stopwatch::Stopwatch;
use crate::table::{Table, ratio, thousands};

/// Concurrent connections.
const CONNECTIONS: usize = 64;
/// Rounds of each contender; the median counts.
const ROUNDS: usize = 5;
/// The length of a round.
const ROUND: Duration = Duration::from_secs(2);

/// Prints the tables.
pub(crate) async fn run() -> anyhow::Result<()> {
    let ballast = Ballast::start().await?;
    let bare = Bare::start().await?;
    let tenant = ballast.tenant("acme").await?;
    requests(&ballast, &tenant, &bare).await?;
    stream(&tenant).await?;
    live::run(&tenant).await?;
    ballast.stop().await
}

/// Single requests, compared with the bare handler.
async fn requests(ballast: &Ballast, tenant: &Tenant, bare: &Bare) -> anyhow::Result<()> {
    let poll = tenant.poll("single votes").await?;
    let mut table = Table::new(&[
        "request",
        "ballast /s",
        "p50",
        "p99",
        "bare axum /s",
        "p50",
        "p99",
        "share",
    ]);
    let vote = poll.vote(&format!("voter-{NUMBER}"));
    let kinds = [
        ("one vote, durable", vote, "/vote"),
        ("resolve a key", tenant.resolve(), "/resolve"),
    ];
    let mut next = 0;
    for (name, request, bare_path) in kinds {
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(load(ballast.address, CONNECTIONS, ROUND, next, &request).await?);
            next += CONNECTIONS as u64 * NUMBERS_PER_CONNECTION;
            let same = bare.request(bare_path, &request);
            floor.push(load(bare.address, CONNECTIONS, ROUND, 0, &same).await?);
        }
        let (ours, floor) = (middle(ours), middle(floor));
        table.row([
            name.to_owned(),
            thousands(ours.per_second as u64),
            ms(ours.p50),
            ms(ours.p99),
            thousands(floor.per_second as u64),
            ms(floor.p50),
            ms(floor.p99),
            ratio(ours.per_second, floor.per_second),
        ]);
    }
    table.print(&format!("Single requests over {CONNECTIONS} connections"));
    Ok(())
}

/// Prints two kinds of rounds next to each other, and the first as a share of the second.
pub(crate) fn print_comparison(
    title: &str,
    names: [&str; 2],
    rounds: [Vec<client::LoadResult>; 2],
) {
    let [ours, floor] = rounds.map(middle);
    let mut table = Table::new(&["one vote, durable", "/s", "p50", "p99"]);
    for (name, it) in names.into_iter().zip([&ours, &floor]) {
        table.row([
            name.to_owned(),
            thousands(it.per_second as u64),
            ms(it.p50),
            ms(it.p99),
        ]);
    }
    let share = ratio(ours.per_second, floor.per_second);
    table.row(["share".to_owned(), share, String::new(), String::new()]);
    table.print(title);
}

/// The median round.
fn middle(mut rounds: Vec<client::LoadResult>) -> client::LoadResult {
    rounds.sort_by(|one, two| one.per_second.total_cmp(&two.per_second));
    rounds.swap_remove(rounds.len() / 2)
}

pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

/// One tenant, one poll, one stream.
async fn stream(tenant: &Tenant) -> anyhow::Result<()> {
    const VOTES: u64 = 1_000_000;
    let poll = tenant.poll("a stream").await?;
    let lines = poll.lines(0, VOTES);
    let mut connection = tenant.connect().await?;
    let watch = Stopwatch::start();
    let counted = connection.stream(&tenant.votes_head(), &lines).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let mut table = Table::new(&["one tenant, one poll, one connection", ""]);
    table.row(["votes counted".to_owned(), thousands(counted)]);
    let rate = (counted as f64 / seconds) as u64;
    table.row([
        "votes per second, each durable and answered".to_owned(),
        thousands(rate),
    ]);
    table.print("A stream of votes (NDJSON)");
    Ok(())
}
