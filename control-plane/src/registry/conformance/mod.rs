//! The conformance suite of the [`Registry`] port.
//!
//! Every implementation provides a [`Fixture`] and calls `suite!` in its tests; each
//! case becomes a test there. The cases only use the port, so that they describe the
//! contract and not an implementation.
//!
//! | cases | what they test |
//! |-------|---------------|
//! | [`commits`] | all or nothing, versions, expectations, concurrency |
//! | [`queries`] | terms, prefixes, order and pages |
//! | [`counting`] | tallies, now and in the past |
//! | [`history`] | records, revisions and time in the past |
//! | [`feed`] | the change feed, the audit log, waiting |
//! | [`side_data`] | remembered replies and last uses |
//! | [`reopening`] | a closed registry opens as it was |

pub(crate) mod commits;
pub(crate) mod counting;
pub(crate) mod feed;
pub(crate) mod history;
pub(crate) mod queries;
pub(crate) mod reopening;
pub(crate) mod side_data;

use std::collections::BTreeMap;

use async_trait::async_trait;
use ballast_domain::registry::{
    ABSENT, CommitError, EventQuery, Record, RecordKey, RecordKind, RecordQuery, RecordWrite,
    Registry, RegistryCommit, RegistryEvent,
};
use ballast_domain::residency::Residency;
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::tenant::{Slice, Tenant, TenantStatus};
use ballast_domain::{Actor, Timestamp};

use crate::registry::typed;
use crate::testing::ManualClock;

/// Gives the suite access to an implementation.
#[async_trait]
pub(crate) trait Fixture: Send + Sync {
    /// The implementation.
    type Store: Registry + Clone;

    /// Creates storage for an empty registry.
    async fn fresh() -> Self;

    /// Opens the registry in that storage.
    async fn open(&self) -> Self::Store;

    /// Closes it, so that it can be reopened.
    async fn close(&self, store: Self::Store);

    /// The clock that the registry uses.
    fn clock(&self) -> &ManualClock;
}

/// One test for each case. The compiler reports cases missing here as dead code.
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
                bodies_are_stored_verbatim
            }
            queries {
                a_term_finds_its_records
                terms_are_kept_replaced_and_removed
                records_come_in_the_order_of_their_ids
                pages_follow_each_other
                a_list_can_be_read_from_its_end
                a_prefix_narrows_a_list
                several_terms_must_all_hold
            }
            counting {
                a_tally_counts_its_slices
                a_tally_finds_its_records
                tallies_are_kept_and_removed
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
                changes_include_the_states_before_and_after
                changes_come_in_whole_commits
                events_come_newest_first
                events_are_filtered
                events_are_paged
                waiting_ends_with_a_commit
            }
            side_data {
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
                reopening_restores_everything
                revisions_and_versions_continue
                time_does_not_run_backwards_across_a_restart
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

/// A new, open registry.
async fn start<F: Fixture>() -> (F, F::Store) {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    (fixture, store)
}

/// The key of this tenant.
fn key(id: &str) -> RecordKey {
    RecordKey::new(RecordKind::Tenant, id)
}

/// A short JSON body that depends on the number.
fn body(number: u64) -> String {
    format!(r#"{{"n":{number}}}"#)
}

/// Writes a record without terms and tallies.
fn put(id: &str, expected: u64, body: impl Into<String>) -> RecordWrite {
    RecordWrite {
        key: key(id),
        expected,
        body: Some(body.into()),
        terms: Some(Vec::new()),
        tallies: Vec::new(),
    }
}

/// Creates a record without terms and tallies.
fn create(id: &str) -> RecordWrite {
    put(id, ABSENT, body(0))
}

/// Creates a record with these terms.
fn create_with_terms(id: &str, terms: &[&str]) -> RecordWrite {
    with_terms(create(id), terms)
}

/// Creates a record with these tallies.
fn create_with_tallies(id: &str, tallies: &[&str]) -> RecordWrite {
    with_tallies(create(id), tallies)
}

/// Removes a record.
fn remove(id: &str, expected: u64) -> RecordWrite {
    RecordWrite {
        body: None,
        terms: None,
        ..put(id, expected, "")
    }
}

fn with_terms(write: RecordWrite, terms: &[&str]) -> RecordWrite {
    RecordWrite {
        terms: Some(texts(terms)),
        ..write
    }
}

fn with_tallies(write: RecordWrite, tallies: &[&str]) -> RecordWrite {
    RecordWrite {
        tallies: texts(tallies),
        ..write
    }
}

fn keeping_terms(write: RecordWrite) -> RecordWrite {
    RecordWrite {
        terms: None,
        ..write
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A commit of these writes and nothing else.
fn commit(writes: Vec<RecordWrite>) -> RegistryCommit {
    RegistryCommit {
        actor: Actor::ballast("test"),
        action: "tenant.change",
        reason: None,
        expects: Vec::new(),
        writes,
        reply: None,
    }
}

/// Commits these writes, which must succeed.
async fn commit_writes(store: &dyn Registry, writes: Vec<RecordWrite>) -> u64 {
    store.commit(commit(writes)).await.unwrap()
}

/// Asserts that a commit conflicted on this record and these versions.
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

/// The ids of these records.
fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|one| one.key.id.as_str()).collect()
}

/// The ids of the records with all these terms.
async fn find_ids(store: &dyn Registry, terms: &[&str]) -> Vec<String> {
    let query = RecordQuery {
        terms: texts(terms),
        ..RecordQuery::all(RecordKind::Tenant, 1_000)
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

/// Everything visible through the port.
#[derive(Debug, PartialEq)]
struct RegistrySnapshot {
    revision: u64,
    records: Vec<Record>,
    found: Vec<Vec<String>>,
    tallies: Vec<BTreeMap<String, u64>>,
    past_tallies: Vec<BTreeMap<String, u64>>,
    events: Vec<RegistryEvent>,
    changes: Vec<RegistryEvent>,
}

/// Reads everything, including the records with each of `terms`.
async fn read_snapshot(store: &dyn Registry, terms: &[&str]) -> RegistrySnapshot {
    let revision = store.revision().await.unwrap();
    let mut picture = RegistrySnapshot {
        revision,
        records: Vec::new(),
        found: Vec::new(),
        tallies: Vec::new(),
        past_tallies: Vec::new(),
        events: store.events(&newest(1_000)).await.unwrap(),
        changes: store.changes(0, 1_000).await.unwrap(),
    };
    for kind in RecordKind::ALL {
        let records = store.list(&RecordQuery::all(kind, 1_000)).await.unwrap();
        picture.records.extend(records);
        picture.tallies.push(store.tallies(kind, "").await.unwrap());
        let past = store.tallies_at(kind, "", revision).await.unwrap();
        picture.past_tallies.push(past);
    }
    for term in terms {
        picture.found.push(find_ids(store, &[term]).await);
    }
    picture
}

/// The newest events of any kind.
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
    commit_writes(store, writes).await;
}
