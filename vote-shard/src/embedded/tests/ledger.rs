//! Random histories of concurrent clients on the worst of disks: every answer
//! stays true, whatever happens to the disk.
//!
//! Clients vote, vote twice, change their votes, repeat requests, and vote
//! after the closing, while syncs are held and fail, the disk fills up, and the
//! machine stops at any change to the disk, also while the shard is being
//! opened. After every crash the shard is opened from the remaining data, and
//! [`audit`] compares all of it with the answers. `PROPTEST_CASES` sets the
//! number of histories.
//!
//! Planted bugs show that it detects what it should: see the end.

use std::sync::{Arc, Mutex};

use ballast_domain::poll::{Ballot, Poll, RequestId, VoteChoice};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use tokio::task::JoinSet;

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, changeable, choices, make_owner, poll, slice, voter,
};
use crate::conformance::ledger::{BallotLedger, audit};
use crate::embedded::disk::Disk as _;
use crate::embedded::disk::{Crash, SimulatedDisk};
use crate::embedded::faults::{self, Fault};
use crate::embedded::{EmbeddedShard, ShardOpenError, ShardOptions, log};
use crate::shard::{ShardError, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

const HISTORIES: u32 = 200;

/// Sizes at which a few votes create segments, runs and merges.
const SMALL: ShardOptions = ShardOptions {
    log: log::LogOptions {
        segment_bytes: 2_048,
        first_segment_bytes: 512,
        group_bytes_max: 1 << 20,
        spares_max: 2,
    },
    voters_in_memory_max: 1_000,
    allowance_ms: 10_000,
    checkpoint_bytes: 1 << 40,
    feed_bytes: 0,
};

#[derive(Debug, Clone)]
enum LedgerStep {
    /// A client sends ballots for one poll: voter, item, whether to withdraw.
    Cast(usize, Vec<(u8, u16, bool)>),
    /// Repeats an earlier ballot.
    Retry(usize),
    Close(usize),
    Count(usize),
    ReadRow(usize, u8),
    Checkpoint,
    /// Waits for all answers.
    Settle,
    Hold,
    Release,
    FailSync(u32),
    Room(u64),
    /// The machine stops after so many changes to the disk.
    StopIn(u32),
    /// Power loss while a group is syncing.
    Tear(usize, Vec<(u8, u16, bool)>),
    /// The machine stops now, and possibly again while the shard is being
    /// opened.
    Crash(Crash, Option<(u32, Crash)>),
}

fn crashes() -> impl Strategy<Value = Crash> {
    prop::sample::select(vec![
        Crash::Killed,
        Crash::PowerLost,
        Crash::PowerLostInTheMiddle,
        Crash::PowerLostInTheMiddle,
    ])
}

fn steps() -> impl Strategy<Value = Vec<LedgerStep>> {
    let ballot = (0u8..6, 0u16..3, prop::bool::weighted(0.2));
    let ballots = prop::collection::vec(ballot, 1..9);
    let torn = ballots.clone();
    let again = prop::option::weighted(0.4, (1u32..12, crashes()));
    let step = prop_oneof![
        14 => (0usize..3, ballots).prop_map(|(poll, ballots)| LedgerStep::Cast(poll, ballots)),
        6 => (0usize..200).prop_map(LedgerStep::Retry),
        1 => (0usize..3).prop_map(LedgerStep::Close),
        2 => (0usize..3).prop_map(LedgerStep::Count),
        2 => (0usize..3, 0u8..6).prop_map(|(poll, voter)| LedgerStep::ReadRow(poll, voter)),
        2 => Just(LedgerStep::Checkpoint),
        4 => Just(LedgerStep::Settle),
        2 => Just(LedgerStep::Hold),
        1 => Just(LedgerStep::Release),
        1 => (1u32..4).prop_map(LedgerStep::FailSync),
        1 => (0u64..6_000).prop_map(LedgerStep::Room),
        1 => (1u32..16).prop_map(LedgerStep::StopIn),
        1 => (0usize..3, torn).prop_map(|(poll, ballots)| LedgerStep::Tear(poll, ballots)),
        4 => (crashes(), again).prop_map(|(crash, again)| LedgerStep::Crash(crash, again)),
    ];
    prop::collection::vec(step, 1..60)
}

fn polls() -> [Poll; 3] {
    [poll(1), changeable(2), choices(3, 2, false)]
}

/// Long names, so that a group takes several sectors.
fn name(number: u8) -> String {
    format!("voter {number} {}", "x".repeat(100))
}

/// One history.
struct LedgerWorld {
    disk: SimulatedDisk,
    shard: Arc<EmbeddedShard>,
    ledger: Arc<Mutex<BallotLedger>>,
    sent: Vec<Ballot>,
    tasks: JoinSet<()>,
}

fn open(disk: &SimulatedDisk) -> Result<Arc<EmbeddedShard>, ShardOpenError> {
    let clock = Arc::new(SteppedClock::new(START_MS));
    let entropy = Arc::new(SeedEntropy(7.into()));
    let disk = Arc::new(disk.clone());
    let shard = EmbeddedShard::open("shard-1", disk, SMALL, clock, entropy);
    shard.map(Arc::new)
}

impl LedgerWorld {
    async fn new(disk: SimulatedDisk) -> Self {
        let shard = open(&disk).unwrap();
        make_owner(&*shard, &polls()).await;
        Self {
            disk,
            shard,
            ledger: Arc::new(Mutex::new(BallotLedger::new(&polls()))),
            sent: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    async fn step(&mut self, step: LedgerStep) {
        match step {
            LedgerStep::Cast(poll, ballots) => self.cast_fresh(poll, ballots),
            LedgerStep::Retry(which) => {
                if let Some(again) = which.checked_rem(self.sent.len()) {
                    self.cast(vec![self.sent[again].clone()]);
                }
            }
            LedgerStep::Close(poll) => self.close(&polls()[poll]),
            LedgerStep::Count(poll) => self.count(&polls()[poll]),
            LedgerStep::ReadRow(poll, voter) => self.read_row(&polls()[poll], voter),
            LedgerStep::Checkpoint => {
                let shard = self.shard.clone();
                self.tasks.spawn(async move {
                    // It may fail like the disk; nothing depends on it.
                    let _ = shard.checkpoint().await;
                });
            }
            LedgerStep::Settle => {
                self.disk.release_syncs();
                self.join().await;
                self.disk.set_free_bytes(None);
            }
            LedgerStep::Hold => self.disk.hold_syncs(),
            LedgerStep::Release => self.disk.release_syncs(),
            LedgerStep::FailSync(n) => self.disk.fail_sync(n),
            LedgerStep::Room(bytes) => self.disk.set_free_bytes(Some(bytes)),
            LedgerStep::StopIn(n) => self.disk.stop_in(n),
            LedgerStep::Tear(poll, ballots) => {
                self.disk.hold_syncs();
                self.cast_fresh(poll, ballots);
                // There may be no sync, if all ballots are refused.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                    std::thread::yield_now();
                    if self.disk.syncs_held() > 0 {
                        break;
                    }
                }
                self.crash(Crash::PowerLostInTheMiddle, None).await;
            }
            LedgerStep::Crash(crash, again) => self.crash(crash, again).await,
        }
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    fn cast_fresh(&mut self, poll: usize, ballots: Vec<(u8, u16, bool)>) {
        let ballots = ballots.into_iter();
        let ballots =
            ballots.map(|(voter, item, withdraw)| self.fresh(poll, voter, item, withdraw));
        let ballots = ballots.collect();
        self.cast(ballots);
    }

    fn fresh(&mut self, poll: usize, voter: u8, item: u16, withdraw: bool) -> Ballot {
        let request = RequestId(self.sent.len() as u64);
        let fresh = ballot(&polls()[poll], &name(voter), item, request.0);
        let choice = match withdraw {
            true => VoteChoice::Withdraw,
            false => VoteChoice::For,
        };
        let fresh = Ballot { choice, ..fresh };
        self.sent.push(fresh.clone());
        fresh
    }

    fn cast(&mut self, ballots: Vec<Ballot>) {
        let (shard, ledger) = (self.shard.clone(), self.ledger.clone());
        self.tasks.spawn(async move {
            let started: Vec<_> = {
                let mut ledger = ledger.lock().unwrap();
                ballots.iter().map(|ballot| ledger.start(ballot)).collect()
            };
            let answer = shard.cast(&at_epoch(1), &ballots).await;
            let answer = answer_if_available(answer);
            let mut ledger = ledger.lock().unwrap();
            for (place, started) in started.into_iter().enumerate() {
                let verdict = answer.as_ref().map(|verdicts| &verdicts[place]);
                ledger.finish(started, verdict);
            }
        });
    }

    fn close(&mut self, poll: &Poll) {
        let (shard, ledger, id) = (self.shard.clone(), self.ledger.clone(), poll.poll_id);
        self.tasks.spawn(async move {
            ledger.lock().unwrap().start_closing(id);
            if answer_if_available(shard.close_poll(&at_epoch(1), id).await).is_some() {
                ledger.lock().unwrap().closed(id);
            }
        });
    }

    fn count(&mut self, poll: &Poll) {
        let (shard, ledger, id) = (self.shard.clone(), self.ledger.clone(), poll.poll_id);
        self.tasks.spawn(async move {
            let at_least = ledger.lock().unwrap().voters_at_least(id);
            if let Some(tally) = answer_if_available(shard.tally(&slice(), id).await) {
                ledger.lock().unwrap().tally(at_least, &tally);
            }
        });
    }

    fn read_row(&mut self, poll: &Poll, number: u8) {
        let (shard, ledger, id) = (self.shard.clone(), self.ledger.clone(), poll.poll_id);
        self.tasks.spawn(async move {
            let who = voter(&name(number));
            let started = ledger.lock().unwrap().start_reading(id, &who);
            if let Some(row) = answer_if_available(shard.voter(&slice(), id, &who).await) {
                ledger.lock().unwrap().read(started, row.as_ref());
            }
        });
    }

    async fn join(&mut self) {
        while let Some(done) = self.tasks.join_next().await {
            if let Err(failed) = done {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
    }

    /// Stops the machine, so that no more answers arrive. Then opens the shard
    /// from the remaining data and compares everything.
    async fn crash(&mut self, crash: Crash, again: Option<(u32, Crash)>) {
        let mut found = self.disk.after(crash);
        self.join().await;
        found.set_free_bytes(None);
        if let Some((n, crash)) = again {
            found.stop_in(n);
            // It may succeed, if there is less to do.
            drop(open(&found));
            found = found.after(crash);
        }
        self.shard = match open(&found) {
            Ok(shard) => shard,
            Err(error) => panic!("it does not open: {error:?} {:?}", found.list()),
        };
        self.disk = found;
        let shard: crate::conformance::SharedShard = self.shard.clone();
        // All tasks are done, so this is the only handle.
        let empty = BallotLedger::new(&[]);
        let mut ledger = std::mem::replace(&mut *self.ledger.lock().unwrap(), empty);
        audit(&mut ledger, &shard, &at_epoch(1)).await;
        *self.ledger.lock().unwrap() = ledger;
        let kept = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), kept);
    }
}

/// The answer; `None` if the shard is unavailable and the outcome is unknown.
fn answer_if_available<T>(answer: Result<T, ShardError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(ShardError::Unavailable { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Runs a history, and two crashes at its end.
fn live(disk: SimulatedDisk, steps: Vec<LedgerStep>) {
    live_after(disk, steps, || {});
}

/// The same, with a change to the disk after the polls have been created.
fn live_after(disk: SimulatedDisk, steps: Vec<LedgerStep>, prepare: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = LedgerWorld::new(disk).await;
        prepare();
        for step in steps {
            world.step(step).await;
        }
        world.crash(Crash::PowerLost, None).await;
        world.crash(Crash::Killed, None).await;
    });
}

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(HISTORIES))]

    #[test]
    fn every_answer_stays_true_whatever_happens_to_the_disk(
        seed in any::<u64>(),
        steps in steps(),
    ) {
        live(SimulatedDisk::new(seed), steps);
    }
}

/// Whether some history contradicts the answers.
fn is_found(histories: u32, live: impl Fn(u64, Vec<LedgerStep>)) -> bool {
    let config = ProptestConfig {
        cases: histories,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let found = runner.run(&(any::<u64>(), steps()), |(seed, steps)| {
        live(seed, steps);
        Ok(())
    });
    matches!(found, Err(TestError::Fail(..)))
}

/// On a disk that lies, it is as if the engine did not wait for the sync.
#[test]
fn the_ledger_finds_an_answer_given_before_the_sync() {
    assert!(is_found(HISTORIES, |seed, steps| {
        let disk = SimulatedDisk::new(seed);
        let lying = disk.clone();
        live_after(disk, steps, move || lying.lie_about_syncs());
    }));
}

#[test]
fn the_ledger_finds_that_a_restart_forgets_who_has_voted() {
    faults::plant(Some(Fault::VotersForgotten));
    let found = is_found(HISTORIES, |seed, steps| {
        live(SimulatedDisk::new(seed), steps)
    });
    faults::plant(None);
    assert!(found);
}

#[test]
fn the_ledger_finds_that_a_torn_group_is_accepted() {
    faults::plant(Some(Fault::TornAccepted));
    let found = is_found(HISTORIES, |seed, steps| {
        live(SimulatedDisk::new(seed), steps)
    });
    faults::plant(None);
    assert!(found);
}
