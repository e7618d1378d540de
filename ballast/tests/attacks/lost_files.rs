//! Somebody removes or moves a shard's files under the running process.

use std::path::PathBuf;

use crate::support::polls::{Application, TestPoll};
use crate::support::{Instance, eventually, text};
use serde_json::json;

/// A tenant with a poll, and the directory of its shard.
struct Target {
    it: Instance,
    acme: Application,
    poll: TestPoll,
    shard: String,
}

impl Target {
    async fn start() -> Self {
        let it = Instance::start().await;
        let acme = Application::create(&it, "acme").await;
        let poll = acme.poll(json!({})).await;
        let tenant = it.get("/tenants/acme").await;
        let shard = text(&tenant["slices"][0]["shardID"]);
        Self {
            it,
            acme,
            poll,
            shard,
        }
    }

    fn directory(&self) -> PathBuf {
        self.it.home().join("data/shards").join(&self.shard)
    }

    /// The names of the log's segments, oldest first.
    fn segments(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(".seg")).collect();
        names.sort_unstable();
        names
    }

    /// Removes the log; returns its last segment.
    fn remove_log(&self) -> String {
        let segments = self.segments();
        for name in &segments {
            std::fs::remove_file(self.directory().join(name)).unwrap();
        }
        segments.last().cloned().expect("the log")
    }

    /// Votes until each of these voters is acknowledged.
    async fn vote(&self, voters: std::ops::Range<u32>) {
        for voter in voters {
            let name = format!("voter-{voter}");
            eventually("an acknowledged vote", async || {
                let answer = self.acme.vote(&self.poll, 0, &name).await;
                match answer.status {
                    503 => None,
                    _ => Some(answer.expect(200)),
                }
            })
            .await;
        }
    }

    async fn readiness(&self) -> (u16, String) {
        eventually("an answer of /readyz", async || {
            let answer = self.it.route("GET", "/readyz").try_send().await?;
            Some((answer.status, answer.text))
        })
        .await
    }

    async fn assert_total_after_kill(mut self, total: u32) {
        self.it.kill9();
        self.it = self.it.restart().await;
        self.acme.router.clone_from(&self.it.router);
        let newest = self.acme.newest(&self.poll).await;
        assert_eq!(newest["total"], total, "{newest}");
    }
}

#[tokio::test]
async fn votes_after_the_log_was_removed_survive_a_kill() {
    let target = Target::start().await;
    target.vote(0..30).await;
    target.remove_log();
    target.vote(30..60).await;
    let removed = target.remove_log();
    // Also when nothing is voted: the shard checks its files. It begins a new segment when the
    // others are there again.
    eventually("the log is back", async || {
        (target.segments().last()? > &removed).then_some(())
    })
    .await;
    target.assert_total_after_kill(60).await;
}

#[tokio::test]
async fn a_directory_that_is_moved_away_stops_its_shard_until_it_is_back() {
    let target = Target::start().await;
    target.vote(0..10).await;
    let (directory, away) = (target.directory(), target.it.home().join("away"));
    std::fs::rename(&directory, &away).unwrap();
    let said = eventually("the shard is not ready", async || {
        let (status, said) = target.readiness().await;
        (status == 503).then_some(said)
    })
    .await;
    assert!(said.contains(&target.shard), "{said}");
    assert!(said.contains("removed"), "{said}");
    assert!(!directory.exists(), "no empty directory in its place");
    std::fs::rename(&away, &directory).unwrap();
    target.vote(10..20).await;
    target.assert_total_after_kill(20).await;
}
