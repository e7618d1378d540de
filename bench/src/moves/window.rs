//! The latency of votes during a migration's window, asynchronous and synchronous
//! (acknowledged only when both sides have it). In one run, by turns, on the same tenant.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::operator::Operator;
use super::pause::filled;
use super::room;
use super::voters::{Voters, due_within};
use crate::http::ms;
use crate::http::server::Ballast;
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, ratio};

const SHARDS: [&str; 2] = ["shard-1", "shard-2"];
const VOTERS: u64 = 100_000;
const VOTES_PER_SECOND: u64 = 2_000;
/// How often each kind is measured, and for how long.
const ROUNDS: usize = 4;
const LOOK: Duration = Duration::from_secs(4);

/// The tenant and its poll.
const KINDS: [(&str, Option<bool>); 3] = [
    ("no move", None),
    ("a window", Some(false)),
    ("a window in which both acknowledge", Some(true)),
];

/// Prints the table.
pub(super) async fn run(directory: &Path) -> anyhow::Result<()> {
    let ballast = Ballast::start_with(room(directory)?, &[]).await?;
    let mut operator = Operator::new(&ballast).await?;
    let tenant = ballast.tenant("acme").await?;
    let poll = filled(&tenant, VOTERS).await?;
    operator.place("acme", SHARDS[0]).await?;
    let clock = Arc::new(Stopwatch::start());
    let voters = Voters::start(&tenant, &poll, VOTERS, VOTES_PER_SECOND, &clock).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut looks = Vec::new();
    let mut moves = 0;
    for _ in 0..ROUNDS {
        for (kind, (_, sync)) in KINDS.into_iter().enumerate() {
            let open = match sync {
                Some(sync) => {
                    moves += 1;
                    let to = SHARDS[moves % 2];
                    Some(operator.open_window("acme", to, sync).await?)
                }
                None => None,
            };
            let from = clock.elapsed();
            tokio::time::sleep(LOOK).await;
            looks.push((kind, from, clock.elapsed()));
            if let Some(id) = open {
                operator.complete(&id).await?;
            }
        }
    }
    let votes = voters.stop().await?;
    ballast.stop().await?;
    let mut table = Table::new(&["votes in", "p50", "p99", "ratio of p50", "of p99"]);
    let mut floor = None;
    for (kind, (name, _)) in KINDS.into_iter().enumerate() {
        let mut samples = Samples::new();
        for (_, from, to) in looks.iter().filter(|(of, ..)| *of == kind) {
            let due = due_within(&votes.answered, *from, *to);
            due.for_each(|vote| samples.add(vote.took()));
        }
        let (p50, p99) = (samples.median(), samples.quantile(0.99));
        let (one, two) = *floor.get_or_insert((p50, p99));
        table.row([
            name.to_owned(),
            ms(p50),
            ms(p99),
            ratio(p50.as_secs_f64(), one.as_secs_f64()),
            ratio(p99.as_secs_f64(), two.as_secs_f64()),
        ]);
    }
    let failed = votes.failed;
    table.print(&format!(
        "Vote latency during the window: {VOTES_PER_SECOND} votes per second, {failed} errors"
    ));
    Ok(())
}
