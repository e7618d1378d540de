//! The world of a run: a real process that is started, killed and started
//! again on the same files, at the same address. Nothing here knows what the
//! clients do; another engine's world differs only in its options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::chance::Chance;
use super::tear;
use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{Instance, Options, Process, in_ms, within};

/// Ports that the machine does not hand out to clients: a client that connects
/// to its own port while the process is away would take it.
const PORTS: (usize, usize) = (12_000, 31_000);

/// What a poll of the run allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
    /// One of each.
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

    /// The fields of its creation.
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
pub struct World {
    instance: Option<Instance>,
    home: Arc<TempDir>,
    options: Options,
    listen: String,
}

impl World {
    /// Starts it for the first time.
    pub async fn start(options: Options, chance: &mut Chance) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(home, options, chance).await
    }

    /// Starts it for the first time, or on files that are there.
    pub async fn start_in(home: Arc<TempDir>, options: Options, chance: &mut Chance) -> Self {
        loop {
            let port = chance.between(PORTS.0, PORTS.1);
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
                Err(ended) => panic!("it did not start: {ended:?}"),
            }
        }
    }

    /// The process, while there is one.
    pub fn instance(&self) -> &Instance {
        self.instance.as_ref().expect("it runs")
    }

    /// A tenant with an application.
    pub async fn application(&self, tenant: &str) -> Application {
        Application::of(self.instance(), tenant).await
    }

    /// Kills it as the kernel would.
    pub fn kill(&mut self) {
        if let Some(mut instance) = self.instance.take() {
            instance.kill9();
        }
    }

    /// Starts it so that it dies at a place in its code; whether it did. That
    /// may be before it is ready.
    pub async fn die_at(&mut self, place: &str, patience: Duration) -> bool {
        let mut options = self.options.clone();
        let place = ("BALLAST_DIE_AT".to_owned(), place.to_owned());
        options.env.push(place);
        let mut process = Process::up(self.home.path(), &options, &self.listen);
        let dying = tokio::time::timeout(patience, process.died());
        dying.await.is_ok()
    }

    /// Leaves the logs as a power cut in the middle of a write could.
    pub fn tear(&self, chance: &mut Chance) -> usize {
        let torn = self.shards();
        torn.iter()
            .filter(|shard| tear::tail(shard, chance))
            .count()
    }

    /// Starts it and kills it again while it recovers.
    pub async fn start_in_vain(&self, chance: &mut Chance) {
        let mut process = Process::up(self.home.path(), &self.options, &self.listen);
        let ms = chance.below(400) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        process.kill9();
    }

    /// Starts it again and waits until it is ready, all shards included.
    pub async fn restart(&mut self, patience: Duration) -> Result<(), String> {
        let launched = Instance::launch(self.home.clone(), self.options.clone(), &self.listen);
        let instance = launched.await.map_err(|ended| format!("{ended:?}"))?;
        let mut last = String::new();
        let looking = async {
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
        let ready = tokio::time::timeout(patience, looking).await;
        self.instance = Some(instance);
        ready.map_err(|_| format!("not ready {patience:?} after a restart: {last}"))
    }

    /// Stops it as an operator would.
    pub async fn stop(&mut self) -> Result<(), String> {
        let mut instance = self.instance.take().expect("it runs");
        instance.process().signal("TERM");
        let ended = instance.process().ended().await;
        match ended.code {
            Some(0) => Ok(()),
            _ => Err(format!("it did not stop in order: {ended:?}")),
        }
    }

    /// Where its data is.
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

    /// What `ballast shard verify` says of a stopped instance's shards; nothing
    /// when all is well.
    pub fn verified(&self) -> Vec<String> {
        let verify = |shard: PathBuf| {
            let output = ballast().args(["shard", "verify"]).arg(&shard).output();
            let output = output.unwrap();
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            (!output.status.success()).then(|| format!("{}: {told}", shard.display()))
        };
        self.shards().into_iter().filter_map(verify).collect()
    }
}

/// Waits for a condition of the run itself.
pub async fn until(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    within(patience, what, async || holds().then_some(())).await;
}
