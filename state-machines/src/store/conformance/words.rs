//! Short words for the cases: a definition `d1` of the workflow `copying`,
//! entries with one history event each, workers `a` and `b`.

use super::{Fixture, Opened};
use crate::store::{
    Appended, Claim, Claimant, Created, Definition, Entry, HistoryPage, HistoryQuery, Lease, New,
    Post, Posted, Recorded, Row, Standing, Start, Status, Step, Then,
};

/// When the first leases of the cases run out.
pub(crate) const LEASE_END: i64 = 1_000;

/// A fresh, open store that knows the definitions `d1` and `d2`.
pub(crate) async fn start<F: Fixture>() -> (F, Opened) {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    for (name, hash) in [("copying", "d1"), ("moving", "d2")] {
        store
            .keep_definition(&definition(name, hash))
            .await
            .unwrap();
    }
    (fixture, store)
}

pub(crate) fn definition(name: &str, hash: &str) -> Definition {
    Definition {
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
pub(crate) fn told(id: u64) -> String {
    format!(r#"{{"id":{id},"type":"Told"}}"#)
}

/// An entry with one history event, both of this number.
pub(crate) fn entry(seq: u64) -> Entry {
    Entry {
        at_ms: 10 + seq.cast_signed(),
        event: event(seq),
        history: vec![told(seq)],
    }
}

/// The same as it is read back.
pub(crate) fn recorded(seq: u64) -> Recorded {
    Recorded {
        seq,
        at_ms: 10 + seq.cast_signed(),
        event: event(seq),
    }
}

/// An execution of `copying` with one entry, held by worker `a` until
/// [`LEASE_END`].
pub(crate) fn new(id: &str) -> New {
    New {
        id: id.to_owned(),
        workflow: "copying".to_owned(),
        definition: "d1".to_owned(),
        input: r#"{"n":1}"#.to_owned(),
        at_ms: 10,
        entries: vec![entry(1)],
        standing: Standing::running(r#"["First"]"#),
        snapshot: None,
        start: Start::Held {
            worker: "a".to_owned(),
            until_ms: LEASE_END,
        },
    }
}

/// The same, held by nobody.
pub(crate) fn parked(id: &str, wake_at_ms: Option<i64>) -> New {
    New {
        start: Start::Parked { wake_at_ms },
        ..new(id)
    }
}

/// A step of one entry that keeps the lease.
pub(crate) fn step(lease: &Lease, seq: u64) -> Step {
    Step {
        lease: lease.clone(),
        seq,
        first_history_id: seq,
        entries: vec![entry(seq)],
        standing: Standing::running(format!(r#"["At{seq}"]"#)),
        taken: 0,
        snapshot: None,
        then: Then::Keep,
    }
}

/// The same step, which gives up the lease.
pub(crate) fn parking(step: Step, wake_at_ms: Option<i64>) -> Step {
    Step {
        then: Then::Park { wake_at_ms },
        ..step
    }
}

/// The same step, which ends the execution.
pub(crate) fn ending(step: Step, status: Status, at_ms: i64) -> Step {
    Step {
        standing: Standing::ended(status, "[]", r#"{"done":true}"#, at_ms),
        ..step
    }
}

/// The same step, with a snapshot.
pub(crate) fn with_snapshot(step: Step, text: &str) -> Step {
    Step {
        snapshot: Some(text.to_owned()),
        ..step
    }
}

/// The same step, which has read the messages through this one.
pub(crate) fn taking(step: Step, taken: u64) -> Step {
    Step { taken, ..step }
}

pub(crate) fn by(worker: &str, now_ms: i64, until_ms: i64) -> Claimant {
    Claimant {
        worker: worker.to_owned(),
        now_ms,
        until_ms,
    }
}

pub(crate) fn post(key: &str, at_ms: i64) -> Post {
    Post {
        key: key.to_owned(),
        body: format!(r#"{{"say":"{key}"}}"#),
        at_ms,
    }
}

/// Creates an execution that a worker holds.
pub(crate) async fn create(store: &Opened, id: &str) -> Lease {
    created(store, new(id)).await.unwrap()
}

/// Creates an execution that must be new.
pub(crate) async fn created(store: &Opened, new: New) -> Option<Lease> {
    match store.create(new).await.unwrap() {
        Created::New(lease) => lease,
        Created::Before(row) => panic!("{} was there before", row.id),
    }
}

/// Appends a step that must be taken.
pub(crate) async fn append(store: &Opened, step: Step) -> Appended {
    store.append(step).await.unwrap()
}

/// Creates an execution and ends it.
pub(crate) async fn ended(store: &Opened, id: &str, status: Status, at_ms: i64) -> Lease {
    let lease = create(store, id).await;
    append(store, ending(step(&lease, 2), status, at_ms)).await;
    lease
}

/// Posts a message that must be new.
pub(crate) async fn posted(store: &Opened, id: &str, key: &str, at_ms: i64) -> u64 {
    match store.post(id, post(key, at_ms)).await.unwrap() {
        Posted::New(number) => number,
        Posted::Before(number) => panic!("{key} was there before, as {number}"),
    }
}

/// Claims what is due, for a lease of a thousand.
pub(crate) async fn claim(store: &Opened, worker: &str, now_ms: i64) -> Vec<Claim> {
    let by = by(worker, now_ms, now_ms + 1_000);
    store.claim(&by, 100).await.unwrap()
}

/// The ids of claims.
pub(crate) fn claimed(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.row.id.as_str()).collect()
}

pub(crate) async fn row(store: &Opened, id: &str) -> Row {
    store.get(id).await.unwrap().unwrap().row
}

/// The keys of the messages of a claim.
pub(crate) fn keys(claim: &Claim) -> Vec<&str> {
    let keys = claim.messages.iter();
    keys.map(|message| message.key.as_str()).collect()
}

/// The whole history of an execution, from its beginning.
pub(crate) async fn history(store: &Opened, id: &str) -> Vec<String> {
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: 1_000,
    };
    page(store, id, query).await.events
}

pub(crate) async fn page(store: &Opened, id: &str, query: HistoryQuery) -> HistoryPage {
    store.history(id, &query).await.unwrap().unwrap()
}
