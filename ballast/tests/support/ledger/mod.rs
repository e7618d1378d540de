//! The ledger: hundreds of clients vote while the process is killed again and
//! again, and at the end every vote is accounted for.
//!
//! ```text
//!   world.rs     the process: started, killed, torn, started again
//!   clients.rs   those who vote (voters.rs, streams.rs) and look (readers.rs)
//!   book.rs      what was sent and what was answered, in one order
//!   movers.rs    whoever moves tenants meanwhile
//!   audit.rs     what is there at the end, against the book
//!   register.rs  whether a voter's history explains the voter's row
//! ```
//! A run decides by chance, from one seed, which it prints;
//! `BALLAST_LEDGER_SEED` repeats its decisions. It ends with a [`Report`]: what
//! was done, and what was found that must not be. Nothing found is a pass.

#![allow(dead_code, reason = "each journey uses a part of it")]
#![allow(clippy::print_stdout, reason = "a run tells its seed")]
#![allow(unreachable_pub, reason = "each journey has the harness as a module")]

pub mod audit;
pub mod book;
pub mod chance;
pub mod clients;
pub mod movers;
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

use self::audit::Extent;
use self::book::{Book, PollBook};
use self::chance::Chance;
use self::clients::{Client, Common};
use self::world::{Kind, World, until};
use crate::support::{Options, stopwatch};

/// What a run does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What chance is drawn from.
    pub seed: u64,
    /// How often the process is killed.
    pub kills: usize,
    /// How many votes must be acknowledged at least.
    pub votes: u64,
    /// Votes acknowledged between two kills: from, to.
    pub between: (usize, usize),
    /// Clients that vote one by one, and that send streams.
    pub clients: (usize, usize),
    /// How long a client thinks before a vote, on average; one that sends
    /// streams so much longer as it sends more.
    pub think: Duration,
    /// When the polls expire that do.
    pub expires_in_ms: i64,
    /// Of so many kills, one tears the logs.
    pub tears_one_in: usize,
    /// How long a killed process may take until all its shards work again.
    pub recovery: Duration,
    /// How the process is started.
    pub options: Options,
}

/// What a run has done and found.
#[derive(Debug)]
pub struct Report {
    /// What must not be.
    pub findings: Vec<String>,
    /// What was done, in words.
    pub done: String,
    /// Distinct votes that were acknowledged.
    pub acknowledged: u64,
    /// How often the process was killed while clients voted.
    pub kills: usize,
}

/// Tenants of a run.
pub const TENANTS: [&str; 3] = ["acme", "beta", "gamma"];
/// How long votes may take to come in before something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run under way.
pub struct Run {
    /// The process.
    pub world: World,
    /// What clients share.
    pub common: Arc<Common>,
    plan: Plan,
    chance: Chance,
    clients: JoinSet<()>,
    kills: usize,
    in_vain: usize,
    torn: usize,
    watch: std::time::Instant,
}

/// All of it: clients, kills, the end, the audit.
pub async fn run(plan: Plan) -> Report {
    let mut run = Run::start(plan).await;
    while run.goes_on() {
        run.votes_come_in().await;
        if run.kills == run.plan.kills / 2 {
            run.close_polls();
        }
        if !run.killed_and_restarted().await {
            break;
        }
    }
    run.end().await
}

impl Run {
    /// Starts the process, makes tenants and polls, and lets the clients in.
    pub async fn start(plan: Plan) -> Self {
        let mut chance = Chance::new(plan.seed, 0);
        let world = World::start(plan.options.clone(), &mut chance).await;
        Self::over(world, plan).await
    }

    /// The same over a process that runs already.
    pub async fn over(world: World, plan: Plan) -> Self {
        println!("ledger: BALLAST_LEDGER_SEED={}", plan.seed);
        let chance = Chance::new(plan.seed, 1);
        let mut applications = Vec::new();
        let mut book = Book::default();
        for (tenant, name) in TENANTS.iter().enumerate() {
            let application = world.application(name).await;
            for kind in Kind::all(plan.expires_in_ms) {
                let poll = application.poll(kind.fields()).await;
                book.polls.push(PollBook::new(tenant, kind, poll));
            }
            applications.push(application);
        }
        let common = Arc::new(Common {
            book,
            applications,
            ending: false.into(),
            sent_away: 0.into(),
            late: 0.into(),
            first_away: OnceLock::new(),
            think: plan.think,
        });
        let mut run = Self {
            world,
            common,
            plan,
            chance,
            clients: JoinSet::new(),
            kills: 0,
            in_vain: 0,
            torn: 0,
            watch: stopwatch(),
        };
        run.let_in();
        run
    }

    fn let_in(&mut self) {
        let (one_by_one, streams) = self.plan.clients;
        let seed = self.plan.seed;
        let mut numbers = 0..;
        let mut next = |common| Client::new(common, seed, numbers.next().unwrap());
        for _ in 0..one_by_one {
            self.clients.spawn(voters::vote(next(&self.common)));
        }
        for _ in 0..streams {
            self.clients.spawn(streams::stream(next(&self.common)));
        }
        for _ in 0..6 {
            self.clients.spawn(readers::read(next(&self.common)));
            self.clients.spawn(readers::watch(next(&self.common)));
        }
        self.clients.spawn(readers::export(next(&self.common)));
    }

    /// Whether there is more to be done.
    fn goes_on(&self) -> bool {
        let book = &self.common.book;
        let expired = book.polls.iter().all(|poll| match poll.kind {
            Kind::Expiring(at) => book.now().ms > at,
            _ => true,
        });
        let enough = self.kills >= self.plan.kills && book.acknowledged() >= self.plan.votes;
        !(book.has_findings() || enough && expired)
    }

    /// Waits until so many more votes were acknowledged.
    pub async fn votes_come_in(&mut self) {
        let book = &self.common.book;
        let more = self
            .chance
            .between(self.plan.between.0, self.plan.between.1);
        let goal = book.acknowledged() + more as u64;
        until(PATIENCE, "votes are acknowledged", || {
            book.acknowledged() >= goal || book.has_findings()
        })
        .await;
    }

    /// Closes the polls that are to be closed, in the background.
    fn close_polls(&mut self) {
        for (number, poll) in self.common.book.polls.iter().enumerate() {
            if poll.kind == Kind::Closing && poll.closing.lock().unwrap().0.is_none() {
                let client = Client::new(&self.common, self.plan.seed, 10_000 + number);
                self.clients.spawn(close(client, number));
            }
        }
    }

    /// Kills the process, maybe tears its logs, maybe kills it again while it
    /// recovers, and starts it; says whether it works again.
    pub async fn killed_and_restarted(&mut self) -> bool {
        self.world.kill();
        self.kills += 1;
        self.common.book.killed();
        if self.chance.one_in(self.plan.tears_one_in) {
            self.torn += self.world.tear(&mut self.chance);
        }
        if self.chance.one_in(4) {
            self.common.book.restarted();
            self.world.start_in_vain(&mut self.chance).await;
            self.in_vain += 1;
        }
        self.common.book.restarted();
        let restarted = self.world.restart(self.plan.recovery).await;
        if let Err(why) = &restarted {
            self.common.book.found(why.clone());
        }
        restarted.is_ok()
    }

    /// Kills the process and starts it so that it dies at a place in its code;
    /// waits until it has, and says whether it has.
    pub async fn dies_at(&mut self, place: &str, patience: Duration) -> bool {
        self.world.kill();
        self.kills += 1;
        self.common.book.killed();
        self.common.book.restarted();
        let died = self.world.die_at(place, patience).await;
        self.common.book.killed();
        self.common.book.restarted();
        died
    }

    /// Sends the clients home and waits for them.
    pub async fn clients_leave(&mut self) {
        self.common.ending.store(true, Ordering::SeqCst);
        while let Some(left) = self.clients.join_next().await {
            left.unwrap();
        }
    }

    /// The clients leave, the process is killed once more, and everything that
    /// is there is looked at.
    pub async fn end(mut self) -> Report {
        if !self.common.book.has_findings() {
            self.clients_leave().await;
            if self.killed_and_restarted().await {
                let common = &self.common;
                let (book, applications) = (&common.book, &common.applications);
                audit::audit(book, applications, Extent::WHOLE, &mut self.chance).await;
                if let Err(why) = self.world.stop().await {
                    self.common.book.found(why);
                }
                for problem in self.world.verified() {
                    self.common.book.found(problem);
                }
            }
        }
        self.clients.abort_all();
        let book = &self.common.book;
        let done = format!(
            "seed {}: {} kills and {} more while it recovered, {} tails torn, {} votes acknowledged, {} answers, \
             {} told to come back, {} late, {:?}",
            self.plan.seed,
            self.kills,
            self.in_vain,
            self.torn,
            book.acknowledged(),
            book.answers(),
            self.common.sent_away.load(Ordering::SeqCst),
            self.common.late.load(Ordering::SeqCst),
            self.watch.elapsed(),
        );
        println!("ledger: {done}");
        Report {
            findings: book.findings(),
            done,
            acknowledged: book.acknowledged(),
            kills: self.kills,
        }
    }
}

/// Closes a poll, however often that has to be asked for.
async fn close(mut client: Client, number: usize) {
    let book = &client.common.clone().book;
    let poll = &book.polls[number];
    let application = &client.common.clone().applications[poll.tenant];
    while client.goes_on() {
        poll.closing.lock().unwrap().0.get_or_insert(book.now());
        let call = application.call("POST", &poll.poll.path("/close"));
        match call.outcome().await {
            Ok(answer) if answer.status == 200 => {
                poll.closing.lock().unwrap().1 = Some(book.now());
                return;
            }
            Ok(answer) => client.expect_away("closing a poll", &answer),
            Err(error) => client.unanswered("closing a poll", &error),
        }
        client.rest().await;
    }
}
