//! What is asked of a registry all day, and how long the answers take.

use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_domain::Timestamp;
use ballast_domain::registry::{
    EventQuery, Kind, RecordKey, RecordQuery, Registry, StoreResult, slices_on,
};

use crate::sample;
use crate::stopwatch::{Samples, Stopwatch};

/// Items on a page.
const PAGE: u32 = 100;
/// How often a record is asked for, and how often a page.
const RECORDS: usize = 5_000;
const PAGES: usize = 500;

/// Asks everything; returns how long each question took, many times.
pub(super) async fn ask(
    registry: &SqliteRegistry,
    tenants: usize,
) -> anyhow::Result<Vec<(&'static str, Samples)>> {
    let some = |n: usize| sample::tenant_id(sample::mixed(n) % tenants);
    let key = |n: usize| RecordKey::new(Kind::Tenant, some(n));
    let middle = registry.revision().await? / 2;
    let mut answers = Vec::new();

    let samples = timed(RECORDS, async |n| registry.get(&key(n)).await).await?;
    answers.push(("get", samples));
    let samples = timed(RECORDS, async |n| registry.get_at(&key(n), middle).await).await?;
    answers.push(("get at a past revision", samples));
    for (label, terms, after) in lists() {
        let samples = timed(PAGES, async |n| {
            let query = RecordQuery {
                terms: terms.clone(),
                after: after.then(|| some(n)),
                ..RecordQuery::all(Kind::Tenant, PAGE)
            };
            registry.list(&query).await
        });
        answers.push((label, samples.await?));
    }
    let samples = timed(PAGES, async |_| {
        registry.tallies(Kind::Tenant, "shard:").await
    })
    .await?;
    answers.push(("tallies of 100 shards", samples));
    let samples = timed(PAGES, async |_| {
        registry.tallies_at(Kind::Tenant, "shard:", middle).await
    });
    answers.push(("tallies at a past revision", samples.await?));
    let samples = timed(PAGES, async |_| registry.changes(middle, PAGE).await).await?;
    answers.push(("changes, 100 from the middle", samples));
    for (label, query) in logs() {
        let samples = timed(PAGES, async |n| {
            let id = query.id.as_ref().map(|_| some(n));
            registry
                .events(&EventQuery {
                    id,
                    ..query.clone()
                })
                .await
        });
        answers.push((label, samples.await?));
    }
    let moment = Timestamp::from_unix_ms(sample::AT.unix_ms() + 10);
    let samples = timed(RECORDS, async |_| registry.revision_at(moment).await).await?;
    answers.push(("revision at a moment", samples));
    Ok(answers)
}

/// Lists of tenants: terms, and whether from somewhere in the middle.
fn lists() -> Vec<(&'static str, Vec<String>, bool)> {
    let region = |name: &str| format!("region:{name}");
    let status = |name: &str| format!("status:{name}");
    // Shard 7 stands in `us`.
    let shard = || slices_on("shard-7");
    vec![
        ("list, first page", vec![], false),
        ("list, a page in the middle", vec![], true),
        ("list by region", vec![region("eu")], false),
        ("list by region, in the middle", vec![region("eu")], true),
        ("list by a rare status", vec![status("suspended")], false),
        (
            "list by region and status",
            vec![region("eu"), status("active")],
            true,
        ),
        (
            "list by shard and status",
            vec![shard(), status("active")],
            false,
        ),
        (
            "list by shard and a rare status",
            vec![shard(), status("suspended")],
            false,
        ),
        (
            "list by shard and a region it is not in",
            vec![region("eu"), shard()],
            false,
        ),
    ]
}

/// Pages of the audit log.
fn logs() -> Vec<(&'static str, EventQuery)> {
    let newest = EventQuery {
        limit: PAGE,
        ..EventQuery::default()
    };
    let of = |kind| EventQuery {
        kind: Some(kind),
        ..newest.clone()
    };
    let of_one = EventQuery {
        id: Some(String::new()),
        ..of(Kind::Tenant)
    };
    vec![
        ("events, newest 100", newest.clone()),
        ("events of tenants, newest 100", of(Kind::Tenant)),
        ("events of shards, newest 100", of(Kind::Shard)),
        ("events of one tenant", of_one),
    ]
}

/// How long each of so many askings takes; a tenth as many go before, unseen.
async fn timed<T>(
    times: usize,
    mut question: impl AsyncFnMut(usize) -> StoreResult<T>,
) -> StoreResult<Samples> {
    for n in 0..times / 10 {
        question(n).await?;
    }
    let mut samples = Samples::new();
    for n in 0..times {
        let watch = Stopwatch::start();
        std::hint::black_box(question(n).await?);
        samples.add(watch.elapsed());
    }
    Ok(samples)
}
