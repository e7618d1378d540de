//! What counting load costs a vote: two running Ballasts, one of which counts,
//! asked by turns by the same client.

use std::fs;
use std::time::Duration;

use crate::http::client::{Measured, NUMBER, NUMBERS_PER_CONNECTION, load};
use crate::http::ms;
use crate::http::server::Ballast;
use crate::table::{Table, ratio, thousands};

/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// Rounds of each; the middle one counts.
const ROUNDS: usize = 9;
/// How long a round takes.
const ROUND: Duration = Duration::from_secs(2);

/// Prints the table.
pub(crate) async fn run() -> anyhow::Result<()> {
    let counting = started(true).await?;
    let silent = started(false).await?;
    let mut sides = Vec::new();
    for ballast in [&counting, &silent] {
        let tenant = ballast.tenant("acme").await?;
        let poll = tenant.poll("single votes").await?;
        sides.push((ballast, poll.vote(&format!("voter-{NUMBER}"))));
    }
    let mut rounds: [Vec<Measured>; 2] = [Vec::new(), Vec::new()];
    let mut next = 0;
    for turn in 0..ROUNDS {
        // Who is first has the cooler machine.
        for at in [turn % 2, (turn + 1) % 2] {
            let (ballast, vote) = &sides[at];
            rounds[at].push(load(ballast.address, CONNECTIONS, ROUND, next, vote).await?);
        }
        next += CONNECTIONS as u64 * NUMBERS_PER_CONNECTION;
    }
    let [ours, floor] = rounds.map(middle);
    let mut table = Table::new(&["one vote, durable", "/s", "p50", "p99"]);
    for (name, it) in [("load is counted", &ours), ("load is not counted", &floor)] {
        table.row([
            name.to_owned(),
            thousands(it.per_second as u64),
            ms(it.p50),
            ms(it.p99),
        ]);
    }
    let share = ratio(ours.per_second, floor.per_second);
    table.row(["share".to_owned(), share, String::new(), String::new()]);
    table.print(&format!(
        "What counting load costs, over {CONNECTIONS} connections"
    ));
    counting.stop().await?;
    silent.stop().await
}

async fn started(measure: bool) -> anyhow::Result<Ballast> {
    let place = tempfile::tempdir()?;
    let config = place.path().join("ballast.toml");
    fs::write(&config, format!("[load]\nmeasure = {measure}\n"))?;
    let config = config.to_string_lossy().into_owned();
    Ballast::start_with(place, &["--config", &config]).await
}

fn middle(mut rounds: Vec<Measured>) -> Measured {
    rounds.sort_by(|one, two| one.per_second.total_cmp(&two.per_second));
    rounds.swap_remove(rounds.len() / 2)
}
