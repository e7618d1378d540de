//! Batches, limits and rows.

use ballast_domain::ItemId;
use ballast_domain::bounds::BALLOTS_MAX;
use ballast_domain::poll::{BallotRefusal, RequestId};
use ballast_domain::tenant::Epoch;

use super::builders::*;
use super::snapshot::snapshot;
use super::{ShardFixture, crash};
use crate::shard::{RowVersion, VoterName, VoterRow};

/// A batch is judged in order, each ballot independently, with mixed and
/// unknown polls and unknown items.
pub async fn a_batch_is_judged_ballot_by_ballot<F: ShardFixture>() {
    let (one, two, unknown) = (poll(1), changeable(2), poll(9));
    let (_fixture, shard) = owner::<F>(&[one.clone(), two.clone()]).await;
    let strange = ballast_domain::poll::Ballot {
        item: ItemId::from_number(5),
        ..ballot(&one, "x", 0, 1)
    };
    let of_another_poll = ballast_domain::poll::Ballot {
        item: two.item_id(0),
        ..ballot(&one, "x", 0, 1)
    };
    let batch = [
        ballot(&one, "v", 0, 1),
        ballot(&unknown, "v", 0, 2),
        ballot(&two, "v", 0, 3),
        ballot(&one, "v", 1, 4),
        strange,
        ballot(&two, "v", 1, 5),
        of_another_poll,
        ballot(&one, "v", 0, 6),
        ballot(&one, "w", 0, 7),
        withdrawal(&two, "v", 1, 8),
    ];
    let verdicts = shard.cast(&at_epoch(1), &batch).await.unwrap();
    let expected = [
        counted(1),
        refused(BallotRefusal::PollNotFound),
        counted(1),
        refused_as_already_voted(&one, &[0]),
        refused(BallotRefusal::ItemNotFound),
        counted(2),
        refused(BallotRefusal::ItemNotFound),
        already(1),
        counted(1),
        counted(3),
    ];
    assert_eq!(verdicts, expected);
    let seen = snapshot(&shard, &slice(), &["v", "w", "x"]).await;
    let counts: Vec<_> = seen
        .tallies
        .iter()
        .map(|tally| tally.counts.clone())
        .collect();
    assert_eq!(counts, [[2, 0, 0], [0, 0, 0]]);
    assert_eq!(seen.rows.len(), 3);
}

/// An empty batch gets no verdicts.
pub async fn an_empty_batch_has_no_verdicts<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    assert_eq!(shard.cast(&at_epoch(1), &[]).await.unwrap(), []);
}

/// The largest batch is judged and stored completely.
pub async fn the_largest_batch_is_judged<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let long = "x".repeat(120);
    let batch: Vec<_> = (0..BALLOTS_MAX)
        .map(|n| ballot(&poll(1), &format!("{long}{}", n % 8_000), (n % 3) as u16, 1))
        .collect();
    let verdicts = shard.cast(&at_epoch(1), &batch).await.unwrap();
    assert_eq!(verdicts.len(), BALLOTS_MAX);
    assert!(verdicts.iter().all(|verdict| *verdict == counted(1)));
    let shard = crash(&fixture, shard).await;
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (8_000, 8_000));
}

/// With many concurrent clients every voter is counted once.
pub async fn many_clients_at_once_are_counted_once_each<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..16_u64 {
        let shard = shard.clone();
        clients.spawn(async move {
            let mut first = 0;
            for n in 0..50 {
                let asked = ballot(&poll(1), &format!("v{n}"), 0, client);
                first += u64::from(cast(&shard, asked).await == counted(1));
            }
            first
        });
    }
    let counted: u64 = clients.join_all().await.into_iter().sum();
    assert_eq!(counted, 50);
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (50, 50));
}

/// A row records the choices, the revision, the requests and the time.
pub async fn a_row_records_choices_revisions_requests_and_time<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[changeable(1)]).await;
    let poll = changeable(1);
    let row = |items: &[u16], revision, requests: &[(u64, u32)], at| VoterRow {
        poll: poll.poll_id,
        voter: VoterName::Named(voter("Zoë / 1")),
        items: items.to_vec(),
        version: RowVersion {
            epoch: Epoch(1),
            revision,
        },
        requests: requests
            .iter()
            .map(|(id, made)| (RequestId(*id), *made))
            .collect(),
        voted_at: time(at),
    };
    let read = |shard: super::SharedShard| async move {
        let (here, name) = (slice(), voter("Zoë / 1"));
        let row = shard.voter(&here, changeable(1).poll_id, &name).await;
        row.unwrap()
    };
    assert_eq!(read(shard.clone()).await, None);
    cast(&shard, ballot(&poll, "Zoë / 1", 2, 7)).await;
    assert_eq!(read(shard.clone()).await, Some(row(&[2], 1, &[(7, 1)], 0)));
    fixture
        .clock()
        .advance(ballast_domain::bounds::ARRIVAL_ALLOWANCE_MS + 5);
    cast(&shard, ballot(&poll, "Zoë / 1", 0, 8)).await;
    let second = row(&[0], 2, &[(7, 1), (8, 2)], 5);
    assert_eq!(read(shard.clone()).await, Some(second));
    cast(&shard, withdrawal(&poll, "Zoë / 1", 0, 9)).await;
    let third = row(&[], 3, &[(7, 1), (8, 2), (9, 3)], 5);
    let shard = crash(&fixture, shard).await;
    assert_eq!(read(shard).await, Some(third));
}

/// A full shard accepts no new voters; known ones get their answers and may
/// change their votes.
pub async fn a_full_shard_takes_no_new_voters<F: ShardFixture>() {
    let fixture = F::fresh().await;
    let Some(shard) = fixture.open_for(3).await else {
        return;
    };
    shard.adopt(&at_epoch(1)).await.unwrap();
    let poll = changeable(1);
    shard.create_poll(&at_epoch(1), poll.clone()).await.unwrap();
    let batch: Vec<_> = (0..5)
        .map(|n| ballot(&poll, &format!("v{n}"), 0, n))
        .collect();
    let verdicts = shard.cast(&at_epoch(1), &batch).await.unwrap();
    let full = refused(BallotRefusal::ShardFull);
    let expected = [
        counted(1),
        counted(1),
        counted(1),
        full.clone(),
        full.clone(),
    ];
    assert_eq!(verdicts, expected);
    assert_eq!(shard.usage().await.voters_in_memory_max, 3);
    assert_eq!(cast(&shard, ballot(&poll, "v0", 0, 0)).await, counted(1));
    assert_eq!(cast(&shard, ballot(&poll, "v1", 0, 50)).await, already(1));
    assert_eq!(cast(&shard, ballot(&poll, "v2", 1, 51)).await, counted(2));
    assert_eq!(
        cast(&shard, withdrawal(&poll, "v2", 1, 52)).await,
        counted(3)
    );
    assert_eq!(cast(&shard, ballot(&poll, "v3", 0, 53)).await, full);
    fixture.close(shard).await;
    let shard = fixture.open_for(4).await.unwrap();
    assert_eq!(cast(&shard, ballot(&poll, "v3", 0, 54)).await, counted(1));
    assert_eq!(cast(&shard, ballot(&poll, "v4", 0, 55)).await, full);
    let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![3, 0, 0], 3));
}
