//! The frequent queries of a registry, and how long they take.
//!
//! Two registries get the same queries by turns, so that noise affects both.

use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_domain::Timestamp;
use ballast_domain::registry::{
    EventQuery, RecordKey, RecordKind, RecordQuery, Registry, RegistryResult, slices_tally,
};

use super::Side;
use crate::sample;
use crate::stopwatch::{Samples, Stopwatch};

/// Items on a page.
const PAGE: u32 = 100;
/// How often a record is read, and how often a page.
const RECORDS: usize = 5_000;
const PAGES: usize = 500;

/// A query, and how long it took on each side.
pub(super) type Answer = (&'static str, [Samples; 2]);

/// A query.
enum Question {
    Get,
    GetAt,
    List { terms: Vec<String>, middle: bool },
    Tallies,
    TalliesAt,
    Changes,
    Events(EventQuery),
    RevisionAt,
}

/// Sends every query to both sides.
pub(super) async fn ask(sides: [&Side; 2]) -> RegistryResult<Vec<Answer>> {
    let mut answers = Vec::new();
    for (label, question) in questions() {
        let times = match question {
            Question::Get | Question::GetAt | Question::RevisionAt => RECORDS,
            _ => PAGES,
        };
        let mut samples = [const { Samples::new() }; 2];
        // A tenth as many run first, unmeasured.
        for n in 0..times + times / 10 {
            for (side, samples) in sides.iter().zip(&mut samples) {
                let watch = Stopwatch::start();
                once(side, &question, n).await?;
                if n >= times / 10 {
                    samples.add(watch.elapsed());
                }
            }
        }
        answers.push((label, samples));
    }
    Ok(answers)
}

/// Warms a registry's caches with every query.
pub(super) async fn warm_up(registry: &SqliteRegistry, tenants: usize) -> RegistryResult<()> {
    let side = Side {
        registry: registry.clone(),
        tenants,
    };
    for (_, question) in questions() {
        for n in 0..PAGES {
            once(&side, &question, n).await?;
        }
    }
    Ok(())
}

async fn once(side: &Side, question: &Question, n: usize) -> RegistryResult<usize> {
    let Side { registry, tenants } = side;
    let some = || sample::tenant_id(sample::mixed(n) % tenants);
    let key = || RecordKey::new(RecordKind::Tenant, some());
    let middle = *tenants as u64 / 2;
    Ok(match question {
        Question::Get => registry.get(&key()).await?.into_iter().count(),
        Question::GetAt => registry.get_at(&key(), middle).await?.into_iter().count(),
        Question::List {
            terms,
            middle: from_middle,
        } => {
            let query = RecordQuery {
                terms: terms.clone(),
                after: from_middle.then(some),
                ..RecordQuery::all(RecordKind::Tenant, PAGE)
            };
            registry.list(&query).await?.len()
        }
        Question::Tallies => registry.tallies(RecordKind::Tenant, "shard:").await?.len(),
        Question::TalliesAt => {
            let tallies = registry.tallies_at(RecordKind::Tenant, "shard:", middle);
            tallies.await?.len()
        }
        Question::Changes => registry.changes(middle, PAGE).await?.len(),
        Question::Events(query) => {
            let id = query.id.as_ref().map(|_| some());
            let query = EventQuery {
                id,
                ..query.clone()
            };
            registry.events(&query).await?.len()
        }
        Question::RevisionAt => {
            let moment = Timestamp::from_unix_ms(sample::AT.unix_ms() + 10);
            usize::from(registry.revision_at(moment).await? > 0)
        }
    })
}

fn questions() -> Vec<(&'static str, Question)> {
    let mut questions = vec![
        ("get", Question::Get),
        ("get at a past revision", Question::GetAt),
    ];
    questions.extend(lists());
    questions.extend([
        ("tallies of 100 shards", Question::Tallies),
        ("tallies at a past revision", Question::TalliesAt),
        ("changes, 100 from the middle", Question::Changes),
    ]);
    questions.extend(logs());
    questions.push(("revision at a moment", Question::RevisionAt));
    questions
}

/// Lists of tenants: the first page, or a page in the middle.
fn lists() -> impl Iterator<Item = (&'static str, Question)> {
    let region = |name: &str| format!("region:{name}");
    let status = |name: &str| format!("status:{name}");
    // Shard 7 is in `us`.
    let shard = || slices_tally("shard-7");
    let (active, suspended) = (status("active"), status("suspended"));
    [
        ("list, first page", vec![], false),
        ("list, any page", vec![], true),
        ("list by region", vec![region("eu")], false),
        ("list by region, any page", vec![region("eu")], true),
        ("list by a rare status", vec![suspended.clone()], false),
        (
            "list by region and status",
            vec![region("eu"), active.clone()],
            true,
        ),
        ("list by shard and status", vec![shard(), active], false),
        (
            "list by shard and a rare status",
            vec![shard(), suspended],
            false,
        ),
        (
            "list by shard and a region it is not in",
            vec![region("eu"), shard()],
            false,
        ),
    ]
    .into_iter()
    .map(|(label, terms, middle)| (label, Question::List { terms, middle }))
}

/// Pages of the audit log.
fn logs() -> impl Iterator<Item = (&'static str, Question)> {
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
        ..of(RecordKind::Tenant)
    };
    [
        ("events, newest 100", newest.clone()),
        ("events of tenants, newest 100", of(RecordKind::Tenant)),
        ("events of shards, newest 100", of(RecordKind::Shard)),
        ("events of one tenant", of_one),
    ]
    .map(|(label, query)| (label, Question::Events(query)))
    .into_iter()
}
