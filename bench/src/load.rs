//! What counting load costs a vote: two running Ballasts, one of which counts, measured
//! by turns with the same client.

use std::fs;
use std::time::Duration;

use crate::http::client::{LoadResult, NUMBER, NUMBERS_PER_CONNECTION, load};
use crate::http::print_comparison;
use crate::http::server::Ballast;

/// Concurrent connections.
const CONNECTIONS: usize = 64;
/// Pairs of processes to compare: even two identical processes are not equally fast.
const PAIRS: usize = 4;
/// Rounds of each pair; the median of all pairs counts.
const ROUNDS: usize = 4;
/// The length of a round.
const ROUND: Duration = Duration::from_secs(2);

/// Prints the table.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut rounds: [Vec<LoadResult>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        compare(pair % 2 == 0, &mut rounds).await?;
    }
    let title = format!("What counting load costs, over {CONNECTIONS} connections");
    print_comparison(&title, ["load is counted", "load is not counted"], rounds);
    Ok(())
}

/// Measures two new processes by turns, one of which counts load.
async fn compare(counting_first: bool, rounds: &mut [Vec<LoadResult>; 2]) -> anyhow::Result<()> {
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
        // Alternate the order, because the first one has the cooler machine.
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
