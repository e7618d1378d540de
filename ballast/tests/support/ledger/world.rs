//! The process of a run: a real `ballast up` that is started, killed and restarted on the same
//! files at the same address. It knows nothing about the clients; another engine differs only in
//! its options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::random::SeededRandom;
use super::tear;
use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, in_ms, within};

/// Ports outside the machine's ephemeral range: a client whose own port is the process's port
/// would occupy it while the process is down.
const PORTS: (usize, usize) = (12_000, 31_000);

/// The kind of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollKind {
    /// One choice, for good.
    Single,
    /// One choice, changed and withdrawn at will.
    Changeable,
    /// Up to two choices of four, for good.
    Several,
    /// As `Single`; ends at this time, in milliseconds since 1970.
    Expiring(i64),
    /// As `Single`; closed in the middle of the run.
    Closing,
}

impl PollKind {
    /// One poll of each kind.
    pub fn all(expires_in_ms: i64) -> [Self; 5] {
        let expires = in_ms(expires_in_ms).unix_ms();
        [
            Self::Single,
            Self::Changeable,
            Self::Several,
            Self::Expiring(expires),
            Self::Closing,
        ]
    }

    /// The fields to create it with.
    pub fn fields(self) -> Value {
        let items = json!(["a", "b", "c", "d"]);
        match self {
            Self::Single | Self::Closing => json!({ "items": items, "lanes": 3 }),
            Self::Changeable => json!({ "items": items, "voteChangeable": true }),
            Self::Several => json!({ "items": items, "choicesMax": 2 }),
            Self::Expiring(at) => {
                let at = ballast_domain::Timestamp::from_unix_ms(at);
                json!({ "items": items, "expirationTime": at })
            }
        }
    }
}

/// A process and its files.
pub struct LedgerWorld {
    instance: Option<Instance>,
    home: Arc<TempDir>,
    options: InstanceOptions,
    listen: String,
}

impl LedgerWorld {
    /// Starts it for the first time.
    pub async fn start(options: InstanceOptions, random: &mut SeededRandom) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(home, options, random).await
    }

    /// Starts it for the first time, or on existing files.
    pub async fn start_in(
        home: Arc<TempDir>,
        options: InstanceOptions,
        random: &mut SeededRandom,
    ) -> Self {
        loop {
            let port = random.between(PORTS.0, PORTS.1);
            let listen = format!("127.0.0.1:{port}");
            match Instance::launch(home.clone(), options.clone(), &listen).await {
                Ok(instance) => {
                    return Self {
                        instance: Some(instance),
                        home,
                        options,
                        listen,
                    };
                }
                Err(ended) if ended.stderr.contains("in use") => {}
                Err(ended) => panic!("the process did not start: {ended:?}"),
            }
        }
    }

    /// The running process.
    pub fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("it runs")
    }

    /// Creates a tenant with an application.
    pub async fn application(&self, tenant: &str) -> Application {
        Application::create(self.instance(), tenant).await
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut instance) = self.instance.take() {
            instance.kill9();
        }
    }

    /// Starts it so that it dies at a place in its code, maybe before it is ready. Returns
    /// whether it died.
    pub async fn die_at(&mut self, place: &str, patience: Duration) -> bool {
        let mut options = self.options.clone();
        let place = ("BALLAST_DIE_AT".to_owned(), place.to_owned());
        options.env.push(place);
        let mut process = Process::up(self.home.path(), &options, &self.listen);
        let dying = tokio::time::timeout(patience, process.died());
        dying.await.is_ok()
    }

    /// Tears the logs as a power cut in the middle of a write could. Returns how many.
    pub fn tear(&self, random: &mut SeededRandom) -> usize {
        let torn = self.shards();
        torn.iter()
            .filter(|shard| tear::tail(shard, random))
            .count()
    }

    /// Starts it and kills it during recovery.
    pub async fn kill_during_recovery(&self, random: &mut SeededRandom) {
        let mut process = Process::up(self.home.path(), &self.options, &self.listen);
        let ms = random.below(400) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        process.kill9();
    }

    /// Restarts it and waits until it is ready with all shards.
    pub async fn restart(&mut self, patience: Duration) -> Result<(), String> {
        let launched = Instance::launch(self.home.clone(), self.options.clone(), &self.listen);
        let instance = launched.await.map_err(|ended| format!("{ended:?}"))?;
        let mut last = String::new();
        let polling = async {
            loop {
                let answer = instance.route("GET", "/readyz").try_send().await;
                match answer {
                    Some(answer) if answer.status == 200 => return,
                    Some(answer) => last = answer.text,
                    None => {}
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ready = tokio::time::timeout(patience, polling).await;
        self.instance = Some(instance);
        ready.map_err(|_| format!("not ready {patience:?} after a restart: {last}"))
    }

    /// Stops it as an operator would.
    pub async fn stop(&mut self) -> Result<(), String> {
        let mut instance = self.instance.take().expect("it runs");
        instance.process().signal("TERM");
        let ended = instance.process().wait_for_end().await;
        match ended.code {
            Some(0) => Ok(()),
            _ => Err(format!("the process did not stop cleanly: {ended:?}")),
        }
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The directories of its shards.
    pub fn shards(&self) -> Vec<PathBuf> {
        let directory = self.data_dir().join("shards");
        let entries = std::fs::read_dir(directory).unwrap();
        let mut shards: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        shards.sort();
        shards
    }

    /// The failures that `ballast shard verify` reports for the shards of a stopped process.
    pub fn verify_files(&self) -> Vec<String> {
        let verify = |shard: PathBuf| {
            let output = ballast().args(["shard", "verify"]).arg(&shard).output();
            let output = output.unwrap();
            let report = String::from_utf8_lossy(&output.stdout).into_owned();
            (!output.status.success()).then(|| format!("{}: {report}", shard.display()))
        };
        self.shards().into_iter().filter_map(verify).collect()
    }
}

/// Waits for a condition within the run.
pub async fn until(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    within(patience, what, async || holds().then_some(())).await;
}
