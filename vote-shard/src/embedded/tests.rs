//! The engine as a whole, on a simulated disk.

use std::sync::Arc;

use ballast_domain::poll::{
    Ballot, Choice, ItemSpec, Poll, PollOptions, PollSpec, RequestId, Verdict,
};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp, VoterId};

use super::disk::SimulatedDisk;
use super::{EmbeddedShard, Options};
use crate::shard::{At, VoteShard};
use crate::testing::{ManualClock, Seed};

fn open(disk: &SimulatedDisk) -> EmbeddedShard {
    EmbeddedShard::open(
        "shard-1",
        Arc::new(disk.clone()),
        Options::default(),
        Arc::new(ManualClock::at(1_000)),
        Arc::new(Seed(7.into())),
    )
    .unwrap()
}

fn at() -> At {
    At {
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
        choice: Choice::For,
        request: RequestId(request),
        arrived_at: Timestamp::from_unix_ms(1_000),
        if_revision: None,
    }
}

#[tokio::test]
async fn a_vote_is_counted_once_before_and_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let shard = open(&disk);
    shard.found(&at()).await.unwrap();
    shard.create_poll(&at(), poll()).await.unwrap();
    let ballots = [ballot("a", 0, 10), ballot("b", 1, 11), ballot("a", 0, 12)];
    let verdicts = shard.cast(&at(), &ballots).await.unwrap();
    let (counted, already) = (
        Verdict::Counted { revision: 1 },
        Verdict::Already { revision: 1 },
    );
    assert_eq!(verdicts, [counted.clone(), counted, already.clone()]);
    let before = shard.digests(&at().slice).await.unwrap();
    drop(shard);
    let shard = open(&disk);
    let again = shard.cast(&at(), &[ballot("b", 1, 99)]).await.unwrap();
    assert_eq!(again, [already]);
    let tally = shard.tally(&at().slice, poll().poll_id).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![1, 1], 2));
    assert_eq!(shard.digests(&at().slice).await.unwrap(), before);
}
