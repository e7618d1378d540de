//! Where the time of the write pause goes: sealing, copying the rest, comparing both
//! sides. By the stored rows, by the number of polls, and by the changes since the last
//! round. Also measures a comparison poll by poll.

use std::path::Path;

use ballast_migration_engine::copy::CopyProgress;
use ballast_migration_engine::worker::differing_polls;

use super::engines::{Moving, slice};
use super::room;
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, thousands};

/// Each is measured this often; the median counts.
const ROUNDS: usize = 9;

/// The parameter that varies.
#[derive(Clone, Copy)]
struct Case {
    stored: u64,
    polls: u64,
    changed: u64,
}

/// How long each part took.
struct Parts {
    seal: Samples,
    rest: Samples,
    compare: Samples,
    each_poll: Samples,
}

/// Prints the tables.
pub(super) async fn run(directory: &Path, largest: u64) -> anyhow::Result<()> {
    let case = |stored, polls, changed| Case {
        stored,
        polls,
        changed,
    };
    let mut stored = vec![10_000, 100_000, 1_000_000];
    stored.extend((largest > 1_000_000).then_some(largest));
    let by_stored: Vec<Case> = stored
        .into_iter()
        .map(|stored| case(stored, 1, 1_000))
        .collect();
    let by_polls = [1, 100, 10_000, 100_000].map(|polls| case(100_000, polls, 1_000));
    let by_changed = [0, 1_000, 10_000, 100_000].map(|changed| case(1_000_000, 1_000, changed));
    print(directory, "votes stored", &by_stored).await?;
    print(directory, "polls", &by_polls).await?;
    print(directory, "votes since the last round", &by_changed).await
}

async fn print(directory: &Path, by: &str, cases: &[Case]) -> anyhow::Result<()> {
    let heads = [
        "votes stored",
        "polls",
        "votes since",
        "seal",
        "copy the rest",
        "compare both sides",
        "compare poll by poll",
    ];
    let mut table = Table::new(&heads);
    for case in cases {
        let parts = measure(directory, *case).await?;
        let us = |samples: &Samples| format!("{} µs", samples.median().as_micros());
        table.row([
            thousands(case.stored),
            thousands(case.polls),
            thousands(case.changed),
            us(&parts.seal),
            us(&parts.rest),
            us(&parts.compare),
            us(&parts.each_poll),
        ]);
    }
    table.print(&format!("Within the pause, by {by}"));
    Ok(())
}

async fn measure(directory: &Path, case: Case) -> anyhow::Result<Parts> {
    let place = room(directory)?;
    let mut moving = Moving::new(place.path(), case.polls, case.stored).await?;
    let slice = slice()?;
    let mut copied = CopyProgress::default();
    let mut parts = Parts {
        seal: Samples::new(),
        rest: Samples::new(),
        compare: Samples::new(),
        each_poll: Samples::new(),
    };
    for _ in 0..ROUNDS {
        // Like before a cutover: nearly everything is copied and compared.
        moving.copy(&mut copied).await?;
        moving.sides.compare(&slice).await?;
        moving.vote(case.changed).await?;
        let watch = Stopwatch::start();
        moving.seal().await?;
        parts.seal.add(watch.elapsed());
        let watch = Stopwatch::start();
        moving.copy(&mut copied).await?;
        parts.rest.add(watch.elapsed());
        let watch = Stopwatch::start();
        let compared = moving.sides.compare(&slice).await?;
        parts.compare.add(watch.elapsed());
        anyhow::ensure!(compared.is_equal(), "both sides differ: {compared:?}");
        let watch = Stopwatch::start();
        let (source, target) = moving.sides.digests(&slice).await?;
        anyhow::ensure!(differing_polls(&source, &target).is_empty());
        parts.each_poll.add(watch.elapsed());
        moving.unseal().await?;
    }
    Ok(parts)
}
