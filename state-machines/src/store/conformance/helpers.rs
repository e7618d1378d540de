//! Helpers of the cases: a definition `d1` of the workflow `copying`, entries with
//! one history event each, workers `a` and `b`.

use super::{OpenStore, StoreFixture};
use crate::store::{
    AppendOutcome, Claimant, ClaimedExecution, CreateOutcome, ExecutionCreation, ExecutionRow,
    ExecutionState, ExecutionStep, HistoryPage, HistoryQuery, InitialLease, JournalEntry, Lease,
    LeaseAction, NewMessage, PostOutcome, StoredDefinition, StoredEntry, StoredStatus,
};

/// When the first leases of the cases expire.
pub(crate) const LEASE_END: i64 = 1_000;

/// A new, open store with the definitions `d1` and `d2`.
pub(crate) async fn start<F: StoreFixture>() -> (F, OpenStore) {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    for (name, hash) in [("copying", "d1"), ("moving", "d2")] {
        store
            .save_definition(&definition(name, hash))
            .await
            .unwrap();
    }
    (fixture, store)
}

pub(crate) fn definition(name: &str, hash: &str) -> StoredDefinition {
    StoredDefinition {
        name: name.to_owned(),
        hash: hash.to_owned(),
        text: format!(r#"{{"Comment":"{hash}"}}"#),
        at_ms: 5,
    }
}

/// The event of the entry with this seq.
pub(crate) fn event(seq: u64) -> String {
    format!(r#"{{"event":{seq}}}"#)
}

/// The history event with this id.
pub(crate) fn history_event(id: u64) -> String {
    format!(r#"{{"id":{id},"type":"Told"}}"#)
}

/// An entry with one history event, both with this number.
pub(crate) fn entry(seq: u64) -> JournalEntry {
    JournalEntry {
        at_ms: 10 + seq.cast_signed(),
        event: event(seq),
        history: vec![history_event(seq)],
    }
}

/// The same entry as stored.
pub(crate) fn stored_entry(seq: u64) -> StoredEntry {
    StoredEntry {
        seq,
        at_ms: 10 + seq.cast_signed(),
        event: event(seq),
    }
}

/// An execution of `copying` with one entry, held by worker `a` until
/// [`LEASE_END`].
pub(crate) fn new_execution(id: &str) -> ExecutionCreation {
    ExecutionCreation {
        id: id.to_owned(),
        workflow: "copying".to_owned(),
        definition: "d1".to_owned(),
        input: r#"{"n":1}"#.to_owned(),
        at_ms: 10,
        entries: vec![entry(1)],
        state: ExecutionState::running(r#"["First"]"#),
        snapshot: None,
        start: InitialLease::Held {
            worker: "a".to_owned(),
            until_ms: LEASE_END,
        },
    }
}

/// The same, parked.
pub(crate) fn parked(id: &str, wake_at_ms: Option<i64>) -> ExecutionCreation {
    ExecutionCreation {
        start: InitialLease::Parked { wake_at_ms },
        ..new_execution(id)
    }
}

/// A step with one entry that keeps the lease.
pub(crate) fn step(lease: &Lease, seq: u64) -> ExecutionStep {
    ExecutionStep {
        lease: lease.clone(),
        seq,
        first_history_id: seq,
        entries: vec![entry(seq)],
        state: ExecutionState::running(format!(r#"["At{seq}"]"#)),
        messages_read: 0,
        snapshot: None,
        lease_action: LeaseAction::Keep,
    }
}

/// The same step, but releasing the lease.
pub(crate) fn parking_step(step: ExecutionStep, wake_at_ms: Option<i64>) -> ExecutionStep {
    ExecutionStep {
        lease_action: LeaseAction::Park { wake_at_ms },
        ..step
    }
}

/// The same step, but ending the execution.
pub(crate) fn ending_step(step: ExecutionStep, status: StoredStatus, at_ms: i64) -> ExecutionStep {
    ExecutionStep {
        state: ExecutionState::ended(status, "[]", r#"{"done":true}"#, at_ms),
        ..step
    }
}

/// The same step, with a snapshot.
pub(crate) fn with_snapshot(step: ExecutionStep, text: &str) -> ExecutionStep {
    ExecutionStep {
        snapshot: Some(text.to_owned()),
        ..step
    }
}

/// The same step, marking messages up to this one as read.
pub(crate) fn marking_read(step: ExecutionStep, messages_read: u64) -> ExecutionStep {
    ExecutionStep {
        messages_read,
        ..step
    }
}

pub(crate) fn claimant(worker: &str, now_ms: i64, until_ms: i64) -> Claimant {
    Claimant {
        worker: worker.to_owned(),
        now_ms,
        until_ms,
    }
}

pub(crate) fn post(key: &str, at_ms: i64) -> NewMessage {
    NewMessage {
        key: key.to_owned(),
        body: format!(r#"{{"say":"{key}"}}"#),
        at_ms,
    }
}

/// Creates an execution that a worker holds.
pub(crate) async fn create(store: &OpenStore, id: &str) -> Lease {
    create_new(store, new_execution(id)).await.unwrap()
}

/// Creates an execution that must be new.
pub(crate) async fn create_new(store: &OpenStore, new: ExecutionCreation) -> Option<Lease> {
    match store.create(new).await.unwrap() {
        CreateOutcome::Created(lease) => lease,
        CreateOutcome::Existing(row) => panic!("{} was there before", row.id),
    }
}

/// Appends a step that must be accepted.
pub(crate) async fn append(store: &OpenStore, step: ExecutionStep) -> AppendOutcome {
    store.append(step).await.unwrap()
}

/// Creates an execution and ends it.
pub(crate) async fn ended(store: &OpenStore, id: &str, status: StoredStatus, at_ms: i64) -> Lease {
    let lease = create(store, id).await;
    append(store, ending_step(step(&lease, 2), status, at_ms)).await;
    lease
}

/// Posts a message that must be new.
pub(crate) async fn post_new(store: &OpenStore, id: &str, key: &str, at_ms: i64) -> u64 {
    match store.post(id, post(key, at_ms)).await.unwrap() {
        PostOutcome::Queued(number) => number,
        PostOutcome::Duplicate(number) => panic!("{key} was there before, as {number}"),
    }
}

/// Claims what is due, with leases of 1,000 ms.
pub(crate) async fn claim(store: &OpenStore, worker: &str, now_ms: i64) -> Vec<ClaimedExecution> {
    let by = claimant(worker, now_ms, now_ms + 1_000);
    store.claim(&by, 100).await.unwrap()
}

/// The ids of claimed executions.
pub(crate) fn claimed(claims: &[ClaimedExecution]) -> Vec<&str> {
    claims.iter().map(|claim| claim.row.id.as_str()).collect()
}

pub(crate) async fn get_row(store: &OpenStore, id: &str) -> ExecutionRow {
    store.get(id).await.unwrap().unwrap().row
}

/// The keys of a claimed execution's messages.
pub(crate) fn keys(claim: &ClaimedExecution) -> Vec<&str> {
    let keys = claim.messages.iter();
    keys.map(|message| message.key.as_str()).collect()
}

/// The whole history of an execution.
pub(crate) async fn history(store: &OpenStore, id: &str) -> Vec<String> {
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: 1_000,
    };
    page(store, id, query).await.events
}

pub(crate) async fn page(store: &OpenStore, id: &str, query: HistoryQuery) -> HistoryPage {
    store.history(id, &query).await.unwrap().unwrap()
}
