//! Journey: a row rots behind a shard's back while its tenant moves. It is
//! named where operators look, on the side that is wrong; before the cutover it
//! is copied anew once, in the window the slice goes back or the copy is made
//! right. No vote is lost.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::support::polls::{Application, TestPoll};
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, ProcessExit, eventually, text};
use serde_json::{Value, json};

const VOTES: usize = 600;
const VOTER: &str = "voter-17";

/// A tenant whose rows can rot, with a poll and votes.
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
        // One among others: it is named all the same.
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

    /// The row of one voter is to rot on a shard, as soon as it is there.
    fn plant(&self, shard: &str) {
        let directory = self.it.home().join("data/shards").join(shard);
        let row = format!("acme 0 {} {VOTER}", self.poll.id);
        // Never seen half written.
        let draft = directory.join("rot.new");
        std::fs::write(&draft, row).unwrap();
        std::fs::rename(draft, directory.join("rot")).unwrap();
    }

    /// The row rots on a shard, now.
    async fn rot(&self, shard: &str) {
        self.plant(shard);
        self.rotten(shard).await;
    }

    async fn rotten(&self, shard: &str) {
        let file = self.it.home().join("data/shards").join(shard).join("rot");
        eventually("the row is rotten", async || (!file.exists()).then_some(())).await;
    }

    /// A byte of every file of a shard whose name begins so is changed, behind its
    /// back: as long as it runs it does not look at them all.
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

    /// What was found on a shard names it, what is damaged, and what was done.
    fn assert_finding(ended: &Value, shard: &str, then: &str) {
        let findings = ended["findings"].as_array().unwrap();
        let told = findings.iter().any(|one| {
            one["shardID"] == shard
                && one["then"].as_str().unwrap().contains(then)
                && one["what"].as_str().unwrap().contains("is damaged")
        });
        assert!(told, "{ended}");
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

    /// Something was found on a shard, and it names poll and voter, for those
    /// who look and nobody else.
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
            let told = self.shown(&["migration", verb, &id]).await.stdout;
            let wrong = format!("{shard} is wrong: poll {}", self.poll.id);
            assert!(told.contains(&wrong) && told.contains(VOTER), "{told}");
        }
        let log = self.it.process().stderr();
        assert!(log.contains("stored data is wrong"), "{log}");
        assert!(!log.contains(VOTER), "a voter is named in the log");
    }

    /// Every vote is there, as it was cast, and the tenant is on this shard.
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

/// It rots while the rest is being copied: it is named, copied anew, and the
/// move completes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_damaged_before_the_cutover_are_reported_and_copied_again() {
    let mut trial = Trial::with("[moves]\nbytes_per_second = 20000\n").await;
    trial.plant(&trial.to);
    let id = trial.begun(json!({"windowMs": 0})).await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["figures"]["repaired"], 1, "{ended}");
    let to = trial.to.clone();
    trial.assert_reported(&ended, &to, "copied anew").await;
    trial.assert_complete(&to, VOTES).await;
}

/// It rots again and again: there is no cutover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_damaged_repeatedly_prevent_the_cutover() {
    let mut trial = Trial::with("").await;
    // It is verified again and again, and never quiet enough.
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

/// It rots on the new owner. A reader of results notices, long before the
/// window ends; it is said which side is wrong, and the slice goes back by
/// itself with what was voted since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_detect_a_damaged_row_of_the_owner_and_the_slice_returns() {
    let mut trial = Trial::with("[router]\ndual_read_sample = 1\n").await;
    let id = trial.begun(json!({"windowMs": 3_600_000})).await;
    trial.in_window(&id).await;
    let vote = trial.app.vote(&trial.poll, 1, "in-the-window").await;
    vote.expect(200);
    trial.rot(&trial.to).await;
    let ended = eventually("it went back by itself", async || {
        trial.app.newest(&trial.poll).await;
        let found = trial.it.get(&format!("/migrations/{id}")).await;
        found["ended"].is_object().then_some(found)
    })
    .await;
    assert_eq!(ended["status"], "reversed", "{ended}");
    let why = text(&ended["ended"]["why"]);
    assert!(why.contains(&format!("{} is wrong", trial.to)), "{why}");
    assert!(
        ended["certificate"]["differences"].as_u64() > Some(0),
        "{ended}"
    );
    let (from, to) = (trial.from.clone(), trial.to.clone());
    trial.assert_reported(&ended, &to, "goes back").await;
    trial.assert_complete(&from, VOTES + 1).await;
}

/// Nobody reads: then the scrub at the window's end notices.
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

/// It rots on the copy that was left behind: that is said, it is made right, and
/// the move completes; or the slice goes back, but not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_rows_of_the_source_are_repaired_first() {
    for (verb, status, then) in [
        ("complete", "completed", "copied anew"),
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

/// A sorted file of the target is damaged before the cutover: it is named, and what
/// was in it is copied anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_target_is_reported_and_copied_again() {
    let trial = Trial::with("").await;
    let id = trial.begun(json!({"maxPauseMs": 1})).await;
    let put_off = |found: &Value| found["figures"]["putOff"] != 0;
    trial.until(&id, "verified", put_off).await;
    trial.flip(&trial.to, "rows-", 200);
    let repaired = |found: &Value| found["figures"]["repaired"].as_u64() > Some(0);
    let shown = trial.until(&id, "repaired", repaired).await;
    Trial::assert_finding(&shown, &trial.to, "copied anew");
    let before = shown["figures"]["putOff"].as_u64();
    let again = |found: &Value| found["figures"]["putOff"].as_u64() > before;
    trial.until(&id, "verified again", again).await;
    trial.ask(&id, "cancel").await;
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    trial.assert_complete(&trial.from, VOTES).await;
}

/// The log of the target is damaged while the slice is copied: nothing can make that
/// right, and the move ends at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_of_the_target_ends_the_migration() {
    let trial = Trial::with("[moves]\nbytes_per_second = 10000\n").await;
    let id = trial.begun(json!({"windowMs": 0})).await;
    let log = trial.files(&trial.to, "log-").pop().unwrap();
    eventually("rows are there", async || {
        // Files of the log are made full of zeros.
        let mut bytes = [0; 64];
        let file = File::open(&log).unwrap();
        file.read_exact_at(&mut bytes, 5_000).unwrap();
        (bytes != [0; 64]).then_some(())
    })
    .await;
    // They are in no sorted file yet.
    trial.flip(&trial.to, "log-", 5_000);
    let ended = trial.over(&id).await;
    assert_eq!(ended["status"], "rolledBack", "{ended}");
    Trial::assert_finding(&ended, &trial.to, "rolled back");
    trial.assert_complete(&trial.from, VOTES).await;
}

/// A sorted file of the owner is damaged in the window. The scrub at its end notices,
/// or whoever reads the poll before that; the slice goes back with every vote.
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

/// One of the copy that was left is: it is made anew, and then the move completes, or
/// the slice goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_source_is_rebuilt() {
    for (verb, status, then) in [
        ("complete", "completed", "copied anew"),
        ("reverse", "reversed", "before the slice returns"),
    ] {
        let mut trial = Trial::with("").await;
        // What has come by a move has been read back, and so is in a sorted file.
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
