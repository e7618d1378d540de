//! The write pause at the cutover: migrations back and forth between two shards of a
//! running ballast, while the tenant's voters change their votes 5,000 times a second.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use super::operator::{Moved, Operator};
use super::phases::{self, Course};
use super::voters::{Answered, Voters, due_within, longest_silence};
use super::{Size, room};
use crate::http::ms;
use crate::http::server::{Ballast, Poll, Tenant};
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, thousands};

const VOTES_PER_SECOND: u64 = 5_000;
/// Concurrent votes while a tenant is filled.
const FILL: u64 = 500_000;
const SHARDS: [&str; 2] = ["shard-1", "shard-2"];
/// How long votes are measured before the first migration, for comparison.
const CALM: Duration = Duration::from_secs(5);

/// The measurements of one tenant's migrations.
struct PauseMeasurements {
    moves: Vec<Moved>,
    /// The longest time without an answer during each migration.
    silences: Samples,
    /// The same for each phase: how long it took, and its longest time without an answer.
    by_phase: Vec<(String, Samples, Samples)>,
    /// The longest time without an answer in spans of the same length without a
    /// migration.
    calm_silence: Duration,
    /// The latency of votes that were due in the second around a migration.
    around: Samples,
    /// The latency of votes before the first migration.
    calm: Samples,
    answered: u64,
    failed: u64,
    seconds: f64,
}

/// Prints the tables.
pub(super) async fn run(directory: &Path, sizes: &[Size]) -> anyhow::Result<()> {
    let heads = [
        "votes stored",
        "moves",
        "put off",
        "pause p50",
        "p99",
        "max",
        "no answer p50",
        "p99",
        "max",
        "without a move, max",
        "vote p99 around it",
        "p99 before",
        "votes /s",
        "errors",
        "a move takes",
    ];
    let mut table = Table::new(&heads);
    let mut phases = Vec::new();
    for size in sizes {
        let ballast = Ballast::start_with(room(directory)?, &[]).await?;
        let measured = measure(&ballast, *size).await?;
        ballast.stop().await?;
        table.row(row(size, &measured));
        phases.push((size.votes, measured.by_phase));
    }
    table.print(
        "Write pause at the cutover: migrations under 5,000 votes per second of the moving tenant",
    );
    let heads = [
        "votes stored",
        "phase",
        "it takes",
        "no answer p50",
        "p99",
        "max",
    ];
    let mut table = Table::new(&heads);
    for (votes, (phase, takes, silences)) in phases
        .iter()
        .flat_map(|(votes, all)| all.iter().map(move |one| (votes, one)))
    {
        table.row([
            thousands(*votes),
            phase.clone(),
            ms(takes.median()),
            ms(silences.median()),
            ms(silences.quantile(0.99)),
            ms(silences.quantile(1.0)),
        ]);
    }
    table.print("The longest time without an answer in each phase of these moves");
    Ok(())
}

fn row(size: &Size, it: &PauseMeasurements) -> Vec<String> {
    let mut pauses = Samples::new();
    for moved in &it.moves {
        pauses.add(Duration::from_millis(moved.pause_ms));
    }
    let whole = |duration: Duration| format!("{} ms", duration.as_millis());
    let put_off: u64 = it.moves.iter().map(|moved| moved.put_off).sum();
    let took: u64 = it.moves.iter().map(|moved| moved.took_ms).sum();
    let took = took as f64 / it.moves.len().max(1) as f64 / 1_000.0;
    vec![
        thousands(size.votes),
        it.moves.len().to_string(),
        put_off.to_string(),
        whole(pauses.median()),
        whole(pauses.quantile(0.99)),
        whole(pauses.quantile(1.0)),
        ms(it.silences.median()),
        ms(it.silences.quantile(0.99)),
        ms(it.silences.quantile(1.0)),
        ms(it.calm_silence),
        ms(it.around.quantile(0.99)),
        ms(it.calm.quantile(0.99)),
        thousands((it.answered as f64 / it.seconds) as u64),
        it.failed.to_string(),
        format!("{took:.1} s"),
    ]
}

async fn measure(ballast: &Ballast, size: Size) -> anyhow::Result<PauseMeasurements> {
    let tenant = ballast.tenant("acme").await?;
    let poll = filled(&tenant, size.votes).await?;
    let mut operator = Operator::new(ballast).await?;
    operator.place("acme", SHARDS[0]).await?;
    let clock = Arc::new(Stopwatch::start());
    let voters = Voters::start(&tenant, &poll, size.votes, VOTES_PER_SECOND, &clock).await?;
    // Skip the first second, in which the connections are opened.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calm_from = clock.elapsed();
    tokio::time::sleep(CALM).await;
    let calm_to = clock.elapsed();
    let (mut moves, mut courses) = (Vec::new(), Vec::new());
    for n in 1..=size.moves {
        let from = clock.elapsed();
        let moved = operator.move_to("acme", SHARDS[n % 2]).await?;
        courses.push(Course::new(from, clock.elapsed(), &moved));
        moves.push(moved);
    }
    let seconds = clock.elapsed().as_secs_f64();
    let votes = voters.stop().await?;
    let mut around = Samples::new();
    let mut silences = Samples::new();
    for course in &courses {
        let (from, to) = (course.begun, course.ended);
        let (at, silence) = longest_silence(&votes.answered, from, to);
        silences.add(silence);
        let half = Duration::from_millis(500);
        add(
            &mut around,
            &votes.answered,
            at.saturating_sub(half),
            at + half,
        );
    }
    let mut calm = Samples::new();
    add(&mut calm, &votes.answered, calm_from, calm_to);
    Ok(PauseMeasurements {
        moves,
        silences,
        by_phase: by_phase(&courses, &votes.answered),
        calm_silence: longest_silence(&votes.answered, calm_from, calm_to).1,
        around,
        calm,
        answered: votes.answered.len() as u64,
        failed: votes.failed,
        seconds,
    })
}

/// Prints in which phases the longest times without an answer were.
fn by_phase(courses: &[Course], votes: &[Answered]) -> Vec<(String, Samples, Samples)> {
    let names = phases::names(courses.iter()).into_iter();
    let felt = names.map(|phase| {
        let (mut takes, mut silences) = (Samples::new(), Samples::new());
        let spans = courses.iter().flat_map(Course::spans);
        for (_, from, to) in spans.filter(|(name, ..)| *name == phase) {
            takes.add(to - from);
            silences.add(longest_silence(votes, from, to).1);
        }
        (phase.to_owned(), takes, silences)
    });
    felt.collect()
}

fn add(samples: &mut Samples, votes: &[Answered], from: Duration, to: Duration) {
    for one in due_within(votes, from, to) {
        samples.add(one.took());
    }
}

/// Creates a poll with this many votes.
pub(super) async fn filled(tenant: &Tenant, votes: u64) -> anyhow::Result<Poll> {
    let poll = tenant.poll("the one that moves").await?;
    let mut connection = tenant.connect().await?;
    let mut first = 0;
    while first < votes {
        let some = FILL.min(votes - first);
        let lines = poll.lines(first, some);
        let counted = connection.stream(&tenant.votes_head(), &lines).await?;
        ensure!(counted == some, "{counted} of {some} votes were counted");
        first += some;
    }
    Ok(poll)
}
