//! `ballast demo`: shows that no vote is lost. It starts a fleet in a temporary directory with
//! hundreds of tenants and voters. Then comes a flash crowd, which the fleet's hotspot loop finds,
//! diagnoses and cures by a migration under load. A `kill -9` hits the process in the middle, and
//! in the end every vote is counted.
//!
//! ```text
//!   fleet    a `ballast up` of its own, started, killed, stopped
//!   api      the way to it
//!   people   tenants, keys and polls
//!   crowd    the voters: how often they vote, and the answers they got
//!   count    what was acknowledged against what is found: pure
//!   size     how much is voted, and what a shard is taken to manage
//!   watch    what the hotspot loop does
//!   story    the chapters, in the terminal and on the page
//! ```
//! All figures come from the clients' point of view. The demo sets low shard capacities, windows of
//! seconds instead of minutes, and throttled copying.

mod api;
mod chapters;
mod count;
mod crowd;
mod fleet;
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

use api::FleetApi;
use ballast_cli::{CommandOutcome, Screen};
use chapters::DemoResult;
use crowd::Voters;
use fleet::DemoFleet;
use story::StoryWriter;

/// Show a flash crowd, a migration under load and a kill -9, on a temporary fleet
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Address and port of the console; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8088")]
    listen: String,
    /// Number of tenants
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u32).range(12..=5_000))]
    tenants: u32,
    /// Run further migrations, each with a kill -9 in the middle
    #[arg(long)]
    chaos: bool,
    /// For programs: no browser, no waiting; print the summary, exit code 1 if a vote is lost
    #[arg(long)]
    headless: bool,
    /// Length of each quiet passage
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = ballast_cli::parse_duration)]
    pace: Duration,
}

/// Further migrations with `--chaos`.
const CHAOS_ROUNDS: u32 = 5;
/// How long the console stays up at the end.
const LINGER: Duration = Duration::from_secs(15 * 60);

/// Runs the demo from the first vote to the final count.
pub(crate) async fn run(args: &DemoArgs, screen: &Screen) -> anyhow::Result<CommandOutcome> {
    let mut stop = StopSignals::listen()?;
    let mut fleet = DemoFleet::start_new(&args.listen).await?;
    let outcome = match prepare_stage(args, screen, &fleet, &mut stop).await {
        Ok(Some(stage)) => run_story(args, screen, &mut fleet, stage, &mut stop).await,
        // Stopped before voting started.
        Ok(None) => Ok(CommandOutcome::Done),
        Err(error) => Err(error),
    };
    // Clean up in every case.
    fleet.tear_down().await;
    outcome
}

/// Ctrl-C and SIGTERM. Handled from the start, so that the demo always cleans up.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The parts of a running demo.
struct DemoStage {
    api: FleetApi,
    teller: Arc<StoryWriter>,
    crowd: Arc<Voters>,
    /// The tenant that the flash crowd votes on.
    star: Arc<people::DemoTenant>,
}

/// Creates the tenants; `None` if the demo is stopped meanwhile.
async fn prepare_stage(
    args: &DemoArgs,
    screen: &Screen,
    fleet: &DemoFleet,
    stop: &mut StopSignals,
) -> anyhow::Result<Option<DemoStage>> {
    let api = FleetApi::new(fleet)?;
    let teller = Arc::new(StoryWriter::new(fleet.story_file(), screen, args.chaos));
    if !screen.json {
        screen.note(&format!(
            "A fleet of six shards is running. Open its console:\n\n  {}\n",
            api.login_link(fleet).await?
        ));
        if !args.headless && std::io::stdout().is_terminal() {
            open_browser(&api.login_link(fleet).await?);
        }
    }
    teller.begin(
        "people",
        &format!("creating {} tenants with one poll each", args.tenants),
    );
    let people = tokio::select! {
        people = people::create_tenants(&api, args.tenants) => people.context("make tenants")?,
        () = stop.requested() => {
            screen.note("stopped before voting started");
            return Ok(None);
        }
    };
    let (favourites, star) = people::choose_roles(&people).context("two tenants on one shard")?;
    let star = people.get(star).context("a star")?.clone();
    let crowd = Arc::new(Voters::new(people, favourites, &api));
    Ok(Some(DemoStage {
        api,
        teller,
        crowd,
        star,
    }))
}

async fn run_story(
    args: &DemoArgs,
    screen: &Screen,
    fleet: &mut DemoFleet,
    stage: DemoStage,
    stop: &mut StopSignals,
) -> anyhow::Result<CommandOutcome> {
    let DemoStage {
        api,
        teller,
        crowd,
        star,
    } = stage;
    let telling = tokio::spawn(teller.clone().run_writer(crowd.clone()));
    let counting = tokio::spawn(teller.clone().run_counter(api.clone(), crowd.clone()));
    let voting = crowd.clone().vote();
    let rounds = if args.chaos { CHAOS_ROUNDS } else { 0 };
    let (mut ended, is_early) = tokio::select! {
        ended = chapters::play_chapters(fleet, &api, &crowd, &star, &teller, args.pace, rounds) => {
            (ended?, false)
        }
        () = stop.requested() => {
            screen.note("stopped early; counting the votes so far");
            (DemoResult::default(), true)
        }
    };
    ended.kills = fleet.kills;
    // A stop may arrive between a kill and a restart.
    fleet.ensure_running().await?;
    counting.abort();
    crowd.stop();
    voting.await?;
    let found = count::count_all_votes(&api, &crowd)
        .await
        .context("count the votes")?;
    teller.finish(&crowd, &found);
    telling.abort();
    teller.write(&crowd);
    let summary = story::DemoSummary::new(&crowd, &found, &ended);
    let said = match screen.json {
        true => serde_json::to_string(&summary)?,
        false => summary.text(),
    };
    // Stdout may be closed; the exit code tells the result too.
    let _ = screen.data(said.as_bytes());
    // After an early stop, end at once.
    if !is_early && !args.headless && !screen.json && std::io::stdout().is_terminal() {
        screen.note("The console stays up for 15 minutes. Press Ctrl-C to stop.");
        let _ = tokio::time::timeout(LINGER, stop.requested()).await;
    }
    Ok(match summary.is_good() {
        true => CommandOutcome::Done,
        false => CommandOutcome::Negative,
    })
}

/// Opens a browser if there is one; ignores errors.
fn open_browser(url: &str) {
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
