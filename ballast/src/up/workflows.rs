//! The workflow engine of this process: its file, its tasks, what it forgets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ballast_control_plane::drains::tasks::register_drain_tasks;
use ballast_control_plane::hotspots::tasks::register_plan_tasks;
use ballast_control_plane::migrations::slice_records::SliceRecords;
use ballast_control_plane::migrations::{MigrationBackends, MigrationRecords};
use ballast_control_plane::workflows::{definitions, tasks};
use ballast_control_plane::{ControlPlane, Workflows};
use ballast_domain::Entropy;
use ballast_domain::call_stats::CutoverCallStats;
use ballast_domain::tenant::SliceId;
use ballast_migration_engine::ports::{DualReadStats, ReadCounts};
use ballast_migration_engine::steps::MigrationSteps;
use ballast_router as router;
use ballast_state_machines::engine::{Engine, EngineSettings, HandlerRegistry, SystemClock};
use ballast_state_machines::store::SqliteStore;
use ballast_vote_shard::ShardDirectory;
use ballast_vote_shard::archive::ArchiveDirectory;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::certificate_key;
use crate::config;
use crate::machine::SystemEntropy;

/// The file of executions in a data directory.
pub(crate) const FILE: &str = "executions.db";
/// How often old ended executions are removed.
const SWEEP: Duration = Duration::from_secs(600);

/// The backends of migrations in this process.
#[derive(Clone)]
pub(crate) struct Backends {
    /// The shards.
    pub(crate) shards: Arc<dyn ShardDirectory>,
    /// The files of their closed polls.
    pub(crate) archives: Arc<dyn ArchiveDirectory>,
    /// The router, which reads both shards during a window.
    pub(crate) router: router::RouterState,
}

/// How long to wait before another attempt to start.
const RETRY: Duration = Duration::from_secs(5);

/// What starts the engine.
#[derive(Clone)]
struct WorkflowStarter {
    data_dir: PathBuf,
    plane: ControlPlane,
    backends: Backends,
    config: config::Workflows,
}

/// The workflow engine and its store, once they are started.
#[derive(Clone)]
struct RunningWorkflows {
    store: SqliteStore,
    engine: Engine,
}

/// The workflow engine of this process. Votes do not need it, so a damaged store keeps neither the
/// process nor votes from starting: it is tried again until it works.
pub(crate) struct WorkflowRuntime {
    running: watch::Receiver<Option<RunningWorkflows>>,
    starting: AbortHandle,
}

impl WorkflowRuntime {
    /// Starts the engine, or keeps trying in the background.
    pub(crate) async fn start(
        data_dir: &Path,
        plane: &ControlPlane,
        reach: &Backends,
        config: &config::Workflows,
    ) -> anyhow::Result<Self> {
        plane.set_migration_backends(MigrationBackends {
            shards: Arc::clone(&reach.shards),
            archives: Arc::clone(&reach.archives),
            signer: certificate_key::open_certificate_signer(data_dir, &SystemEntropy)?,
        });
        let starter = WorkflowStarter {
            data_dir: data_dir.to_owned(),
            plane: plane.clone(),
            backends: reach.clone(),
            config: config.clone(),
        };
        let (announce, running) = watch::channel(None);
        let (tried, first) = oneshot::channel();
        let starting = tokio::spawn(starter.run(announce, tried)).abort_handle();
        let _ = first.await;
        Ok(Self { running, starting })
    }

    /// Stops the engine and closes its store.
    pub(crate) async fn stop(&self) {
        self.starting.abort();
        let running = self.running.borrow().clone();
        if let Some(RunningWorkflows { store, engine }) = running {
            engine.stop().await;
            store.close().await;
        }
    }
}

impl WorkflowStarter {
    /// Starts the engine, with retries, and removes old executions from then on.
    async fn run(
        self,
        announce: watch::Sender<Option<RunningWorkflows>>,
        tried: oneshot::Sender<()>,
    ) {
        let (mut tried, mut before) = (Some(tried), None);
        let running = loop {
            let started = self.start().await;
            let why = match started {
                Ok(running) => break running,
                Err(error) => format!("{error:#}"),
            };
            if before.as_ref() != Some(&why) {
                tracing::error!(
                    cause = why,
                    "workflows are unavailable, so migrations and plans wait; retrying"
                );
            }
            self.plane.set_workflow_trouble(Some(why.clone()));
            before = Some(why);
            if let Some(tried) = tried.take() {
                let _ = tried.send(());
            }
            tokio::time::sleep(RETRY).await;
        };
        let engine = running.engine.clone();
        announce.send_replace(Some(running));
        self.plane.set_workflows(Workflows::new(engine.clone()));
        if let Some(tried) = tried {
            let _ = tried.send(());
        }
        forget_ended(engine, self.plane, self.config.keep_ended.0).await;
    }

    /// Opens the store and starts the engine.
    async fn start(&self) -> anyhow::Result<RunningWorkflows> {
        let (plane, reach, config) = (&self.plane, &self.backends, &self.config);
        let store = SqliteStore::open(&self.data_dir.join(FILE)).await?;
        let registry = tasks::register_common_tasks(HandlerRegistry::new());
        let registry = register_drain_tasks(steps(plane, reach).register(registry), plane);
        let registry = register_plan_tasks(registry, plane);
        let settings = EngineSettings {
            worker: "up".to_owned(),
            tasks_max: config.tasks_max,
            // A stopping server must not wait long.
            grace_ms: 2_000,
            random_seed: Arc::new(draw_seed),
            ..EngineSettings::default()
        };
        let engine = Engine::new(
            Arc::new(store.clone()),
            registry,
            Arc::new(SystemClock),
            settings,
        )
        .await?;
        definitions::deploy_built_in(&engine).await?;
        Ok(RunningWorkflows { store, engine })
    }
}

/// Removes old ended executions periodically, until it is dropped.
async fn forget_ended(engine: Engine, plane: ControlPlane, keep: Duration) {
    let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
    loop {
        let before = plane.now().unix_ms().saturating_sub(keep_ms);
        match engine.forget_ended(before).await {
            Ok(0) => {}
            Ok(executions) => {
                tracing::info!(executions, "executions that ended long ago are forgotten");
            }
            Err(error) => tracing::warn!(%error, "old executions cannot be forgotten now"),
        }
        tokio::time::sleep(SWEEP).await;
    }
}

/// What moves do.
fn steps(plane: &ControlPlane, reach: &Backends) -> MigrationSteps {
    MigrationSteps::new(
        Arc::new(SliceRecords::new(plane.clone())),
        Arc::new(MigrationRecords::new(plane.clone())),
        Arc::clone(&reach.shards),
        Arc::clone(&reach.archives),
        Arc::new(RouterStats(reach.router.clone())),
        Arc::new(crate::machine::SystemClock),
    )
}

/// The router of this process, which reads both sides while a window is open.
struct RouterStats(router::RouterState);

impl DualReadStats for RouterStats {
    fn counts(&self, slice: &SliceId) -> ReadCounts {
        let counts = self.0.dual_read_counts(slice);
        ReadCounts {
            compared: counts.compared,
            differences: counts.differences,
            stragglers: counts.stragglers,
        }
    }

    fn around_cutover(&self, slice: &SliceId) -> CutoverCallStats {
        self.0.cutover_call_stats(slice)
    }

    fn forget(&self, slice: &SliceId) {
        self.0.forget_window(slice);
    }
}

fn draw_seed() -> u64 {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
