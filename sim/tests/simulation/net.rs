//! The network between routers, workers and shards: a shard as its callers
//! see it, with messages that have a fate of their own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, Poll, RequestId, Verdict};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, TenantId, VoterId};
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::shard::{
    ArchiveFile, Change, Cursor, Cut, Digest, Fence, Order, Page, PollRow, SliceDigest, SliceKey,
    VoterRow,
};
use ballast_vote_shard::{At, ShardError, ShardResult, Shards, Tally, Usage, VoteShard};
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::bugs::{self, Bug};
use crate::nodes::Nodes;
use crate::trace::note;
use crate::{stage, weather};

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Router(usize),
    Worker(u64),
    Watchman,
}

/// The shards as one caller reaches them.
pub(crate) struct Wires {
    pub(crate) caller: Caller,
    pub(crate) nodes: Arc<Nodes>,
}

impl Shards for Wires {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        Ok(Arc::new(Wire {
            caller: self.caller,
            to: id.clone(),
            nodes: self.nodes.clone(),
        }))
    }
}

struct Wire {
    caller: Caller,
    to: ShardId,
    nodes: Arc<Nodes>,
}

type Act<T> = Arc<dyn Fn(Arc<EmbeddedShard>) -> BoxFuture<'static, ShardResult<T>> + Send + Sync>;

fn told<T>(answer: &ShardResult<T>) -> String {
    match answer {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A message arrives: whoever is there acts on it, and dies with its process.
fn arrive<T: Send + 'static>(
    nodes: &Nodes,
    to: &ShardId,
    what: String,
    act: &Act<T>,
    answer: Option<(oneshot::Sender<ShardResult<T>>, Duration)>,
) {
    let Some((shard, troupe)) = nodes.up(to) else {
        note!("{what}: nobody there");
        return;
    };
    let acting = act(shard);
    stage::spawn(troupe, async move {
        let outcome = acting.await;
        note!("{what}: {}", told(&outcome));
        if let Some((sender, back)) = answer {
            sleep(back).await;
            let _ = sender.send(outcome);
        }
    });
}

impl Wire {
    async fn call<T: Send + 'static>(&self, verb: &'static str, act: Act<T>) -> ShardResult<T> {
        // What workers order comes again more often: it is rarer, and more
        // depends on it. Most of all what destroys.
        let fate = weather::fate_of(match (self.is_worker(), verb) {
            (true, "purge") => 700,
            (true, _) => 150,
            (false, _) => 40,
        });
        let what = format!("{:?} {verb} {}", self.caller, self.to);
        let (sender, receiver) = oneshot::channel();
        // While somebody holds it, an answer may come.
        let mut held = None;
        if fate.lost {
            note!("{what}: lost");
            held = Some(sender);
        } else {
            let (nodes, to) = (self.nodes.clone(), self.to.clone());
            let (sender, kept) = match fate.unanswered {
                true => (None, Some(sender)),
                false => (Some((sender, fate.back)), None),
            };
            held = held.or(kept);
            stage::spawn(stage::WORLD, async move {
                sleep(fate.there).await;
                arrive(&nodes, &to, what.clone(), &act, sender);
                if let Some(later) = fate.again {
                    sleep(later).await;
                    arrive(&nodes, &to, format!("{what} again"), &act, None);
                }
            });
        }
        let answer = timeout(PATIENCE, receiver).await;
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

/// Methods whose references come before their values.
macro_rules! wired {
    ($(fn $name:ident($($r:ident: &$rt:ty),*; $($v:ident: $vt:ty),*) -> $out:ty;)* ; $($rest:tt)*) => {
        #[async_trait]
        impl VoteShard for Wire {
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
    fn create_poll(at: &At; poll: Poll) -> Poll;
    fn poll(slice: &SliceId; poll: PollId) -> Poll;
    fn polls(slice: &SliceId; after: Option<PollId>, most: usize) -> Vec<Poll>;
    fn awaited(; least: u64, most: usize) -> Vec<(SliceId, Poll)>;
    fn close_poll(at: &At; poll: PollId) -> Poll;
    fn widen_lanes(at: &At; poll: PollId, lanes: u16) -> Poll;
    fn narrow_lanes(at: &At; poll: PollId, lanes: u16) -> Poll;
    fn archive_poll(at: &At; poll: PollId, file: ArchiveFile) -> Poll;
    fn archive(slice: &SliceId; poll: PollId) -> Option<ArchiveFile>;
    fn archive_of(tenant: &TenantId; poll: PollId) -> Option<ArchiveFile>;
    fn archives(slice: &SliceId;) -> Vec<PollRow>;
    fn cast(at: &At, ballots: &[Ballot];) -> Vec<Verdict>;
    fn tally(slice: &SliceId; poll: PollId) -> Tally;
    fn lanes(slice: &SliceId; poll: PollId) -> Vec<Vec<u64>>;
    fn tallies_since(; seen: u64) -> (u64, Vec<Tally>);
    fn serves(at: &At;) -> ();
    fn found(at: &At;) -> ();
    fn fence(slice: &SliceId;) -> Option<Fence>;
    fn prepare(at: &At, order: &Order; key: SliceKey, range: HashRange) -> ();
    fn seal(at: &At, order: &Order;) -> ();
    fn unseal(at: &At, order: &Order;) -> ();
    fn ready(at: &At, order: &Order;) -> ();
    fn activate(at: &At, order: &Order;) -> ();
    fn retire(at: &At, order: &Order;) -> ();
    fn purge(at: &At, order: &Order; most: usize) -> usize;
    fn recut(order: &Order, cut: &Cut;) -> ();
    fn slice_key(slice: &SliceId;) -> SliceKey;
    fn slice_range(slice: &SliceId;) -> HashRange;
    fn export(slice: &SliceId, cursor: &Cursor; bytes: usize) -> Page;
    fn discard(at: &At, order: &Order; poll: PollId) -> ();
    fn scrub(slice: &SliceId;) -> Vec<(PollId, Digest)>;
    ;
    async fn carry(
        &self,
        at: &At,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally> {
        let (at, votes) = (at.clone(), votes.to_vec());
        let act: Act<Tally> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let (at, votes) = (at.clone(), votes.clone());
            Box::pin(async move { shard.carry(&at, poll, request, &votes).await })
        });
        self.call("carry", act).await
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

    async fn usage(&self) -> Usage {
        match self.nodes.up(&self.to) {
            Some((shard, _)) => shard.usage().await,
            None => Usage::default(),
        }
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        if self.is_worker() && bugs::has(Bug::PositionBeforeSeal) {
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
        if self.is_worker() && bugs::has(Bug::PositionBeforeSeal) {
            return Ok(SliceDigest::default());
        }
        let slice = slice.clone();
        let act: Act<SliceDigest> = Arc::new(move |shard: Arc<EmbeddedShard>| {
            let slice = slice.clone();
            Box::pin(async move { shard.digest(&slice).await })
        });
        self.call("digest", act).await
    }

    async fn import(&self, slice: &SliceId, order: &Order, changes: &[Change]) -> ShardResult<()> {
        if bugs::has(Bug::MirrorSkipped) && matches!(self.caller, Caller::Router(_)) {
            return Ok(());
        }
        let (slice, order, mut changes) = (slice.clone(), order.clone(), changes.to_vec());
        if bugs::has(Bug::RequestsLeftBehind) {
            for change in &mut changes {
                if let Change::Voter(row) = change {
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
