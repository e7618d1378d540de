//! What a migration costs other tenants: two tenants that stay, one on each shard, vote
//! at a steady rate while a third one with a million votes moves back and forth.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::operator::Operator;
use super::pause::filled;
use super::phases::{self, Course};
use super::room;
use super::voters::{Answered, Voters, due_within};
use crate::http::ms;
use crate::http::server::Ballast;
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, ratio};

const SHARDS: [&str; 2] = ["shard-1", "shard-2"];
const MOVING: u64 = 1_000_000;
/// The voters of each tenant that stays, and their votes per second.
const VOTERS: u64 = 10_000;
const VOTES_PER_SECOND: u64 = 500;
/// The number of migrations, each after a quiet span of the same length.
const MOVES: usize = 10;
/// The shortest quiet span that a migration is compared with.
const CALM_MIN: Duration = Duration::from_secs(2);

/// Prints the table.
pub(super) async fn run(directory: &Path) -> anyhow::Result<()> {
    let ballast = Ballast::start_with(room(directory)?, &[]).await?;
    let mut operator = Operator::new(&ballast).await?;
    let moving = ballast.tenant("acme").await?;
    filled(&moving, MOVING).await?;
    operator.place("acme", SHARDS[0]).await?;
    let clock = Arc::new(Stopwatch::start());
    let mut staying = Vec::new();
    for (n, shard) in SHARDS.into_iter().enumerate() {
        let name = format!("neighbour-{n}");
        let tenant = ballast.tenant(&name).await?;
        let poll = filled(&tenant, VOTERS).await?;
        operator.place(&name, shard).await?;
        let voters = Voters::start(&tenant, &poll, VOTERS, VOTES_PER_SECOND, &clock).await?;
        staying.push(voters);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut calms, mut moves) = (Vec::new(), Vec::new());
    let mut last = CALM_MIN;
    for n in 1..=MOVES {
        // By turns, so that other load on the machine affects both.
        let from = clock.elapsed();
        tokio::time::sleep(last.max(CALM_MIN)).await;
        let begun = clock.elapsed();
        calms.push((from, begun));
        let moved = operator.move_to("acme", SHARDS[n % 2]).await?;
        moves.push(Move {
            course: Course::new(begun, clock.elapsed(), &moved),
            target: n % 2,
        });
        last = clock.elapsed() - begun;
    }
    let mut votes = Vec::new();
    let mut failed = 0;
    for voters in staying {
        let voted = voters.stop().await?;
        failed += voted.failed;
        votes.push(voted.answered);
    }
    ballast.stop().await?;

    print_effect(&calms, &moves, &votes, failed);
    by_phase(&moves, &votes);
    Ok(())
}

/// Prints the latency of the tenants that stay, with and without a migration.
fn print_effect(
    calms: &[(Duration, Duration)],
    moves: &[Move],
    votes: &[Vec<Answered>],
    failed: u64,
) {
    let heads = [
        "a tenant that stays",
        "p50",
        "p99",
        "p50 during a move",
        "p99",
        "ratio of p99",
    ];
    let mut table = Table::new(&heads);
    let mut calm = Samples::new();
    for (from, to) in calms {
        votes
            .iter()
            .for_each(|votes| add(&mut calm, votes, *from, *to));
    }
    for (name, on_target) in [("on the source", false), ("on the target", true)] {
        let mut during = Samples::new();
        for one in moves {
            let votes = &votes[one.neighbour(on_target)];
            add(&mut during, votes, one.course.begun, one.course.ended);
        }
        let (one, two) = (calm.quantile(0.99), during.quantile(0.99));
        table.row([
            name.to_owned(),
            ms(calm.median()),
            ms(one),
            ms(during.median()),
            ms(two),
            ratio(two.as_secs_f64(), one.as_secs_f64()),
        ]);
    }
    table.print(&format!(
        "Neighbours of a tenant with 1,000,000 votes that moves {MOVES} times: {VOTES_PER_SECOND} votes per second each, {failed} errors"
    ));
}

/// A migration.
struct Move {
    course: Course,
    /// The number of the target shard.
    target: usize,
}

impl Move {
    /// The tenant that stays on the target, or on the source.
    fn neighbour(&self, on_target: bool) -> usize {
        if on_target {
            self.target
        } else {
            1 - self.target
        }
    }
}

/// Prints the effect of each phase.
fn by_phase(moves: &[Move], votes: &[Vec<Answered>]) {
    let heads = [
        "phase",
        "it takes",
        "source p50",
        "p99",
        "target p50",
        "p99",
    ];
    let mut table = Table::new(&heads);
    for phase in phases::names(moves.iter().map(|one| &one.course)) {
        let mut takes = Samples::new();
        let mut felt = [Samples::new(), Samples::new()];
        for one in moves {
            for (_, from, to) in one.course.spans().filter(|(name, ..)| *name == phase) {
                takes.add(to - from);
                for (on_target, felt) in felt.iter_mut().enumerate() {
                    add(felt, &votes[one.neighbour(on_target == 1)], from, to);
                }
            }
        }
        let [source, target] = &mut felt;
        table.row([
            phase.to_owned(),
            ms(takes.median()),
            ms(source.median()),
            ms(source.quantile(0.99)),
            ms(target.median()),
            ms(target.quantile(0.99)),
        ]);
    }
    table.print("What neighbours feel of each phase");
}

fn add(samples: &mut Samples, votes: &[Answered], from: Duration, to: Duration) {
    for one in due_within(votes, from, to) {
        samples.add(one.took());
    }
}
