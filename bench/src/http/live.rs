//! Many viewers of one poll while votes arrive: how far behind is the slowest?

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::Connection;
use super::server::Tenant;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, thousands};

const VIEWERS: usize = 1_000;
const VOTES_PER_SECOND: u64 = 20_000;
const SECONDS: u64 = 10;
/// Votes are sent in batches, this many times a second.
const PORTIONS: u64 = 20;

/// What a viewer has seen.
#[derive(Default)]
struct Seen {
    total: AtomicU64,
    events: AtomicU64,
}

/// Prints the table.
pub(super) async fn run(tenant: &Tenant) -> anyhow::Result<()> {
    let poll = tenant.poll("watched").await?;
    let seen: Arc<Vec<Seen>> = Arc::new((0..VIEWERS).map(|_| Seen::default()).collect());
    for n in 0..VIEWERS {
        let mut connection = tenant.connect().await?;
        connection.stream.write_all(&poll.watch()).await?;
        tokio::spawn(watch(connection, seen.clone(), n));
    }
    // Every viewer has received the first event.
    while seen
        .iter()
        .any(|one| one.events.load(Ordering::Relaxed) == 0)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let clock = Arc::new(Stopwatch::start());
    // When how many votes had been acknowledged.
    let truth: Arc<Mutex<Vec<(Duration, u64)>>> = Arc::default();
    let observer = tokio::spawn(observe(seen.clone(), truth.clone(), clock.clone()));
    let mut voting = tenant.connect().await?;
    let portion = VOTES_PER_SECOND / PORTIONS;
    for n in 0..SECONDS * PORTIONS {
        let due = Duration::from_millis(n * 1_000 / PORTIONS);
        if let Some(early) = due.checked_sub(clock.elapsed()) {
            tokio::time::sleep(early).await;
        }
        let lines = poll.lines(n * portion, portion);
        let counted = voting.stream(&tenant.votes_head(), &lines).await?;
        if counted != portion {
            bail!("{counted} of {portion} votes were counted");
        }
        if let Ok(mut truth) = truth.lock() {
            truth.push((clock.elapsed(), (n + 1) * portion));
        }
    }
    let took = clock.elapsed();
    let last = SECONDS * PORTIONS * portion;
    while seen
        .iter()
        .any(|one| one.total.load(Ordering::Relaxed) < last)
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let caught_up = clock.elapsed().saturating_sub(took);
    let worst = observer.await?;
    let events: u64 = seen
        .iter()
        .map(|one| one.events.load(Ordering::Relaxed))
        .sum();
    let mut table = Table::new(&["viewers of one poll", ""]);
    let rate = last as f64 / took.as_secs_f64();
    table.row(["viewers".to_owned(), thousands(VIEWERS as u64)]);
    table.row(["votes per second".to_owned(), thousands(rate as u64)]);
    table.row([
        "events per viewer and second".to_owned(),
        format!("{:.1}", events as f64 / VIEWERS as f64 / took.as_secs_f64()),
    ]);
    table.row([
        "farthest behind the truth".to_owned(),
        format!("{:.2} s", worst.as_secs_f64()),
    ]);
    table.row([
        "all have seen the last vote after".to_owned(),
        format!("{:.2} s", caught_up.as_secs_f64()),
    ]);
    table.print("Live results (server-sent events)");
    Ok(())
}

/// Reads events without end; the last total counts.
async fn watch(mut connection: Connection, seen: Arc<Vec<Seen>>, place: usize) {
    let mut buffer = Vec::new();
    loop {
        match connection.stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some(end) = buffer.windows(2).rposition(|two| two == b"\n\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end + 2);
        for (start, _) in text.match_indices("\"total\":") {
            let digits: String = text[start + 8..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            if let Ok(total) = digits.parse() {
                seen[place].total.store(total, Ordering::Relaxed);
                seen[place].events.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Checks all viewers repeatedly: how long has the slowest viewer lacked an acknowledged
/// vote?
async fn observe(
    seen: Arc<Vec<Seen>>,
    truth: Arc<Mutex<Vec<(Duration, u64)>>>,
    clock: Arc<Stopwatch>,
) -> Duration {
    let mut worst = Duration::ZERO;
    let end = Duration::from_secs(SECONDS + 2);
    while clock.elapsed() < end {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let least = seen
            .iter()
            .map(|one| one.total.load(Ordering::Relaxed))
            .min();
        let now = clock.elapsed();
        if let (Some(least), Ok(truth)) = (least, truth.lock()) {
            let missing = truth.iter().find(|(_, acknowledged)| *acknowledged > least);
            if let Some((since, _)) = missing {
                worst = worst.max(now.saturating_sub(*since));
            }
        }
    }
    worst
}
