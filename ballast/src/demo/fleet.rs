//! The demo fleet: a `ballast up` process in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::size::{COPY_BYTES, SHARD_VOTES};

/// Timeout of a start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a clean stop.
const GRACE: Duration = Duration::from_secs(15);

/// The configuration: copying is throttled, so that a person can watch it, and the hotspot loop
/// acts by itself within seconds instead of minutes.
fn config_text(mode: &str) -> String {
    format!(
        "[fleet]\nregion = \"demo\"\nshards = 6\n\n\
         [moves]\nwindow = \"6s\"\nbytes_per_second = {COPY_BYTES}\n\n\
         [load]\nvotes_per_second = {SHARD_VOTES}\n\n\
         [hotspots]\nmode = \"{mode}\"\nrules = \"rules.toml\"\n\
         limit = 0.75\ngoal = 0.70\nlevel = 0.75\nsure = 0.75\n\
         settle = \"0s\"\njudge = \"5s\"\n\n\
         [log]\nfilter = \"error\"\n"
    )
}

/// The hotspot rules, with short windows to keep the demo short.
fn rules_text() -> String {
    let (hot, calm) = (SHARD_VOTES * 75 / 100, SHARD_VOTES * 72 / 100);
    format!(
        "[windows]\nstep = \"1s\"\nshort = \"4s\"\nlong = \"8s\"\n\n\
         [[rule]]\nname = \"flash-crowd\"\n\
         summary = \"The shard is close to its capacity for votes.\"\n\
         when = \"shard.votes > {hot}.0\"\nfor = \"3s\"\n\
         clear = \"shard.votes < {calm}.0\"\nclear_for = \"3s\"\n\
         cooldown = \"10s\"\nseverity = \"critical\"\n"
    )
}

/// A running fleet.
pub(super) struct DemoFleet {
    home: tempfile::TempDir,
    child: Option<Child>,
    listen: String,
    /// Its base URL.
    pub(super) url: String,
    /// Its admin token.
    pub(super) token: String,
    /// Number of kills.
    pub(super) kills: u32,
}

impl DemoFleet {
    /// Starts an empty fleet.
    pub(super) async fn start_new(listen: &str) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("ballast-demo-")
            .tempdir()
            .context("make a temporary directory")?;
        tokio::fs::write(home.path().join("ballast.toml"), config_text("auto")).await?;
        tokio::fs::write(home.path().join("rules.toml"), rules_text()).await?;
        let mut fleet = Self {
            home,
            child: None,
            listen: listen.to_owned(),
            url: String::new(),
            token: String::new(),
            kills: 0,
        };
        fleet.start().await?;
        let token = tokio::fs::read_to_string(fleet.home.path().join("token")).await?;
        token.trim().clone_into(&mut fleet.token);
        Ok(fleet)
    }

    /// The file with the story.
    pub(super) fn story_file(&self) -> PathBuf {
        self.home.path().join("story.json")
    }

    /// Its data directory.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts it, on its previous port.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let binary = std::env::current_exe().context("find this program")?;
        let mut child = Command::new(binary)
            .args([
                "up",
                "--json",
                "--listen",
                &self.listen,
                "--config",
                "ballast.toml",
            ])
            .args(["--data-dir", "data", "--admin-token-file", "token"])
            .args(["--story-file", "story.json", "--stop-with-stdin"])
            .current_dir(self.home())
            // It stops when this process ends for any reason, because its stdin closes. The Ctrl-C
            // that a terminal sends to the whole process group must not stop it: votes are counted
            // first.
            .stdin(Stdio::piped())
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the fleet")?;
        let stdout = child.stdout.take().context("hear the fleet")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let Ok(Ok(Some(line))) = first else {
            let text = child.wait_with_output().await?;
            bail!("the fleet did not start: {}", failure_detail(&text.stderr));
        };
        let ready: Value = serde_json::from_str(&line).context("read where the fleet is")?;
        ready["router"]
            .as_str()
            .context("where the fleet is")?
            .clone_into(&mut self.url);
        // Reuse the port: the clients keep their URL.
        if let Some((_, address)) = self.url.split_once("://") {
            address.clone_into(&mut self.listen);
        }
        // Drain stderr: a full pipe would block the process.
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(drain_stderr(stderr));
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.child = Some(child);
        Ok(())
    }

    /// Starts it unless it runs.
    pub(super) async fn ensure_running(&mut self) -> anyhow::Result<()> {
        match self.child {
            Some(_) => Ok(()),
            None => self.start().await,
        }
    }

    /// Stops the hotspot loop from acting; it only reports from now on.
    pub(super) async fn stop_hotspot_actions(&self) -> anyhow::Result<()> {
        tokio::fs::write(self.home().join("ballast.toml"), config_text("observe")).await?;
        let pid = self.child.as_ref().and_then(Child::id);
        if let Some(pid) = pid {
            let mut tell = Command::new("kill");
            tell.args(["-HUP", &pid.to_string()]);
            tell.status().await.context("have the fleet reload")?;
        }
        Ok(())
    }

    /// Kills it with SIGKILL.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await.context("kill the fleet")?;
            self.kills += 1;
        }
        Ok(())
    }

    /// Stops it cleanly.
    pub(super) async fn tear_down(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Some(pid) = child.id() {
            let asked = Command::new("kill").arg(pid.to_string()).status().await;
            if asked.is_ok() && tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
                return;
            }
        }
        let _ = child.kill().await;
    }
}

/// Why a process ended, from the last line of its stderr.
fn failure_detail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let last = text.trim().lines().last().unwrap_or("no output");
    let problem: Option<Value> = serde_json::from_str(last).ok();
    let detail = problem.as_ref().and_then(|it| it["detail"].as_str());
    detail.unwrap_or(last).to_owned()
}

async fn drain_stderr(stderr: tokio::process::ChildStderr) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::debug!(line, "the fleet says");
    }
}
