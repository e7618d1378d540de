//! Hundreds of concurrent executions: every answered write is there, in order.

use super::StoreFixture;
use super::helpers::*;
use crate::store::{ExecutionQuery, StoredStatus};

const EXECUTIONS: u64 = 300;
const STEPS: u64 = 8;

/// Steps of many executions share syncs and nothing else.
pub async fn many_executions_step_at_once<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let runs = (0..EXECUTIONS).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = format!("x{n}");
            let lease = create(&store, &id).await;
            for seq in 2..=STEPS {
                let mut next = step(&lease, seq);
                next.entries[0].event = format!(r#"{{"of":{n},"seq":{seq}}}"#);
                next.entries[0].history = vec![format!(r#"{{"of":{n},"id":{seq}}}"#)];
                if seq == STEPS && n % 3 == 0 {
                    next = ending_step(next, StoredStatus::Succeeded, 20);
                } else if seq % 3 == n % 3 {
                    next = with_snapshot(next, &format!("{n}/{seq}"));
                }
                append(&store, next).await;
            }
        })
    });
    let runs: Vec<_> = runs.collect();
    for run in runs {
        run.await.unwrap();
    }
    let done = EXECUTIONS / 3;
    let counts = store.counts().await.unwrap();
    let expected = [
        (StoredStatus::Running, EXECUTIONS - done),
        (StoredStatus::Succeeded, done),
    ];
    assert_eq!(counts, expected.into());
    let rows = store.list(&ExecutionQuery::newest(1_000)).await.unwrap();
    assert_eq!(rows.len() as u64, EXECUTIONS);
    for row in rows {
        let actual: Vec<_> = history(&store, &row.id).await.into_iter().skip(1).collect();
        let of = row.id.trim_start_matches('x');
        let expected = (2..=STEPS).map(|id| format!(r#"{{"of":{of},"id":{id}}}"#));
        assert_eq!(actual, expected.collect::<Vec<_>>());
    }
    let by = claimant("b", 5_000, 9_000);
    let claims = store.claim(&by, 1_000).await.unwrap();
    assert_eq!(claims.len() as u64, EXECUTIONS - done);
    for claim in claims {
        let of = claim.row.id.trim_start_matches('x');
        let snapshot = claim.snapshot.unwrap();
        assert_eq!(snapshot.text, format!("{of}/{}", snapshot.seq));
        let seqs: Vec<_> = claim.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (snapshot.seq + 1..=STEPS).collect::<Vec<_>>());
        let mine = |event: &str| event.starts_with(&format!(r#"{{"of":{of},"#));
        assert!(claim.entries.iter().all(|entry| mine(&entry.event)));
    }
}

/// Workers take executions over from each other: no step is lost, repeated or out
/// of order.
pub async fn workers_take_executions_over_from_each_other<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for n in 0..20 {
        create_new(&store, parked(&format!("x{n}"), Some(0))).await;
    }
    let workers = (0..6_i64).map(|w| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut appended = 0;
            for now_ms in 0..60 {
                // Every other lease has expired when the next worker claims.
                let by = claimant(&format!("w{w}"), now_ms, now_ms + w % 2);
                for claim in store.claim(&by, 5).await.unwrap() {
                    let seq = claim.row.next_seq;
                    let known = claim.entries.last().map(|entry| entry.seq);
                    assert_eq!(known, Some(seq - 1));
                    let next = parking_step(step(&claim.lease, seq), Some(now_ms + 1));
                    appended += u64::from(store.append(next).await.is_ok());
                }
            }
            appended
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut appended = 0;
    for worker in workers {
        appended += worker.await.unwrap();
    }
    let mut found = 0;
    for row in store.list(&ExecutionQuery::newest(100)).await.unwrap() {
        let told_there = history(&store, &row.id).await;
        let expected: Vec<_> = (1..row.next_seq).map(history_event).collect();
        assert_eq!(told_there, expected);
        found += row.next_seq - 2;
    }
    assert_eq!(found, appended);
}

/// Concurrent messages get one order, each once, while the execution keeps reading
/// them.
pub async fn concurrent_messages_are_all_read<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let senders = (0..10).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            for m in 0..10 {
                let key = format!("{n}-{m}");
                let (one, two) = tokio::join!(
                    store.post("x", post(&key, 5)),
                    store.post("x", post(&key, 5))
                );
                assert_ne!(one.unwrap(), two.unwrap());
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let mut heard = Vec::new();
    let mut seq = 2;
    while heard.len() < 100 {
        let mail = store
            .unread_messages(std::slice::from_ref(&lease))
            .await
            .unwrap();
        let Some(mail) = mail.into_iter().next() else {
            tokio::task::yield_now().await;
            continue;
        };
        let last = mail.messages.last().unwrap().number;
        heard.extend(mail.messages);
        append(&store, marking_read(step(&lease, seq), last)).await;
        seq += 1;
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let numbers: Vec<_> = heard.iter().map(|message| message.number).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    assert_eq!(get_row(&store, "x").await.waiting, 0);
}
