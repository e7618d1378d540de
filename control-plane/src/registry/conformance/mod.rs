//! The one conformance suite of the [`Registry`] port.
//!
//! Every implementation makes a [`Fixture`] and calls `suite!` in its tests;
//! each case becomes a test of its own there. The cases ask only through the
//! port, so that they say what the contract is and not how it is kept.
//!
//! | cases | what they pin |
//! |-------|---------------|
//! | [`commits`] | all or nothing, versions, expectations, concurrency |
//! | [`finding`] | terms, prefixes, order and pages |
//! | [`counting`] | tallies, now and in the past |
//! | [`history`] | records, revisions and time in the past |
//! | [`feed`] | the change feed, the audit log, waiting |
//! | [`aside`] | remembered replies and last uses |
//! | [`reopening`] | a closed registry opens as it was |

pub(crate) mod aside;
pub(crate) mod commits;
pub(crate) mod counting;
pub(crate) mod feed;
pub(crate) mod finding;
pub(crate) mod history;
pub(crate) mod reopening;

use std::collections::BTreeMap;

use async_trait::async_trait;
use ballast_domain::registry::{
    ABSENT, Commit, CommitError, Event, EventQuery, Kind, Record, RecordKey, RecordQuery, Registry,
    Write,
};
use ballast_domain::residency::Residency;
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::tenant::{Slice, Tenant, TenantStatus};
use ballast_domain::{Actor, Timestamp};

use crate::registry::typed;
use crate::testing::ManualClock;

/// How the suite gets at an implementation.
#[async_trait]
pub(crate) trait Fixture: Send + Sync {
    /// The implementation.
    type Store: Registry + Clone;

    /// A place for a registry in which nothing has happened yet.
    async fn fresh() -> Self;

    /// Opens the registry in that place.
    async fn open(&self) -> Self::Store;

    /// Closes it, so that it can be opened again.
    async fn close(&self, store: Self::Store);

    /// The clock the registry reads.
    fn clock(&self) -> &ManualClock;
}

/// One test for each case. A case that is not named here is dead code, and
/// the compiler says so.
macro_rules! suite {
    ($fixture:ty) => {
        $crate::registry::conformance::suite! { $fixture:
            commits {
                a_record_reads_as_it_was_written
                each_kind_has_its_own_ids
                several_records_are_written_together
                creating_what_exists_conflicts
                changing_what_is_absent_conflicts
                one_stale_write_of_three_changes_nothing
                an_expected_version_must_hold
                a_tally_must_be_below_its_limit
                many_commits_at_once_stop_at_the_limit
                one_of_many_commits_at_once_wins_each_version
                many_commits_at_once_get_revisions_without_gaps
                a_removed_record_can_be_created_again
                a_record_is_written_once_per_commit
                a_commit_writes_only_so_many_records
                a_commit_without_writes_has_no_revision
                what_is_written_is_read_verbatim
            }
            finding {
                a_term_finds_its_records
                terms_are_kept_replaced_and_taken_away
                records_come_in_the_order_of_their_ids
                pages_follow_each_other
                a_list_can_be_read_from_its_end
                a_prefix_narrows_a_list
                several_terms_must_all_hold
            }
            counting {
                a_tally_counts_its_slices
                a_tally_finds_its_records
                tallies_are_kept_and_taken_away
                a_prefix_narrows_tallies
                tallies_are_known_in_the_past
            }
            history {
                a_record_is_known_at_every_revision
                a_kind_is_listed_at_every_revision
                a_moment_has_a_revision
                time_never_runs_backwards
            }
            feed {
                changes_resume_from_any_revision
                changes_carry_what_was_and_what_is
                changes_come_in_whole_commits
                events_come_newest_first
                events_are_filtered
                events_are_paged
                waiting_ends_with_a_commit
            }
            aside {
                a_reply_is_remembered_until_it_expires
                a_request_is_answered_once
                many_equal_requests_at_once_are_answered_once
                an_expired_request_may_be_asked_again
                expired_replies_are_forgotten
                a_refused_commit_leaves_no_reply
                the_latest_use_is_kept
                a_use_is_no_change
            }
            reopening {
                everything_is_as_it_was
                revisions_and_versions_go_on
                time_does_not_run_backwards_across_it
            }
        }
    };
    ($fixture:ty: $($module:ident { $($case:ident)+ })+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::registry::conformance::$module::$case::<$fixture>().await;
            }
        )+)+
    };
}
pub(crate) use suite;

/// A fresh, open registry.
async fn start<F: Fixture>() -> (F, F::Store) {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    (fixture, store)
}

/// The tenant record of this id.
fn key(id: &str) -> RecordKey {
    RecordKey::new(Kind::Tenant, id)
}

/// A short JSON body that differs from number to number.
fn body(number: u64) -> String {
    format!(r#"{{"n":{number}}}"#)
}

/// Writes a record without terms and tallies.
fn put(id: &str, expected: u64, body: impl Into<String>) -> Write {
    Write {
        key: key(id),
        expected,
        body: Some(body.into()),
        terms: Some(Vec::new()),
        tallies: Vec::new(),
    }
}

/// Creates a record without terms and tallies.
fn create(id: &str) -> Write {
    put(id, ABSENT, body(0))
}

/// Creates a record that is found by these terms.
fn create_with_terms(id: &str, terms: &[&str]) -> Write {
    with_terms(create(id), terms)
}

/// Creates a record that is counted by these tallies.
fn create_with_tallies(id: &str, tallies: &[&str]) -> Write {
    with_tallies(create(id), tallies)
}

/// Removes a record.
fn remove(id: &str, expected: u64) -> Write {
    Write {
        body: None,
        terms: None,
        ..put(id, expected, "")
    }
}

fn with_terms(write: Write, terms: &[&str]) -> Write {
    Write {
        terms: Some(texts(terms)),
        ..write
    }
}

fn with_tallies(write: Write, tallies: &[&str]) -> Write {
    Write {
        tallies: texts(tallies),
        ..write
    }
}

fn keeping_terms(write: Write) -> Write {
    Write {
        terms: None,
        ..write
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A commit of these writes and nothing else.
fn commit(writes: Vec<Write>) -> Commit {
    Commit {
        actor: Actor::ballast("test"),
        action: "tenant.change",
        reason: None,
        expects: Vec::new(),
        writes,
        reply: None,
    }
}

/// Commits these writes, which must succeed.
async fn done(store: &dyn Registry, writes: Vec<Write>) -> u64 {
    store.commit(commit(writes)).await.unwrap()
}

/// Asserts that a commit was refused for this record and these versions.
#[track_caller]
fn assert_conflict(outcome: Result<u64, CommitError>, id: &str, expected: u64, found: u64) {
    match outcome {
        Err(CommitError::Conflict {
            key: at,
            expected: wanted,
            found: had,
        }) => assert_eq!((at, wanted, had), (key(id), expected, found)),
        other => panic!("expected a conflict over {id}, got {other:?}"),
    }
}

/// The ids of a list.
fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|one| one.key.id.as_str()).collect()
}

/// The ids of the records that have all these terms.
async fn found(store: &dyn Registry, terms: &[&str]) -> Vec<String> {
    let query = RecordQuery {
        terms: texts(terms),
        ..RecordQuery::all(Kind::Tenant, 1_000)
    };
    let records = store.list(&query).await.unwrap();
    records.into_iter().map(|one| one.key.id).collect()
}

fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|(tally, count)| ((*tally).to_owned(), *count))
        .collect()
}

/// All that can be seen of a registry through its port.
#[derive(Debug, PartialEq)]
struct Picture {
    revision: u64,
    records: Vec<Record>,
    found: Vec<Vec<String>>,
    tallies: Vec<BTreeMap<String, u64>>,
    past_tallies: Vec<BTreeMap<String, u64>>,
    events: Vec<Event>,
    changes: Vec<Event>,
}

/// Looks at everything, and at the records found by each of `terms`.
async fn picture(store: &dyn Registry, terms: &[&str]) -> Picture {
    let revision = store.revision().await.unwrap();
    let mut picture = Picture {
        revision,
        records: Vec::new(),
        found: Vec::new(),
        tallies: Vec::new(),
        past_tallies: Vec::new(),
        events: store.events(&newest(1_000)).await.unwrap(),
        changes: store.changes(0, 1_000).await.unwrap(),
    };
    for kind in Kind::ALL {
        let records = store.list(&RecordQuery::all(kind, 1_000)).await.unwrap();
        picture.records.extend(records);
        picture.tallies.push(store.tallies(kind, "").await.unwrap());
        let past = store.tallies_at(kind, "", revision).await.unwrap();
        picture.past_tallies.push(past);
    }
    for term in terms {
        picture.found.push(found(store, &[term]).await);
    }
    picture
}

/// The newest events, whatever they are about.
fn newest(limit: u32) -> EventQuery {
    EventQuery {
        limit,
        ..EventQuery::default()
    }
}

/// Commits one shard, `shard-1`, and one tenant on it, `acme`.
pub(crate) async fn seed_fleet(store: &dyn Registry) {
    let created_at = Timestamp::from_unix_ms(1_794_821_400_000);
    let shard = Shard {
        shard_id: "shard-1".parse().unwrap(),
        url: "file:shards/shard-1".to_owned(),
        region: "local".parse().unwrap(),
        zones: Vec::new(),
        weight: 1.0,
        state: ShardState::Active,
        max_slices: 1_000,
        pressure: Pressure::Calm,
        created_at,
    };
    let tenant = Tenant {
        tenant_id: "acme".parse().unwrap(),
        name: "Acme".to_owned(),
        organisation: None,
        status: TenantStatus::Active,
        home_region: "local".parse().unwrap(),
        residency: Residency::Strict,
        zones: Vec::new(),
        limits: Default::default(),
        cors_origins: Vec::new(),
        slices: vec![Slice::placed(0, shard.shard_id.clone(), created_at)],
        pin: None,
        dial: ballast_domain::tenant::Dial::Active,
        next_slice: None,
        slicing: None,
        last_slicing: None,
        created_at,
    };
    let writes = vec![
        typed::create(&shard, Vec::new()).unwrap(),
        typed::create(&tenant, Vec::new()).unwrap(),
    ];
    done(store, writes).await;
}
