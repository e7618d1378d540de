//! Journey: a shard's disk fails under the ledger's clients. Nothing is acknowledged that is not on
//! disk, the shard reports the failure, other shards continue, and when the disk works again the
//! shard recovers without a restart.
//!
//! The disks are small tmpfs in a mount namespace of the test, so nothing is left behind: as root
//! made by `unshare --mount`, otherwise with a user namespace. Where neither is allowed, these
//! tests fail and say so.

#![allow(clippy::print_stdout, reason = "a run prints its seed")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::random::SeededRandom;
use crate::ledger::world::LedgerWorld;
use crate::ledger::{LedgerPlan, Run};
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, text, within};
use serde_json::Value;

/// Large enough for a run, small enough to fill.
const DISK: &str = "size=256m";
/// How long it may take to fill the disk and the log.
const FILLING: Duration = Duration::from_secs(180);
/// Set in the process that runs inside the namespace.
const INSIDE: &str = "BALLAST_TEST_INSIDE";
const SHARDS: usize = 4;
/// Requests wait only briefly for an unreachable shard.
const IMPATIENT: &str = "[router]\nhold_max = \"300ms\"\n";

/// Runs this test again in a new mount namespace; returns whether this is the process inside.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let namespaces: [&[&str]; 2] = [&["--mount"], &["--mount", "--user", "--map-root-user"]];
    let allowed = namespaces.iter().find(|flags| {
        let mut probe = Command::new("unshare");
        let probe = probe
            .args(**flags)
            .args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        probe.output().is_ok_and(|output| output.status.success())
    });
    let Some(flags) = allowed else {
        panic!(
            "no disk can be filled here: neither `unshare --mount` (as root) nor `unshare \
             --mount --user` may mount a tmpfs; run this test as root or allow user namespaces"
        );
    };
    let run = Command::new("unshare")
        .args(*flags)
        .arg(own)
        .args(["--exact", &format!("disk::{test}"), "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let reply = String::from_utf8_lossy(&run.stdout);
    let why = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{reply}\n{why}");
    println!("{reply}");
    false
}

fn mount(arguments: &[&str], place: &Path) {
    let done = Command::new("mount").args(arguments).arg(place).output();
    let done = done.unwrap();
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "mount {}: {why}", place.display());
}

/// Mounts a disk for each shard, before the instance starts.
fn disks(home: &Path, size: &str) {
    for number in 1..=SHARDS {
        let place = home.join(format!("data/shards/shard-{number}"));
        std::fs::create_dir_all(&place).unwrap();
        mount(&["-t", "tmpfs", "-o", size, "none"], &place);
    }
}

/// A run with an instance that has a disk per shard.
struct Trouble {
    run: Run,
    /// The directory and the id of the first tenant's shard.
    shard: (PathBuf, String),
    /// The index of a tenant on another shard.
    other: usize,
}

impl Trouble {
    async fn prepared(env: &[(&str, &str)]) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        disks(home.path(), DISK);
        let env = env.iter();
        let options = InstanceOptions {
            config: Some(IMPATIENT.to_owned()),
            env: env
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..InstanceOptions::default()
        };
        let plan = LedgerPlan {
            seed: SeededRandom::seed(),
            kills: 0,
            votes: 0,
            between: (300, 600),
            clients: (64, 24),
            think: Duration::ZERO,
            expires_in_ms: 3_000,
            tears_one_in: 2,
            recovery: Duration::from_secs(60),
            options: options.clone(),
        };
        let mut random = SeededRandom::new(plan.seed, 2);
        let world = LedgerWorld::start_in(home, options, &mut random).await;
        let run = Run::start_on(world, plan).await;
        let mut shards = Vec::new();
        for tenant in crate::ledger::TENANTS {
            let tenant = run
                .world
                .instance()
                .get(&format!("/tenants/{tenant}"))
                .await;
            shards.push(text(&tenant["slices"][0]["shardID"]));
        }
        let other = shards.iter().position(|shard| *shard != shards[0]);
        let shard = run.world.data_dir().join("shards").join(&shards[0]);
        Self {
            run,
            shard: (shard, shards[0].clone()),
            other: other.expect("a tenant on another shard"),
        }
    }

    /// A shard without any of the tenants.
    async fn shard_without_tenants(&self) -> String {
        let instance = self.run.world.instance();
        let mut free: Vec<_> = (1..=SHARDS).map(|n| format!("shard-{n}")).collect();
        for tenant in crate::ledger::TENANTS {
            let tenant = instance.get(&format!("/tenants/{tenant}")).await;
            free.retain(|shard| *shard != text(&tenant["slices"][0]["shardID"]));
        }
        free.remove(0)
    }

    /// Fills the disk, and then the space that the log has already reserved, up to a segment of
    /// 64 MiB: the run's clients alone would need minutes for that on a busy machine.
    async fn fill_until_votes_fail(&self, filler: &Path) {
        let application = &self.run.shared.applications[0];
        let poll = application.poll(serde_json::json!({})).await;
        let mut voters = 0..;
        within(FILLING, "the disk is full", async || {
            // Also what was freed meanwhile.
            fill(filler);
            let lines = voters.by_ref().take(20_000);
            let lines = lines.map(|voter: u64| poll.line(0, &format!("{voter:0>128}")));
            let lines: String = lines.collect();
            // Refused as a whole once the shard is known to be unavailable.
            let sent = application.call("POST", "/votes");
            let sent = sent.raw("application/x-ndjson", lines).try_send().await?;
            let is_refused = sent.status == 503 || sent.text.contains("\"refused\"");
            is_refused.then_some(())
        })
        .await;
    }

    /// Waits until `/readyz` names the shard, and nothing else.
    async fn wait_until_unready(&self) -> String {
        let instance = self.run.world.instance();
        eventually("the shard reports that it does not work", async || {
            let answer = instance.route("GET", "/readyz").try_send().await?;
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            let named = detail.contains(&self.shard.1) && !detail.contains("starting");
            let reply = answer.status == 503 && named;
            reply.then(|| {
                assert!(!answer.header("retry-after").is_empty());
                detail.to_owned()
            })
        })
        .await
    }

    /// Checks the answers to both tenants while the disk fails.
    async fn assert_nothing_is_acknowledged(&self) {
        let shared = &self.run.shared;
        let polls = &shared.history.polls;
        let (ours, theirs) = (&shared.applications[0], &shared.applications[self.other]);
        let single = |tenant: usize| &polls[5 * tenant].poll;
        // A vote is held before it is refused. After that, every answer from before the failure is
        // in the history.
        let held = ours.vote(single(0), 0, "nobody").await;
        held.expect_error(503, "unavailable");
        let before: Vec<u64> = polls[..5].iter().map(|poll| poll.floor()).collect();
        for number in 0..5 {
            let refused = ours.vote(single(0), 0, "nobody").await;
            assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
            refused.expect_error(503, "unavailable");
            let read = ours.call("GET", &single(0).path("/votes"));
            let read = read.header("cache-control", "no-cache").send().await;
            read.expect_error(503, "unavailable");
            // Tenants on other shards notice nothing.
            let results: Value = theirs.newest(single(self.other)).await;
            assert!(results["total"].is_u64(), "{number}");
        }
        let after: Vec<u64> = polls[..5].iter().map(|poll| poll.floor()).collect();
        assert_eq!(before, after, "acknowledged though not on disk");
    }

    /// Checks that votes of tenants on other shards are counted.
    async fn assert_others_can_vote(&self) {
        let shared = &self.run.shared;
        let mut client = crate::ledger::clients::Client::new(shared, 0, 20_000 + self.other);
        for _ in 0..50 {
            let ask = crate::ledger::history::VoteRequest {
                item: 1,
                withdraw: false,
                request: Some(1),
            };
            let voter = client.voter();
            let outcome = client.send(5 * self.other, &voter, ask, None).await;
            assert!(
                matches!(outcome, crate::ledger::history::VoteOutcome::Applied(_)),
                "{outcome:?}"
            );
        }
    }

    /// Waits until everything works again, without a restart.
    async fn wait_until_healthy(&self) {
        let instance = self.run.world.instance();
        eventually("everything works again", async || {
            let answer = instance.route("GET", "/readyz").try_send().await?;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// Waits for new votes, ends the run, and checks that the audit has no findings.
    async fn end_without_findings(mut self) {
        self.run.await_votes().await;
        let report = self.run.end().await;
        assert!(report.findings.is_empty(), "{report:#?}");
    }
}

#[test]
fn a_full_disk_refuses_votes_until_there_is_room() {
    if !is_inside("a_full_disk_refuses_votes_until_there_is_room") {
        return;
    }
    inside(async {
        let trouble = Trouble::prepared(&[]).await;
        let filler = trouble.shard.0.join("filler");
        trouble.fill_until_votes_fail(&filler).await;
        let reply = trouble.wait_until_unready().await;
        assert!(reply.contains("No space left"), "{reply}");
        trouble.assert_nothing_is_acknowledged().await;
        trouble.assert_others_can_vote().await;
        std::fs::remove_file(&filler).unwrap();
        trouble.wait_until_healthy().await;
        trouble.end_without_findings().await;
    });
}

/// The tenant stays on its shard and accepts votes until there is room.
#[test]
fn a_move_to_a_full_disk_waits_for_room_and_loses_nothing() {
    if !is_inside("a_move_to_a_full_disk_waits_for_room_and_loses_nothing") {
        return;
    }
    inside(async {
        let mut trouble = Trouble::prepared(&[]).await;
        trouble.run.await_votes().await;
        let instance = trouble.run.world.instance();
        let target = trouble.shard_without_tenants().await;
        let shards = trouble.run.world.data_dir().join("shards");
        let filler = shards.join(&target).join("filler");
        fill(&filler);
        let body = serde_json::json!({ "toShardID": target, "windowMs": 0 });
        let asked = instance.call("POST", "/tenants/acme/move").json(&body);
        let asked = asked.send().await.expect(202);
        let path = format!("/migrations/{}", text(&asked["migrationID"]));
        let reply = eventually("the migration waits for disk space", async || {
            let now = instance.get(&path).await;
            let is_waiting = now["status"] == "waiting";
            is_waiting.then(|| text(&now["waitingFor"]))
        })
        .await;
        assert!(reply.contains("No space left"), "{reply}");
        let now = instance.get(&path).await;
        assert_eq!(now["fromShardID"], trouble.shard.1, "{now}");
        assert!(now["certificate"].is_null(), "{now}");
        trouble.run.await_votes().await;
        std::fs::remove_file(&filler).unwrap();
        let instance = trouble.run.world.instance();
        // The step waits for its next attempt, and then copies under full load.
        let patience = Duration::from_secs(180);
        within(patience, "the end of the migration", async || {
            let now = instance.get(&path).await;
            let status = text(&now["status"]);
            (!["running", "waiting"].contains(&status.as_str())).then(|| {
                assert_eq!(status, "completed", "{now}");
            })
        })
        .await;
        trouble.end_without_findings().await;
    });
}

/// The ledger treats `unavailable` as an unknown outcome. But a vote refused because the disk is
/// full was not written, so it must not be counted later.
#[test]
fn a_stream_interrupted_by_a_full_disk_counts_as_answered() {
    if !is_inside("a_stream_interrupted_by_a_full_disk_counts_as_answered") {
        return;
    }
    inside(async {
        let home = Arc::new(tempfile::tempdir().unwrap());
        disks(home.path(), "size=3m");
        let options = InstanceOptions {
            config: Some(IMPATIENT.to_owned()),
            ..InstanceOptions::default()
        };
        let it = Instance::within(home.clone(), options).await;
        let acme = Application::create(&it, "acme").await;
        let poll = acme.poll(serde_json::json!({})).await;
        let votes = (0..160_000).map(|n| poll.line(0, &format!("voter-{n}")));
        let outcomes = acme.send_lines(votes.collect::<Vec<_>>().join("\n")).await;
        let reply = |what: &str| {
            let outcome = outcomes.iter().filter(|line| line["outcome"] == what);
            outcome.count() as u64
        };
        let (counted, refused) = (reply("counted"), reply("refused"));
        assert!(counted > 0 && refused > 0, "{counted} and {refused}");
        assert_eq!(counted + refused, 160_000);
        for number in 1..=SHARDS {
            let place = home.path().join(format!("data/shards/shard-{number}"));
            mount(&["-o", "remount,size=256m"], &place);
        }
        eventually("there is room again", async || {
            let answer = it.route("GET", "/readyz").try_send().await?;
            (answer.status == 200).then_some(())
        })
        .await;
        assert_eq!(acme.newest(&poll).await["total"], counted);
        let refused = outcomes
            .iter()
            .position(|line| line["outcome"] == "refused");
        let voter = format!("voter-{}", refused.unwrap());
        acme.vote(&poll, 1, &voter).await.expect(200);
    });
}

/// Fills the disk.
fn fill(filler: &Path) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.create(true).append(true).open(filler).unwrap();
    for size in [1 << 20, 1 << 12] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

#[test]
fn a_read_only_disk_keeps_one_shard_away_until_it_can_be_written() {
    if !is_inside("a_read_only_disk_keeps_one_shard_away_until_it_can_be_written") {
        return;
    }
    inside(async {
        let mut trouble = Trouble::prepared(&[]).await;
        trouble.run.await_votes().await;
        trouble.run.world.kill();
        trouble.run.shared.history.record_kill();
        mount(&["-o", "remount,bind,ro"], &trouble.shard.0);
        trouble.run.shared.history.record_restart();
        let restarted = trouble.run.world.restart(Duration::ZERO).await;
        assert!(restarted.is_err(), "the instance must not be ready at once");
        let reply = trouble.wait_until_unready().await;
        assert!(reply.contains("Read-only"), "{reply}");
        trouble.assert_nothing_is_acknowledged().await;
        trouble.assert_others_can_vote().await;
        mount(&["-o", "remount,bind,rw"], &trouble.shard.0);
        trouble.wait_until_healthy().await;
        trouble.end_without_findings().await;
    });
}

/// Syncs fail (a fault, see `vote-shard/src/embedded/faults.rs`). That a failed sync may lose
/// earlier writes is tested on the simulated disk.
#[test]
fn a_failed_sync_acknowledges_nothing() {
    if !is_inside("a_failed_sync_acknowledges_nothing") {
        return;
    }
    inside(async {
        let mut trouble = Trouble::prepared(&[("BALLAST_FAULT", "sync-fails")]).await;
        let switch = trouble.shard.0.join("sync-fails");
        for killed in [false, true] {
            trouble.run.await_votes().await;
            std::fs::write(&switch, "").unwrap();
            let reply = trouble.wait_until_unready().await;
            assert!(reply.contains("the sync failed"), "{reply}");
            trouble.assert_nothing_is_acknowledged().await;
            trouble.assert_others_can_vote().await;
            if killed {
                trouble.run.world.kill();
                trouble.run.shared.history.record_kill();
            }
            std::fs::remove_file(&switch).unwrap();
            if killed {
                assert!(trouble.run.kill_and_restart().await);
            }
            trouble.wait_until_healthy().await;
        }
        trouble.end_without_findings().await;
    });
}

fn inside(journey: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(journey);
}
