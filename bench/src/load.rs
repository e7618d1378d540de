//! What counting load costs a vote: two running Ballasts, one of which counts,
//! asked by turns by the same client.

use std::fs;
use std::time::Duration;

use crate::http::beside;
use crate::http::client::{Measured, NUMBER, NUMBERS_PER_CONNECTION, load};
use crate::http::server::Ballast;

/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// Pairs of processes that are compared: two of one kind are not quite as fast
/// as each other either.
const PAIRS: usize = 4;
/// Rounds of each; the middle one of all pairs counts.
const ROUNDS: usize = 4;
/// How long a round takes.
const ROUND: Duration = Duration::from_secs(2);

/// Prints the table.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut rounds: [Vec<Measured>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        compare(pair % 2 == 0, &mut rounds).await?;
    }
    let title = format!("What counting load costs, over {CONNECTIONS} connections");
    beside(&title, ["load is counted", "load is not counted"], rounds);
    Ok(())
}

/// Asks two new processes by turns, of which one counts.
async fn compare(counting_first: bool, rounds: &mut [Vec<Measured>; 2]) -> anyhow::Result<()> {
    let kinds = [counting_first, !counting_first];
    let mut sides = Vec::new();
    for counting in kinds {
        let ballast = started(counting).await?;
        let tenant = ballast.tenant("acme").await?;
        let poll = tenant.poll("single votes").await?;
        let vote = poll.vote(&format!("voter-{NUMBER}"));
        sides.push((usize::from(!counting), ballast, vote));
    }
    let mut next = 0;
    for turn in 0..ROUNDS {
        // Who is first has the cooler machine.
        for at in [turn % 2, (turn + 1) % 2] {
            let (kind, ballast, vote) = &sides[at];
            rounds[*kind].push(load(ballast.address, CONNECTIONS, ROUND, next, vote).await?);
        }
        next += CONNECTIONS as u64 * NUMBERS_PER_CONNECTION;
    }
    for (_, ballast, _) in sides {
        ballast.stop().await?;
    }
    Ok(())
}

async fn started(measure: bool) -> anyhow::Result<Ballast> {
    let place = tempfile::tempdir()?;
    let config = place.path().join("ballast.toml");
    fs::write(&config, format!("[load]\nmeasure = {measure}\n"))?;
    let config = config.to_string_lossy().into_owned();
    Ballast::start_with(place, &["--config", &config]).await
}
