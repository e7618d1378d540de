//! The ledger: hundreds of clients vote while the process is killed again and again; at the end
//! an audit accounts for every vote.
//!
//! ```text
//!   world.rs     the process: starts, kills and restarts it, tears its logs
//!   clients.rs   clients that vote (voters.rs, streams.rs) and read (readers.rs)
//!   history.rs   every request and its outcome, in one order
//!   movers.rs    moves tenants meanwhile
//!   audit.rs     compares what is stored at the end with the history
//!   register.rs  checks whether a voter's history explains the voter's row
//! ```
//! A run makes random decisions from one seed, which it prints; `BALLAST_LEDGER_SEED` repeats
//! them. It ends with a [`LedgerReport`]: what it did, and all violations. No violation is a pass.

#![allow(dead_code, reason = "each test binary uses a part of this module")]
#![allow(clippy::print_stdout, reason = "a run prints its seed")]
#![allow(
    unreachable_pub,
    reason = "each test binary includes the harness as a module"
)]

pub mod audit;
pub mod clients;
pub mod history;
pub mod movers;
pub mod random;
pub mod readers;
pub mod register;
pub mod streams;
pub mod tear;
pub mod voters;
pub mod world;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinSet;

use self::audit::AuditScope;
use self::clients::{Client, SharedState};
use self::history::{History, PollHistory};
use self::random::SeededRandom;
use self::world::{LedgerWorld, PollKind, until};
use crate::support::{InstanceOptions, stopwatch};

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct LedgerPlan {
    /// The seed of all random decisions.
    pub seed: u64,
    /// How often to kill the process.
    pub kills: usize,
    /// The minimum number of acknowledged votes.
    pub votes: u64,
    /// How many votes are acknowledged between two kills: minimum, maximum.
    pub between: (usize, usize),
    /// The number of clients that send single votes, and of those that send streams.
    pub clients: (usize, usize),
    /// How long a client pauses before a vote, on average; a client that sends streams pauses
    /// longer in proportion.
    pub think: Duration,
    /// When the expiring polls expire.
    pub expires_in_ms: i64,
    /// One in this many kills tears the logs.
    pub tears_one_in: usize,
    /// How long a restarted process may take until all its shards work.
    pub recovery: Duration,
    /// How to start the process.
    pub options: InstanceOptions,
}

/// The result of a run.
#[derive(Debug)]
pub struct LedgerReport {
    /// All violations.
    pub findings: Vec<String>,
    /// A summary of what the run did.
    pub done: String,
    /// The number of distinct acknowledged votes.
    pub acknowledged: u64,
    /// How often the process was killed while clients voted.
    pub kills: usize,
}

/// Tenants of a run.
pub const TENANTS: [&str; 3] = ["acme", "beta", "gamma"];
/// How long to wait for acknowledged votes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run in progress.
pub struct Run {
    /// The process.
    pub world: LedgerWorld,
    /// The state that clients share.
    pub shared: Arc<SharedState>,
    plan: LedgerPlan,
    random: SeededRandom,
    clients: JoinSet<()>,
    kills: usize,
    kills_in_recovery: usize,
    torn: usize,
    watch: std::time::Instant,
}

/// Runs everything: clients, kills, the end, the audit.
pub async fn run(plan: LedgerPlan) -> LedgerReport {
    let mut run = Run::start(plan).await;
    while run.should_continue() {
        run.await_votes().await;
        if run.kills == run.plan.kills / 2 {
            run.close_polls();
        }
        if !run.kill_and_restart().await {
            break;
        }
    }
    run.end().await
}

impl Run {
    /// Starts the process, creates tenants and polls, and starts the clients.
    pub async fn start(plan: LedgerPlan) -> Self {
        let mut random = SeededRandom::new(plan.seed, 0);
        let world = LedgerWorld::start(plan.options.clone(), &mut random).await;
        Self::start_on(world, plan).await
    }

    /// The same with a running process.
    pub async fn start_on(world: LedgerWorld, plan: LedgerPlan) -> Self {
        println!("ledger: BALLAST_LEDGER_SEED={}", plan.seed);
        let random = SeededRandom::new(plan.seed, 1);
        let mut applications = Vec::new();
        let mut history = History::default();
        for (tenant, name) in TENANTS.iter().enumerate() {
            let application = world.application(name).await;
            for kind in PollKind::all(plan.expires_in_ms) {
                let poll = application.poll(kind.fields()).await;
                history.polls.push(PollHistory::new(tenant, kind, poll));
            }
            applications.push(application);
        }
        let shared = Arc::new(SharedState {
            history,
            applications,
            ending: false.into(),
            unavailable_answers: 0.into(),
            late: 0.into(),
            first_unavailable: OnceLock::new(),
            think: plan.think,
        });
        let mut run = Self {
            world,
            shared,
            plan,
            random,
            clients: JoinSet::new(),
            kills: 0,
            kills_in_recovery: 0,
            torn: 0,
            watch: stopwatch(),
        };
        run.spawn_clients();
        run
    }

    fn spawn_clients(&mut self) {
        let (one_by_one, streams) = self.plan.clients;
        let seed = self.plan.seed;
        let mut numbers = 0..;
        let mut next = |shared| Client::new(shared, seed, numbers.next().unwrap());
        for _ in 0..one_by_one {
            self.clients.spawn(voters::vote(next(&self.shared)));
        }
        for _ in 0..streams {
            self.clients.spawn(streams::stream(next(&self.shared)));
        }
        for _ in 0..6 {
            self.clients.spawn(readers::read(next(&self.shared)));
            self.clients.spawn(readers::watch(next(&self.shared)));
        }
        self.clients.spawn(readers::export(next(&self.shared)));
    }

    /// Whether the run is not finished.
    fn should_continue(&self) -> bool {
        let history = &self.shared.history;
        let expired = history.polls.iter().all(|poll| match poll.kind {
            PollKind::Expiring(at) => history.now().ms > at,
            _ => true,
        });
        let enough = self.kills >= self.plan.kills && history.acknowledged() >= self.plan.votes;
        !(history.has_findings() || enough && expired)
    }

    /// Waits until more votes are acknowledged, as many as the plan says.
    pub async fn await_votes(&mut self) {
        let history = &self.shared.history;
        let more = self
            .random
            .between(self.plan.between.0, self.plan.between.1);
        let goal = history.acknowledged() + more as u64;
        until(PATIENCE, "votes are acknowledged", || {
            history.acknowledged() >= goal || history.has_findings()
        })
        .await;
    }

    /// Closes the polls that close during the run, in the background.
    fn close_polls(&mut self) {
        for (number, poll) in self.shared.history.polls.iter().enumerate() {
            if poll.kind == PollKind::Closing && poll.closing.lock().unwrap().0.is_none() {
                let client = Client::new(&self.shared, self.plan.seed, 10_000 + number);
                self.clients.spawn(close(client, number));
            }
        }
    }

    /// Kills the process, maybe tears its logs, maybe kills it again during recovery, and
    /// restarts it. Returns whether it works again.
    pub async fn kill_and_restart(&mut self) -> bool {
        self.world.kill();
        self.kills += 1;
        self.shared.history.record_kill();
        if self.random.one_in(self.plan.tears_one_in) {
            self.torn += self.world.tear(&mut self.random);
        }
        if self.random.one_in(4) {
            self.shared.history.record_restart();
            self.world.kill_during_recovery(&mut self.random).await;
            self.kills_in_recovery += 1;
        }
        self.shared.history.record_restart();
        let restarted = self.world.restart(self.plan.recovery).await;
        if let Err(why) = &restarted {
            self.shared.history.record_finding(why.clone());
        }
        restarted.is_ok()
    }

    /// Restarts the process so that it dies at a place in its code. Waits for that and returns
    /// whether it happened.
    pub async fn kill_and_die_at(&mut self, place: &str, patience: Duration) -> bool {
        self.world.kill();
        self.kills += 1;
        self.shared.history.record_kill();
        self.shared.history.record_restart();
        let died = self.world.die_at(place, patience).await;
        self.shared.history.record_kill();
        self.shared.history.record_restart();
        died
    }

    /// Stops the clients and waits for them.
    pub async fn stop_clients(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        while let Some(left) = self.clients.join_next().await {
            left.unwrap();
        }
    }

    /// Stops the clients, kills the process once more, and audits everything that is stored.
    pub async fn end(mut self) -> LedgerReport {
        if !self.shared.history.has_findings() {
            self.stop_clients().await;
            if self.kill_and_restart().await {
                let shared = &self.shared;
                let (history, applications) = (&shared.history, &shared.applications);
                audit::audit(history, applications, AuditScope::WHOLE, &mut self.random).await;
                if let Err(why) = self.world.stop().await {
                    self.shared.history.record_finding(why);
                }
                for problem in self.world.verify_files() {
                    self.shared.history.record_finding(problem);
                }
            }
        }
        self.clients.abort_all();
        let history = &self.shared.history;
        let done = format!(
            "seed {}: {} kills and {} more during recovery, {} tails torn, {} votes acknowledged, {} answers, \
             {} unavailable, {} timed out, {:?}",
            self.plan.seed,
            self.kills,
            self.kills_in_recovery,
            self.torn,
            history.acknowledged(),
            history.answers(),
            self.shared.unavailable_answers.load(Ordering::SeqCst),
            self.shared.late.load(Ordering::SeqCst),
            self.watch.elapsed(),
        );
        println!("ledger: {done}");
        LedgerReport {
            findings: history.findings(),
            done,
            acknowledged: history.acknowledged(),
            kills: self.kills,
        }
    }
}

/// Closes a poll, with retries.
async fn close(mut client: Client, number: usize) {
    let history = &client.shared.clone().history;
    let poll = &history.polls[number];
    let application = &client.shared.clone().applications[poll.tenant];
    while client.should_continue() {
        poll.closing.lock().unwrap().0.get_or_insert(history.now());
        let call = application.call("POST", &poll.poll.path("/close"));
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                poll.closing.lock().unwrap().1 = Some(history.now());
                return;
            }
            Ok(answer) => client.expect_unavailable("closing a poll", &answer),
            Err(error) => client.record_no_answer("closing a poll", &error),
        }
        client.back_off().await;
    }
}
