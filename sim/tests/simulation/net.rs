//! The simulated network between routers, workers and shards: messages are delayed, lost
//! and duplicated.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, BallotOutcome, Poll, RequestId};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, TenantId, VoterId};
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::shard::{
    ArchiveFile, Cursor, Digest, ExportPage, ExportedRow, Fence, MigrationToken, PollRow,
    RecutSpec, SliceDigest, SliceKey, VoterRow,
};
use ballast_vote_shard::{
    FencedSlice, ShardDirectory, ShardError, ShardResult, ShardUsage, Tally, VoteShard,
};
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::bugs::{self, Bug};
use crate::nodes::Nodes;
use crate::trace::note;
use crate::{scheduler, weather};

/// How long a caller waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Router(usize),
    Worker(u64),
    Reconciler,
}

/// The shards as one caller reaches them.
pub(crate) struct NetworkShards {
    pub(crate) caller: Caller,
    pub(crate) nodes: Arc<Nodes>,
}

impl ShardDirectory for NetworkShards {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        Ok(Arc::new(NetworkShard {
            caller: self.caller,
            to: id.clone(),
            nodes: self.nodes.clone(),
        }))
    }
}

struct NetworkShard {
    caller: Caller,
    to: ShardId,
    nodes: Arc<Nodes>,
}

type Act<T> = Arc<dyn Fn(Arc<EmbeddedShard>) -> BoxFuture<'static, ShardResult<T>> + Send + Sync>;

fn describe_outcome<T>(answer: &ShardResult<T>) -> String {
    match answer {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Delivers a message. Its processing ends when the receiver's process is killed.
fn arrive<T: Send + 'static>(
    nodes: &Nodes,
    to: &ShardId,
    what: String,
    act: &Act<T>,
    answer: Option<(oneshot::Sender<ShardResult<T>>, Duration)>,
) {
    let Some((shard, process)) = nodes.up(to) else {
        note!("{what}: shard is down");
        return;
    };
    let acting = act(shard);
    scheduler::spawn(process, async move {
        let outcome = acting.await;
        note!("{what}: {}", describe_outcome(&outcome));
        if let Some((sender, back)) = answer {
            sleep(back).await;
            let _ = sender.send(outcome);
        }
    });
}

impl NetworkShard {
    async fn call<T: Send + 'static>(&self, verb: &'static str, act: Act<T>) -> ShardResult<T> {
        // Duplicate workers' commands more often, because they are rarer and more
        // dangerous; most of all purges.
        let delivery = weather::draw_fate_repeating(match (self.is_worker(), verb) {
            (true, "purge") => 700,
            (true, _) => 150,
            (false, _) => 40,
        });
        let what = format!("{:?} {verb} {}", self.caller, self.to);
        let (sender, receiver) = oneshot::channel();
        // Keep the sender, so that the receiver waits until its timeout.
        let mut held = None;
        if delivery.lost {
            note!("{what}: lost");
            held = Some(sender);
        } else {
            let (nodes, to) = (self.nodes.clone(), self.to.clone());
            let (sender, kept) = match delivery.unanswered {
                true => (None, Some(sender)),
                false => (Some((sender, delivery.back)), None),
            };
            held = held.or(kept);
            scheduler::spawn(scheduler::WORLD, async move {
                sleep(delivery.there).await;
                arrive(&nodes, &to, what.clone(), &act, sender);
                if let Some(later) = delivery.again {
                    sleep(later).await;
                    arrive(&nodes, &to, format!("{what} again"), &act, None);
                }
            });
        }
        let answer = timeout(ANSWER_TIMEOUT, receiver).await;
        drop(held);
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                sleep(weather::way()).await;
                Err(ShardError::unavailable("the connection was lost"))
            }
            Err(_) => Err(ShardError::unavailable("there was no answer")),
        }
    }

    fn is_worker(&self) -> bool {
        !matches!(self.caller, Caller::Router(_))
    }
}

/// Implements methods by sending them over the network: parameters by reference first,
/// then those by value.
macro_rules! wired {
    ($(fn $name:ident($($r:ident: &$rt:ty),*; $($v:ident: $vt:ty),*) -> $out:ty;)* ; $($rest:tt)*) => {
        #[async_trait]
        impl VoteShard for NetworkShard {
            $(async fn $name(&self, $($r: &$rt,)* $($v: $vt,)*) -> ShardResult<$out> {
                $(let $r = $r.to_owned();)*
                let act: Act<$out> = Arc::new(move |shard: Arc<EmbeddedShard>| {
                    $(let $r = $r.clone();)*
                    $(let $v = $v.clone();)*
                    Box::pin(async move { shard.$name($(&$r,)* $($v,)*).await })
                });
                self.call(stringify!($name), act).await
            })*
            $($rest)*
        }
    };
}

wired! {
    fn create_poll(at: &FencedSlice; poll: Poll) -> Poll;
    fn poll(slice: &SliceId; poll: PollId) -> Poll;
    fn polls(slice: &SliceId; after: Option<PollId>, most: usize) -> Vec<Poll>;
    fn awaited_polls(; least: u64, most: usize) -> Vec<(SliceId, Poll)>;
    fn close_poll(at: &FencedSlice; poll: PollId) -> Poll;
    fn widen_lanes(at: &FencedSlice; poll: PollId, lanes: u16) -> Poll;
    fn narrow_lanes(at: &FencedSlice; poll: PollId, lanes: u16) -> Poll;
    fn archive_poll(at: &FencedSlice; poll: PollId, file: ArchiveFile) -> Poll;
    fn archive(slice: &SliceId; poll: PollId) -> Option<ArchiveFile>;
    fn find_archive(tenant: &TenantId; poll: PollId) -> Option<ArchiveFile>;
    fn archives(slice: &SliceId;) -> Vec<PollRow>;
    fn cast(at: &FencedSlice, ballots: &[Ballot];) -> Vec<BallotOutcome>;
    fn tally(slice: &SliceId; poll: PollId) -> Tally;
    fn lanes(slice: &SliceId; poll: PollId) -> Vec<Vec<u64>>;
    fn tallies_since(; seen: u64) -> (u64, Vec<Tally>);
    fn serves(at: &FencedSlice;) -> ();
    fn adopt(at: &FencedSlice;) -> ();
    fn fence(slice: &SliceId;) -> Option<Fence>;
    fn prepare(at: &FencedSlice, order: &MigrationToken; key: SliceKey, range: HashRange) -> ();
    fn seal(at: &FencedSlice, order: &MigrationToken;) -> ();
    fn unseal(at: &FencedSlice, order: &MigrationToken;) -> ();
    fn mark_ready(at: &FencedSlice, order: &MigrationToken;) -> ();
    fn activate(at: &FencedSlice, order: &MigrationToken;) -> ();
    fn retire(at: &FencedSlice, order: &MigrationToken;) -> ();
    fn purge(at: &FencedSlice, order: &MigrationToken; most: usize) -> usize;
    fn recut(order: &MigrationToken, cut: &RecutSpec;) -> ();
    fn slice_key(slice: &SliceId;) -> SliceKey;
    fn slice_range(slice: &SliceId;) -> HashRange;
    fn export(slice: &SliceId, cursor: &Cursor; bytes: usize) -> ExportPage;
    fn discard_poll(at: &FencedSlice, order: &MigrationToken; poll: PollId) -> ();
    fn scrub(slice: &SliceId;) -> Vec<(PollId, Digest)>;
    ;
    async fn import_counts(
        &self,
        at: &FencedSlice,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally> {
        let (at, votes) = (at.clone(), votes.to_vec());
        let act: Act<Tally> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let (at, votes) = (at.clone(), votes.clone());
            Box::pin(async move { shard.import_counts(&at, poll, request, &votes).await })
        });
        self.call("import_counts", act).await
    }

    async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let (slice, voter) = (slice.clone(), voter.clone());
        let act: Act<Option<VoterRow>> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let (slice, voter) = (slice.clone(), voter.clone());
            Box::pin(async move { shard.voter(&slice, poll, &voter).await })
        });
        self.call("voter", act).await
    }

    async fn usage(&self) -> ShardUsage {
        match self.nodes.up(&self.to) {
            Some((shard, _)) => shard.usage().await,
            None => ShardUsage::default(),
        }
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        if self.is_worker() && bugs::is_planted(Bug::PositionBeforeSeal) {
            return Ok(Vec::new());
        }
        let slice = slice.clone();
        let act: Act<Vec<(PollId, Digest)>> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let slice = slice.clone();
            Box::pin(async move { shard.digests(&slice).await })
        });
        self.call("digests", act).await
    }

    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        if self.is_worker() && bugs::is_planted(Bug::PositionBeforeSeal) {
            return Ok(SliceDigest::default());
        }
        let slice = slice.clone();
        let act: Act<SliceDigest> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let slice = slice.clone();
            Box::pin(async move { shard.digest(&slice).await })
        });
        self.call("digest", act).await
    }

    async fn import(&self, slice: &SliceId, order: &MigrationToken, changes: &[ExportedRow]) -> ShardResult<()> {
        if bugs::is_planted(Bug::MirrorSkipped) && matches!(self.caller, Caller::Router(_)) {
            return Ok(());
        }
        let (slice, order, mut changes) = (slice.clone(), order.clone(), changes.to_vec());
        if bugs::is_planted(Bug::RequestsLeftBehind) {
            for change in &mut changes {
                if let ExportedRow::Voter(row) = change {
                    row.requests.clear();
                }
            }
        }
        let act: Act<()> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let (slice, order, changes) = (slice.clone(), order.clone(), changes.clone());
            Box::pin(async move { shard.import(&slice, &order, &changes).await })
        });
        self.call("import", act).await
    }
}
