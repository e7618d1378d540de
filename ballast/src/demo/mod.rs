//! `ballast demo`: the promise, shown. A fleet of its own in a temporary
//! directory, hundreds of tenants, people who vote; then a flash crowd, which the
//! fleet's own hotspot loop finds, explains and cures by a move under fire; a
//! `kill -9` in the middle of it, and a count of every vote.
//!
//! ```text
//!   house    the fleet: a `ballast up` of its own, started, killed, stopped
//!   api      the way to it
//!   people   tenants, keys and polls
//!   crowd    who votes, how often, and what they were told
//!   count    what was acknowledged against what is found: pure
//!   size     how much is voted, and what a shard is taken to manage
//!   watch    what the hotspot loop does
//!   story    the chapters, in the terminal and on the page
//! ```
//! Clients learn what happens from the answers they get, and the figures are
//! theirs. What is set for the stage: shards are taken to manage little, windows
//! are seconds instead of minutes, and copying is slowed down.

mod api;
mod chapters;
mod count;
mod crowd;
mod house;
mod people;
mod size;
mod story;
mod watch;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use api::Api;
use ballast_cli::{Screen, Verdict};
use chapters::Ended;
use crowd::Crowd;
use house::House;
use story::Teller;

/// Show a flash crowd, a move under fire and a kill -9, on a fleet of its own
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Address and port of the console; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8088")]
    listen: String,
    /// How many tenants there are
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u32).range(12..=5_000))]
    tenants: u32,
    /// Keep killing: further moves, each with a kill -9 in the middle
    #[arg(long)]
    chaos: bool,
    /// For programs: no browser, no waiting; prints the summary and exits with 1 if a vote was lost
    #[arg(long)]
    headless: bool,
    /// How long each calm passage lasts
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = ballast_cli::parse_duration)]
    pace: Duration,
}

/// Further moves with `--chaos`.
const CHAOS_ROUNDS: u32 = 5;
/// How long people may look around at the end.
const LINGER: Duration = Duration::from_secs(15 * 60);

/// Runs it from the first vote to the last count.
pub(crate) async fn run(args: &DemoArgs, screen: &Screen) -> anyhow::Result<Verdict> {
    let mut stop = Stop::hear()?;
    let mut house = House::build(&args.listen).await?;
    let told = match settled(args, screen, &house, &mut stop).await {
        Ok(Some(stage)) => tell(args, screen, &mut house, stage, &mut stop).await,
        // Somebody had enough before anybody voted.
        Ok(None) => Ok(Verdict::Done),
        Err(error) => Err(error),
    };
    // Whatever happened, nothing is left behind.
    house.tear_down().await;
    told
}

/// Ctrl-C, or a request to end. It is heard from the beginning: whoever ends it
/// early finds nothing left behind.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn hear() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What the story is told on.
struct Stage {
    api: Api,
    teller: Arc<Teller>,
    crowd: Arc<Crowd>,
    /// The tenant that the flash crowd comes to.
    star: Arc<people::Tenant>,
}

/// Makes tenants; nothing if somebody stops it.
async fn settled(
    args: &DemoArgs,
    screen: &Screen,
    house: &House,
    stop: &mut Stop,
) -> anyhow::Result<Option<Stage>> {
    let api = Api::new(house)?;
    let teller = Arc::new(Teller::new(house.story_file(), screen, args.chaos));
    if !screen.json {
        screen.note(&format!(
            "A fleet of six shards is up. Look at it here:\n\n  {}\n",
            api.entrance(house).await?
        ));
        if !args.headless && std::io::stdout().is_terminal() {
            open(&api.entrance(house).await?);
        }
    }
    teller.begin(
        "people",
        &format!("making {} tenants with a poll each", args.tenants),
    );
    let people = tokio::select! {
        people = people::settle(&api, args.tenants) => people.context("make tenants")?,
        () = stop.asked() => {
            screen.note("stopped before anybody voted");
            return Ok(None);
        }
    };
    let (favourites, star) = people::roles(&people).context("two tenants on one shard")?;
    let star = people.get(star).context("a star")?.clone();
    let crowd = Arc::new(Crowd::new(people, favourites, &api));
    Ok(Some(Stage {
        api,
        teller,
        crowd,
        star,
    }))
}

async fn tell(
    args: &DemoArgs,
    screen: &Screen,
    house: &mut House,
    stage: Stage,
    stop: &mut Stop,
) -> anyhow::Result<Verdict> {
    let Stage {
        api,
        teller,
        crowd,
        star,
    } = stage;
    let telling = tokio::spawn(teller.clone().keep_telling(crowd.clone()));
    let counting = tokio::spawn(teller.clone().keep_counting(api.clone(), crowd.clone()));
    let voting = crowd.clone().vote();
    let rounds = if args.chaos { CHAOS_ROUNDS } else { 0 };
    let (mut ended, is_early) = tokio::select! {
        ended = chapters::play(house, &api, &crowd, &star, &teller, args.pace, rounds) => {
            (ended?, false)
        }
        () = stop.asked() => {
            screen.note("stopped early: counting what there is");
            (Ended::default(), true)
        }
    };
    ended.kills = house.kills;
    // It may have been stopped between a kill and a start.
    house.is_up().await?;
    counting.abort();
    crowd.stop();
    voting.await?;
    let found = count::of(&api, &crowd).await.context("count the votes")?;
    teller.counted(&crowd, &found);
    telling.abort();
    teller.write(&crowd);
    let summary = story::Summary::of(&crowd, &found, &ended);
    let said = match screen.json {
        true => serde_json::to_string(&summary)?,
        false => summary.text(),
    };
    // Whoever listened may have gone: how it came out is told by the exit code too.
    let _ = screen.data(said.as_bytes());
    // Whoever stopped it once is not asked to do so again.
    if !is_early && !args.headless && !screen.json && std::io::stdout().is_terminal() {
        screen.note("The console stays for a while. Ctrl-C ends it.");
        let _ = tokio::time::timeout(LINGER, stop.asked()).await;
    }
    Ok(match summary.is_good() {
        true => Verdict::Done,
        false => Verdict::Negative,
    })
}

/// Opens a browser, where there is one. That there is none is no failure.
fn open(url: &str) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let silent = std::process::Stdio::null;
    let _ = std::process::Command::new(opener)
        .arg(url)
        .stdin(silent())
        .stdout(silent())
        .stderr(silent())
        .spawn();
}
