//! The whole engine, on a simulated disk.

use std::sync::Arc;

use ballast_domain::poll::{
    Ballot, BallotOutcome, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice,
};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp, VoterId};

use crate::embedded::disk::{Crash, Disk, SimulatedDisk};
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{Cursor, ExportPage, FencedSlice, MigrationId, MigrationToken, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

fn open(disk: &SimulatedDisk) -> EmbeddedShard {
    EmbeddedShard::open(
        "shard-1",
        Arc::new(disk.clone()),
        ShardOptions::default(),
        Arc::new(SteppedClock::new(1_000)),
        Arc::new(SeedEntropy(7.into())),
    )
    .unwrap()
}

fn at_epoch() -> FencedSlice {
    FencedSlice {
        slice: SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice: 0,
        },
        epoch: Epoch::FIRST,
    }
}

fn poll() -> Poll {
    let items = ["one", "two"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    Poll {
        poll_id: PollId::from_number(5),
        request: RequestId(1),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: Timestamp::from_unix_ms(9_000),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: Timestamp::from_unix_ms(0),
        closed_at: None,
    }
}

fn ballot(voter: &str, item: u16, request: u64) -> Ballot {
    Ballot {
        poll: poll().poll_id,
        item: poll().item_id(item),
        voter: VoterId::new(voter).unwrap(),
        choice: VoteChoice::For,
        request: RequestId(request),
        arrived_at: Timestamp::from_unix_ms(1_000),
        if_revision: None,
    }
}

#[tokio::test]
async fn a_vote_is_counted_once_before_and_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let shard = open(&disk);
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    let ballots = [ballot("a", 0, 10), ballot("b", 1, 11), ballot("a", 0, 12)];
    let outcomes = shard.cast(&at_epoch(), &ballots).await.unwrap();
    let (counted, already) = (
        BallotOutcome::Counted { revision: 1 },
        BallotOutcome::Already { revision: 1 },
    );
    assert_eq!(outcomes, [counted.clone(), counted, already.clone()]);
    let before = shard.digests(&at_epoch().slice).await.unwrap();
    drop(shard);
    let shard = open(&disk);
    let again = shard
        .cast(&at_epoch(), &[ballot("b", 1, 99)])
        .await
        .unwrap();
    assert_eq!(again, [already]);
    let tally = shard
        .tally(&at_epoch().slice, poll().poll_id)
        .await
        .unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![1, 1], 2));
    assert_eq!(shard.digests(&at_epoch().slice).await.unwrap(), before);
}

/// Sizes at which a few hundred votes create segments, runs and merges.
fn small() -> ShardOptions {
    let mut options = ShardOptions::default();
    options.log.segment_bytes = 8 << 10;
    options.log.first_segment_bytes = 4 << 10;
    options.checkpoint_bytes = 1 << 40;
    options.feed_bytes = 0;
    options
}

fn open_small(disk: &SimulatedDisk) -> EmbeddedShard {
    let clock = Arc::new(SteppedClock::new(1_000));
    let entropy = Arc::new(SeedEntropy(7.into()));
    EmbeddedShard::open("shard-1", Arc::new(disk.clone()), small(), clock, entropy).unwrap()
}

async fn vote(shard: &EmbeddedShard, voters: std::ops::Range<u64>) {
    let ballots: Vec<_> = voters
        .map(|n| ballot(&format!("voter-{n}"), (n % 2) as u16, n))
        .collect();
    for outcome in shard.cast(&at_epoch(), &ballots).await.unwrap() {
        assert_eq!(outcome, BallotOutcome::Counted { revision: 1 });
    }
}

#[tokio::test]
async fn checkpoints_and_merges_keep_every_row_and_leave_no_litter() {
    let disk = SimulatedDisk::new(1);
    let shard = open_small(&disk);
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    for round in 0..20 {
        vote(&shard, round * 50..(round + 1) * 50).await;
        shard.checkpoint().await.unwrap();
    }
    vote(&shard, 1_000..1_020).await;
    let digests = shard.digests(&at_epoch().slice).await.unwrap();
    drop(shard);
    disk.crash(Crash::PowerLost);
    let names = disk.list().unwrap();
    assert!(names.len() < 20, "{names:?}");
    let on_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let seen = crate::embedded::inspect::inspect(&on_disk, true).unwrap();
    assert_eq!(seen.problems, [""; 0]);
    assert_eq!((seen.polls, seen.voters, seen.votes), (1, 1_020, 1_020));
    let shard = open_small(&disk);
    assert_eq!(shard.digests(&at_epoch().slice).await.unwrap(), digests);
    let tally = shard
        .tally(&at_epoch().slice, poll().poll_id)
        .await
        .unwrap();
    assert_eq!(tally.counts, [510, 510]);
    let again = shard
        .cast(&at_epoch(), &[ballot("voter-7", 1, 9_999)])
        .await;
    assert_eq!(again.unwrap(), [BallotOutcome::Already { revision: 1 }]);
    assert_eq!(shard.scrub(&at_epoch().slice).await.unwrap(), digests);
}

/// The slice leaves between the fence check and reading the rows from disk.
#[tokio::test]
async fn a_vote_in_a_cold_poll_is_fenced_when_its_slice_leaves() {
    let disk = SimulatedDisk::new(1);
    let shard = open_small(&disk);
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    vote(&shard, 0..300).await;
    shard.close_poll(&at_epoch(), poll().poll_id).await.unwrap();
    shard.checkpoint().await.unwrap();
    let ballots = [ballot("voter-8", 0, 8), ballot("nobody", 1, 1_236)];
    let now = Timestamp::from_unix_ms(1_000);
    let cast = async || {
        let cast = shard
            .decide(|core| core.cast(&at_epoch(), &ballots, now))
            .await;
        let cast = cast.unwrap();
        assert_eq!(cast.cold_ballots.len(), 2, "rows are on disk only");
        cast
    };
    let token = MigrationToken {
        migration_id: MigrationId("m1".to_owned()),
        token: 1,
    };
    let then = |epoch| FencedSlice {
        epoch: Epoch(epoch),
        ..at_epoch()
    };
    let (before, sealed, gone) = (cast().await, cast().await, cast().await);
    let closed = BallotOutcome::Refused(ballast_domain::poll::BallotRefusal::Closed);
    let truth = [BallotOutcome::Counted { revision: 1 }, closed];
    let judged = shard
        .judge_cold_ballots(&at_epoch(), &ballots, before)
        .await;
    assert_eq!(judged.unwrap(), truth);
    shard.seal(&then(2), &token).await.unwrap();
    let judged = shard
        .judge_cold_ballots(&at_epoch(), &ballots, sealed)
        .await;
    assert_eq!(judged.unwrap(), truth, "unchanged");
    shard.retire(&then(3), &token).await.unwrap();
    while shard.purge(&then(3), &token, 100).await.unwrap() > 0 {}
    let judged = shard.judge_cold_ballots(&at_epoch(), &ballots, gone).await;
    assert!(
        matches!(judged, Err(crate::shard::ShardError::Fenced(_))),
        "{judged:?}"
    );
}

#[tokio::test]
async fn a_closed_poll_leaves_memory_and_still_knows_its_voters() {
    let disk = SimulatedDisk::new(1);
    let mut shard = open_small(&disk);
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    vote(&shard, 0..300).await;
    shard.close_poll(&at_epoch(), poll().poll_id).await.unwrap();
    shard.checkpoint().await.unwrap();
    for _ in 0..2 {
        assert_eq!(shard.usage().await.voters_in_memory, 0);
        let ballots = [
            ballot("voter-8", 0, 8),
            ballot("voter-8", 0, 1_234),
            ballot("voter-8", 1, 1_235),
            ballot("nobody", 1, 1_236),
        ];
        let outcomes = shard.cast(&at_epoch(), &ballots).await.unwrap();
        let closed = BallotOutcome::Refused(ballast_domain::poll::BallotRefusal::Closed);
        let counted = BallotOutcome::Counted { revision: 1 };
        let already = BallotOutcome::Already { revision: 1 };
        assert_eq!(outcomes, [counted, already, closed.clone(), closed]);
        let voter = VoterId::new("voter-9").unwrap();
        let row = shard.voter(&at_epoch().slice, poll().poll_id, &voter).await;
        assert_eq!(row.unwrap().unwrap().items, [1]);
        let tally = shard
            .tally(&at_epoch().slice, poll().poll_id)
            .await
            .unwrap();
        assert_eq!(tally.counts, [150, 150]);
        drop(shard);
        shard = open_small(&disk);
    }
}

#[tokio::test]
async fn an_export_is_the_same_slice_elsewhere() {
    let (disk, other) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let (source, target) = (open_small(&disk), open_small(&other));
    source.adopt(&at_epoch()).await.unwrap();
    source.create_poll(&at_epoch(), poll()).await.unwrap();
    vote(&source, 0..500).await;
    let token = MigrationToken {
        migration_id: MigrationId("m-1".to_owned()),
        token: 1,
    };
    let slice = at_epoch().slice;
    let key = source.slice_key(&slice).await.unwrap();
    let fresh = FencedSlice {
        slice: slice.clone(),
        epoch: Epoch(2),
    };
    target
        .prepare(&fresh, &token, key, HashRange::WHOLE)
        .await
        .unwrap();
    let mut cursor = Cursor::Start;
    let mut record_vote_call = 500;
    loop {
        let ExportPage {
            changes,
            next,
            caught_up,
        } = source.export(&slice, &cursor, 4_096).await.unwrap();
        target.import(&slice, &token, &changes).await.unwrap();
        cursor = next;
        if record_vote_call < 800 {
            vote(&source, record_vote_call..record_vote_call + 10).await;
            record_vote_call += 10;
        }
        if caught_up {
            break;
        }
    }
    source.seal(&fresh, &token).await.unwrap();
    let rest = source.export(&slice, &cursor, 1 << 20).await.unwrap();
    target.import(&slice, &token, &rest.changes).await.unwrap();
    let digests = source.digests(&slice).await.unwrap();
    assert_eq!(target.digests(&slice).await.unwrap(), digests);
    assert_eq!(target.scrub(&slice).await.unwrap(), digests);
    target.activate(&fresh, &token).await.unwrap();
    let again = target.cast(&fresh, &[ballot("voter-7", 1, 7)]).await;
    assert_eq!(again.unwrap(), [BallotOutcome::Counted { revision: 1 }]);
}

#[tokio::test]
async fn all_damage_is_detected() {
    let disk = SimulatedDisk::new(1);
    let shard = open_small(&disk);
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    vote(&shard, 0..200).await;
    shard.checkpoint().await.unwrap();
    vote(&shard, 200..250).await;
    shard.checkpoint().await.unwrap();
    vote(&shard, 250..260).await;
    vote(&shard, 260..270).await;
    drop(shard);
    let whole: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(
        crate::embedded::inspect::inspect(&whole, true)
            .unwrap()
            .problems,
        [""; 0]
    );
    for name in disk.list().unwrap() {
        // The middle of the written part, not of the reserved space.
        disk.flip(&name, 200);
        let seen = crate::embedded::inspect::inspect(&whole, true).unwrap();
        let unused = seen
            .segments
            .iter()
            .any(|file| file.name == name && file.groups == 0);
        assert!(unused || !seen.problems.is_empty(), "{name}: {seen:?}");
        disk.flip(&name, 200);
    }
}

#[tokio::test]
async fn a_full_shard_takes_new_voters_when_a_poll_has_closed() {
    let disk = SimulatedDisk::new(1);
    let options = ShardOptions {
        voters_in_memory_max: 100,
        ..small()
    };
    let clock = Arc::new(SteppedClock::new(1_000));
    let entropy = Arc::new(SeedEntropy(7.into()));
    let disk = Arc::new(disk);
    let shard = EmbeddedShard::open("shard-1", disk, options, clock, entropy).unwrap();
    shard.adopt(&at_epoch()).await.unwrap();
    shard.create_poll(&at_epoch(), poll()).await.unwrap();
    vote(&shard, 0..100).await;
    let mut other = poll();
    other.poll_id = PollId::from_number(6);
    other.request = RequestId(2);
    shard.create_poll(&at_epoch(), other.clone()).await.unwrap();
    let late = Ballot {
        poll: other.poll_id,
        item: other.item_id(0),
        ..ballot("late", 0, 9_000)
    };
    let late = std::slice::from_ref(&late);
    let full = BallotOutcome::Refused(ballast_domain::poll::BallotRefusal::ShardFull);
    let refused = shard.cast(&at_epoch(), late).await.unwrap();
    assert_eq!(refused[0], full);
    shard.close_poll(&at_epoch(), poll().poll_id).await.unwrap();
    // The compactor polls ten times a second.
    let counted = async {
        while shard.cast(&at_epoch(), late).await.unwrap()[0] == full {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(20);
    let counted = tokio::time::timeout(patience, counted).await;
    assert!(counted.is_ok(), "the shard stays full");
}

#[test]
fn a_directory_is_open_once() {
    let place = tempfile::tempdir().unwrap();
    let first = crate::embedded::disk::RealDisk::open(place.path()).unwrap();
    let named_otherwise = place
        .path()
        .join("../")
        .join(place.path().file_name().unwrap());
    let error = crate::embedded::disk::RealDisk::open(&named_otherwise).unwrap_err();
    assert!(error.to_string().contains("another shard"), "{error}");
    assert!(crate::embedded::disk::RealDisk::read_only(place.path()).is_ok());
    drop(first);
    assert!(crate::embedded::disk::RealDisk::open(place.path()).is_ok());
}
