//! Journey: stored rows are damaged while their tenant moves. Ballast reports the damage and the
//! shard that has it. Before the cutover the rows are copied again once; in the window the slice
//! returns or the copy is repaired. No vote is lost.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::support::polls::{Application, TestPoll};
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, ProcessExit, eventually, text};
use serde_json::{Value, json};

const VOTES: usize = 600;
const VOTER: &str = "voter-17";

/// A tenant whose rows can be damaged, with a poll and votes.
struct Trial {
    it: Instance,
    app: Application,
    poll: TestPoll,
    from: String,
    to: String,
}

impl Trial {
    async fn with(config: &str) -> Self {
        let options = InstanceOptions {
            env: vec![("BALLAST_ROWS_ROT".to_owned(), "1".to_owned())],
            config: Some(config.to_owned()),
            ..InstanceOptions::default()
        };
        let it = Instance::with(options).await;
        let app = Application::create(&it, "acme").await;
        let poll = app.poll(json!({})).await;
        let lines = (0..VOTES).map(|n| poll.line(1, &format!("voter-{n}")));
        app.send_lines(lines.collect()).await;
        // A second poll: the report still names the damaged one.
        let other = app.poll(json!({})).await;
        app.vote(&other, 0, "somebody").await.expect(200);
        let tenant = it.get("/tenants/acme").await;
        let from = text(&tenant["slices"][0]["shardID"]);
        let mut all = (1..=4).map(|n| format!("shard-{n}"));
        let to = all.find(|id| *id != from).unwrap();
        Self {
            it,
            app,
            poll,
            from,
            to,
        }
    }

    /// Damages one voter's row on a shard as soon as it is there.
    fn plant(&self, shard: &str) {
        let directory = self.it.home().join("data/shards").join(shard);
        let row = format!("acme 0 {} {VOTER}", self.poll.id);
        // Renamed into place, so that it is never read half written.
        let draft = directory.join("rot.new");
        std::fs::write(&draft, row).unwrap();
        std::fs::rename(draft, directory.join("rot")).unwrap();
    }

    /// Damages the row on a shard now.
    async fn rot(&self, shard: &str) {
        self.plant(shard);
        self.rotten(shard).await;
    }

    async fn rotten(&self, shard: &str) {
        let file = self.it.home().join("data/shards").join(shard).join("rot");
        eventually("the row is damaged", async || {
            (!file.exists()).then_some(())
        })
        .await;
    }

    /// Changes a byte of every file of a shard whose name starts with `files`. A running shard does
    /// not reread them all.
    fn flip(&self, shard: &str, files: &str, place: u64) {
        let files = self.files(shard, files);
        assert!(!files.is_empty(), "there are no such files");
        for path in files {
            let mut bytes = [0];
            let file = File::options().read(true).write(true).open(path).unwrap();
            file.read_exact_at(&mut bytes, place).unwrap();
            file.write_all_at(&[bytes[0] ^ 0x5a], place).unwrap();
        }
    }

    fn files(&self, shard: &str, begin_with: &str) -> Vec<PathBuf> {
        let directory = self.it.home().join("data/shards").join(shard);
        let files = std::fs::read_dir(directory).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        files
            .filter(|path| name(path).starts_with(begin_with))
            .collect()
    }

    /// Checks for a finding about a damaged file of a shard, with this consequence.
    fn assert_finding(ended: &Value, shard: &str, then: &str) {
        let findings = ended["findings"].as_array().unwrap();
        let reply = findings.iter().any(|one| {
            one["shardID"] == shard
                && one["then"].as_str().unwrap().contains(then)
                && one["what"].as_str().unwrap().contains("is damaged")
        });
        assert!(reply, "{ended}");
    }

    async fn begun(&self, terms: Value) -> String {
        let mut body = json!({"toShardID": self.to});
        for (name, value) in terms.as_object().unwrap() {
            body[name] = value.clone();
        }
        let call = self.it.call("POST", "/tenants/acme/move");
        text(&call.json(&body).send().await.expect(202)["migrationID"])
    }

    async fn until(&self, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let found = self.it.get(&format!("/migrations/{id}")).await;
            is(&found).then_some(found)
        })
        .await
    }

    async fn in_window(&self, id: &str) {
        let is = |found: &Value| found["phase"] == "MonitorDualRead";
        self.until(id, "the window", is).await;
    }

    async fn over(&self, id: &str) -> Value {
        let is = |found: &Value| found["ended"].is_object();
        self.until(id, "its end", is).await
    }

    async fn ask(&self, id: &str, verb: &str) {
        let call = self.it.call("POST", &format!("/migrations/{id}/{verb}"));
        call.send().await.expect(200);
    }

    async fn shown(&self, arguments: &[&str]) -> ProcessExit {
        let mut command = ballast();
        command
            .args(arguments)
            .current_dir(self.it.home())
            .env("BALLAST_URL", &self.it.admin)
            .env("BALLAST_TOKEN", &self.it.token);
        Process::spawn(&mut command).wait_for_end().await
    }

    /// Checks for a finding about a shard that names poll and voter to operators, but not in the
    /// log.
    async fn assert_reported(&mut self, ended: &Value, shard: &str, then: &str) {
        let findings = ended["findings"].as_array().unwrap();
        let named = findings.iter().any(|one| {
            let what = one["what"].as_str().unwrap();
            one["shardID"] == shard
                && one["then"].as_str().unwrap().contains(then)
                && what.contains(VOTER)
                && what.contains(&self.poll.id)
        });
        assert!(named, "{ended}");
        let id = text(&ended["migrationID"]);
        for verb in ["show", "watch"] {
            let reply = self.shown(&["migration", verb, &id]).await.stdout;
            let wrong = format!("{shard} has wrong data: poll {}", self.poll.id);
            assert!(reply.contains(&wrong) && reply.contains(VOTER), "{reply}");
        }
        let log = self.it.process().stderr();
        assert!(log.contains("stored data is wrong"), "{log}");
        assert!(!log.contains(VOTER), "a voter is named in the log");
    }

    /// Checks that every vote is present as cast, and that the tenant is on this shard.
    async fn assert_complete(&self, shard: &str, votes: usize) {
        let tenant = self.it.get("/tenants/acme").await;
        assert_eq!(tenant["slices"][0]["shardID"], shard);
        let newest = self.app.newest(&self.poll).await;
        assert_eq!(newest["total"], votes, "{newest}");
        let path = self.poll.path(&format!("/voters/{VOTER}"));
        let row = self.app.get(&path).await.to_string();
        assert!(row.contains(&self.poll.items[1]), "{row}");
        assert!(!row.contains(&self.poll.items[0]), "{row}");
    }
}

/// A row is damaged during the copy: it is reported and copied again, and the migration completes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_damaged_before_the_cutover_are_reported_and_copied_again() {
    let mut trial = Trial::with("[moves]\nbytes_per_second = 20000\n").await;
    trial.plant(&trial.to);
    let id = trial.begun(json!({"windowMs": 0})).await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["figures"]["repaired"], 1, "{ended}");
    let to = trial.to.clone();
    trial.assert_reported(&ended, &to, "copied again").await;
    trial.assert_complete(&to, VOTES).await;
}

/// A row is damaged repeatedly: there is no cutover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_damaged_repeatedly_prevent_the_cutover() {
    let mut trial = Trial::with("").await;
    // Verification repeats, because the write pause would never be short enough.
    let id = trial.begun(json!({"maxPauseMs": 1})).await;
    let put_off = |found: &Value| found["figures"]["putOff"] != 0;
    trial.until(&id, "verified", put_off).await;
    trial.rot(&trial.to).await;
    let repaired = |found: &Value| found["figures"]["repaired"] == 1;
    let shown = trial.until(&id, "repaired", repaired).await;
    let before = shown["figures"]["putOff"].as_u64();
    let again = |found: &Value| found["figures"]["putOff"].as_u64() > before;
    trial.until(&id, "verified again", again).await;
    trial.rot(&trial.to).await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "rolledBack", "{ended}");
    let why = text(&ended["ended"]["why"]);
    assert!(why.contains(VOTER) && why.contains(&trial.poll.id), "{why}");
    assert_eq!(ended["figures"]["cutOverAt"], Value::Null, "{ended}");
    let (from, to) = (trial.from.clone(), trial.to.clone());
    trial.assert_reported(&ended, &to, "rolled back").await;
    trial.assert_complete(&from, VOTES).await;
}

/// A row of the new owner is damaged. A reader of results detects it long before the window ends;
/// Ballast decides which side is wrong, and the slice returns with the votes cast since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_detect_a_damaged_row_of_the_owner_and_the_slice_returns() {
    let mut trial = Trial::with("[router]\ndual_read_sample = 1\n").await;
    let id = trial.begun(json!({"windowMs": 3_600_000})).await;
    trial.in_window(&id).await;
    let vote = trial.app.vote(&trial.poll, 1, "in-the-window").await;
    vote.expect(200);
    trial.rot(&trial.to).await;
    let ended = eventually("the automatic reversal", async || {
        trial.app.newest(&trial.poll).await;
        let found = trial.it.get(&format!("/migrations/{id}")).await;
        found["ended"].is_object().then_some(found)
    })
    .await;
    assert_eq!(ended["status"], "reversed", "{ended}");
    let why = text(&ended["ended"]["why"]);
    assert!(
        why.contains(&format!("{} has wrong data", trial.to)),
        "{why}"
    );
    assert!(
        ended["certificate"]["differences"].as_u64() > Some(0),
        "{ended}"
    );
    let (from, to) = (trial.from.clone(), trial.to.clone());
    trial.assert_reported(&ended, &to, "goes back").await;
    trial.assert_complete(&from, VOTES + 1).await;
}

/// Without readers, the scrub at the window's end detects the damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scrub_detects_a_damaged_row_of_the_owner_before_cleanup() {
    let mut trial = Trial::with("").await;
    let id = trial.begun(json!({"windowMs": 3_600_000})).await;
    trial.in_window(&id).await;
    trial.rot(&trial.to).await;
    trial.ask(&id, "complete").await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "reversed", "{ended}");
    let (from, to) = (trial.from.clone(), trial.to.clone());
    trial.assert_reported(&ended, &to, "goes back").await;
    trial.assert_complete(&from, VOTES).await;
}

/// A row of the source is damaged: it is reported and repaired first, then the migration completes
/// or the slice returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_rows_of_the_source_are_repaired_first() {
    for (verb, status, then) in [
        ("complete", "completed", "copied again"),
        ("reverse", "reversed", "before the slice returns"),
    ] {
        let mut trial = Trial::with("").await;
        let id = trial.begun(json!({"windowMs": 3_600_000})).await;
        trial.in_window(&id).await;
        let vote = trial.app.vote(&trial.poll, 1, "in-the-window").await;
        vote.expect(200);
        trial.rot(&trial.from).await;
        trial.ask(&id, verb).await;
        let ended = trial.over(&id).await;
        assert_eq!(ended["status"], status, "{ended}");
        let (from, to) = (trial.from.clone(), trial.to.clone());
        trial.assert_reported(&ended, &from, then).await;
        let owner = if status == "completed" { &to } else { &from };
        trial.assert_complete(owner, VOTES + 1).await;
    }
}

/// A sorted file of the target is damaged before the cutover: it is reported, and its rows are
/// copied again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_target_is_reported_and_copied_again() {
    let trial = Trial::with("").await;
    let id = trial.begun(json!({"maxPauseMs": 1})).await;
    let put_off = |found: &Value| found["figures"]["putOff"] != 0;
    trial.until(&id, "verified", put_off).await;
    trial.flip(&trial.to, "rows-", 200);
    let repaired = |found: &Value| found["figures"]["repaired"].as_u64() > Some(0);
    let shown = trial.until(&id, "repaired", repaired).await;
    Trial::assert_finding(&shown, &trial.to, "copied again");
    let before = shown["figures"]["putOff"].as_u64();
    let again = |found: &Value| found["figures"]["putOff"].as_u64() > before;
    trial.until(&id, "verified again", again).await;
    trial.ask(&id, "cancel").await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    trial.assert_complete(&trial.from, VOTES).await;
}

/// The target's log is damaged during the copy. That cannot be repaired, so the migration ends at
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_of_the_target_ends_the_migration() {
    let trial = Trial::with("[moves]\nbytes_per_second = 10000\n").await;
    let id = trial.begun(json!({"windowMs": 0})).await;
    let log = trial.files(&trial.to, "log-").pop().unwrap();
    eventually("rows are there", async || {
        // Log files are created full of zeros.
        let mut bytes = [0; 64];
        let file = File::open(&log).unwrap();
        file.read_exact_at(&mut bytes, 5_000).unwrap();
        (bytes != [0; 64]).then_some(())
    })
    .await;
    // The rows are in no sorted file yet.
    trial.flip(&trial.to, "log-", 5_000);
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "rolledBack", "{ended}");
    Trial::assert_finding(&ended, &trial.to, "rolled back");
    trial.assert_complete(&trial.from, VOTES).await;
}

/// A sorted file of the owner is damaged in the window. A reader of the poll or the scrub at the
/// window's end detects it; the slice returns with every vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_owner_returns_the_slice() {
    for (sync, somebody_reads) in [(false, false), (true, false), (false, true)] {
        let trial = Trial::with("[router]\nhold_max = \"300ms\"\n").await;
        let terms = json!({"windowMs": 3_600_000, "sync": sync});
        let id = trial.begun(terms).await;
        trial.in_window(&id).await;
        let vote = trial.app.vote(&trial.poll, 1, "in-the-window").await;
        vote.expect(200);
        trial.flip(&trial.to, "rows-", 200);
        if somebody_reads {
            let call = trial.app.call("GET", &trial.poll.path("/export"));
            call.send().await.expect_error(503, "unavailable");
        } else {
            trial.ask(&id, "complete").await;
        }
        let ended = trial.over(&id).await;
        assert_eq!(ended["status"], "reversed", "{ended}");
        assert_eq!(ended["givenUp"], Value::Null, "{ended}");
        Trial::assert_finding(&ended, &trial.to, "goes back");
        trial.assert_complete(&trial.from, VOTES + 1).await;
    }
}

/// A sorted file of the source is damaged: it is rebuilt, then the migration completes or the slice
/// returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_source_is_rebuilt() {
    for (verb, status, then) in [
        ("complete", "completed", "copied again"),
        ("reverse", "reversed", "before the slice returns"),
    ] {
        let mut trial = Trial::with("").await;
        // Rows that arrived by a migration were read back, so they are in a sorted file.
        let id = trial.begun(json!({"windowMs": 0})).await;
        assert_eq!(trial.over(&id).await["status"], "completed");
        std::mem::swap(&mut trial.from, &mut trial.to);
        let id = trial.begun(json!({"windowMs": 3_600_000})).await;
        trial.in_window(&id).await;
        let vote = trial.app.vote(&trial.poll, 1, "in-the-window").await;
        vote.expect(200);
        trial.flip(&trial.from, "rows-", 200);
        trial.ask(&id, verb).await;
        let ended = trial.over(&id).await;
        assert_eq!(ended["status"], status, "{ended}");
        Trial::assert_finding(&ended, &trial.from, then);
        let owner = match status {
            "completed" => &trial.to,
            _ => &trial.from,
        };
        trial.assert_complete(owner, VOTES + 1).await;
    }
}
