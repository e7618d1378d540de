//! Deploys definitions and starts executions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use super::claimer::register_held;
use super::driver::ExecutionDriver;
use super::error::{DeployError, InvalidName, MissingHandlers, StartError};
use super::held_execution::HeldExecution;
use super::journal::{EventBatch, Journal};
use super::nested::next_parent_check_ms;
use super::shared::Shared;
use super::{Engine, HandlerRegistry};
use crate::core::{Effect, ExecutionStart, ParentTask};
use crate::data::pipeline;
use crate::language::{self, Definition, DefinitionProblem, ProblemCode};
use crate::store::{
    self, CreateError, CreateOutcome, ExecutionCreation, ExecutionRow, ExecutionStoreError,
    InitialLease, InvalidRecord,
};

const NAME_CHARS_MAX: usize = 80;

/// A definition that can be deployed.
#[derive(Debug, Clone)]
pub struct DeployableDefinition {
    /// The parsed definition.
    pub definition: Definition,
    /// The hash of its text.
    pub hash: String,
    /// Warnings.
    pub problems: Vec<DefinitionProblem>,
}

impl Engine {
    /// Checks a definition, and refuses what [`deploy`](Self::deploy) would refuse.
    pub fn check_definition(
        &self,
        name: &str,
        text: &str,
    ) -> Result<DeployableDefinition, DeployError> {
        check_name(name)?;
        let checked = language::check(text);
        let Some(definition) = checked.definition else {
            return Err(to_deploy_error(checked.problems));
        };
        if !definition.unfilled().is_empty() {
            return Err(to_deploy_error(definition.unfilled().to_vec()));
        }
        check_handlers(&self.shared.registry, &definition)?;
        Ok(DeployableDefinition {
            definition,
            hash: hash_definition(text),
            problems: checked.problems,
        })
    }

    /// Deploys a definition under a workflow name; later executions of the workflow
    /// use it. Running executions keep their definition. Returns the hash and
    /// warnings.
    pub async fn deploy(
        &self,
        name: &str,
        text: &str,
    ) -> Result<(String, Vec<DefinitionProblem>), DeployError> {
        let DeployableDefinition { hash, problems, .. } = self.check_definition(name, text)?;
        let definition = store::StoredDefinition {
            name: name.to_owned(),
            hash: hash.clone(),
            text: text.to_owned(),
            at_ms: self.shared.clock.now_ms(),
        };
        self.shared.store.save_definition(&definition).await?;
        Ok((hash, problems))
    }

    /// Checks whether an execution of a workflow could be started with this name
    /// and input.
    pub async fn check_start(
        &self,
        workflow: &str,
        name: &str,
        input: &Value,
    ) -> Result<(), StartError> {
        if self.shared.is_stopping() {
            return Err(StartError::Stopping);
        }
        check_input(input)?;
        load_startable(&self.shared, workflow, name)
            .await
            .map(|_| ())
    }

    /// Starts an execution of a workflow and returns its id. The same workflow,
    /// name and input always mean the same execution, even after it ended or the
    /// workflow was deployed again. The execution is durable when this returns.
    pub async fn start(
        &self,
        workflow: &str,
        name: &str,
        input: Value,
    ) -> Result<String, StartError> {
        // `stop` holds the write lock: it waits for starts in flight and lets no
        // new one begin.
        let Ok(_starting) = self.shared.gate.try_read() else {
            return Err(StartError::Stopping);
        };
        if self.shared.is_stopping() {
            return Err(StartError::Stopping);
        }
        let started = start_execution(&self.shared, workflow, name, input, None).await?;
        Ok(started.id)
    }
}

/// An execution that was started, now or earlier.
pub(super) struct StartedExecution {
    pub(super) id: String,
    pub(super) at_ms: i64,
    pub(super) is_ended: bool,
}

impl StartedExecution {
    /// An execution that existed before.
    fn from_existing(row: ExecutionRow) -> Self {
        Self {
            id: row.id,
            at_ms: row.created_at_ms,
            is_ended: !row.status.is_open(),
        }
    }
}

/// Starts an execution of a workflow.
pub(super) async fn start_execution(
    shared: &Arc<Shared>,
    workflow: &str,
    name: &str,
    input: Value,
    origin: Option<ParentTask>,
) -> Result<StartedExecution, StartError> {
    let (hash, definition) = load_startable(shared, workflow, name).await?;
    check_input(&input)?;
    let begin = ExecutionStart {
        execution_id: format!("{workflow}:{name}"),
        name: name.to_owned(),
        machine: workflow.to_owned(),
        role: String::new(),
        input,
        at_ms: shared.clock.now_ms(),
        seed: (shared.settings.random_seed)(),
        limits: shared.settings.limits,
        origin,
    };
    create_execution(shared, hash, definition, begin).await
}

/// Checks the names and handlers, and loads the workflow's definition.
async fn load_startable(
    shared: &Shared,
    workflow: &str,
    name: &str,
) -> Result<(String, Arc<Definition>), StartError> {
    check_name(workflow)?;
    check_name(name)?;
    let (hash, definition) = load_deployed(shared, workflow).await?;
    check_handlers(&shared.registry, &definition)?;
    Ok((hash, definition))
}

/// Loads the definition that is deployed under a workflow name.
async fn load_deployed(
    shared: &Shared,
    workflow: &str,
) -> Result<(String, Arc<Definition>), StartError> {
    let deployed = shared.store.deployed().await?;
    let not_deployed = || StartError::NoWorkflow {
        name: workflow.to_owned(),
    };
    let deployed = deployed.into_iter().find(|known| known.name == workflow);
    let hash = deployed.ok_or_else(not_deployed)?.hash;
    let definition = shared
        .load_definition(&hash)
        .await?
        .ok_or_else(not_deployed)?;
    let definition = definition.map_err(|cause| StartError::BadDefinition {
        workflow: workflow.to_owned(),
        cause,
    })?;
    Ok((hash, definition))
}

/// Creates an execution. If it has work to do and there is a permit, this worker
/// holds it at once.
async fn create_execution(
    shared: &Arc<Shared>,
    hash: String,
    definition: Arc<Definition>,
    begin: ExecutionStart,
) -> Result<StartedExecution, StartError> {
    let (id, workflow, at_ms) = (
        begin.execution_id.clone(),
        begin.machine.clone(),
        begin.at_ms,
    );
    let input = begin.input.to_string();
    let shared_definition = Arc::clone(&definition);
    let begun = shared.evaluate(&shared_definition, move || {
        Journal::create(definition, begin)
    });
    let (mut journal, batch) = begun
        .await
        .map_err(|cause| ExecutionStoreError::new("begin an execution", cause))?;
    let (start, permit) = choose_initial_lease(shared, &journal, &batch, at_ms);
    let leased_until_ms = match &start {
        InitialLease::Held { until_ms, .. } => Some(*until_ms),
        InitialLease::Parked { .. } => None,
    };
    let posts = shared.posts.load(Ordering::Acquire);
    let created = shared
        .store
        .create(ExecutionCreation {
            id: id.clone(),
            workflow: workflow.clone(),
            definition: hash,
            input,
            at_ms,
            entries: batch.entries,
            state: journal.execution_state(),
            snapshot: journal.first_snapshot(),
            start,
        })
        .await?;
    let lease = match created {
        CreateOutcome::Existing(row) => return Ok(StartedExecution::from_existing(*row)),
        CreateOutcome::Created(lease) => lease,
    };
    let is_ended = journal.execution.status().is_ended();
    if let (Some(lease), Some(until_ms), Some(permit)) = (lease, leased_until_ms, permit) {
        let held = Arc::new(HeldExecution::new(lease, workflow, until_ms));
        let mut effects = batch.effects;
        // Ask again for turns that the first step had no room for.
        let turns = journal.execution.outstanding().into_iter();
        effects.extend(turns.filter(|effect| matches!(effect, Effect::Continue { .. })));
        register_held(shared, &held, posts);
        let driver = ExecutionDriver::new(Arc::clone(shared), held, journal, permit);
        shared.spawn(driver.run(effects, Vec::new()));
    }
    Ok(StartedExecution {
        id,
        at_ms,
        is_ended,
    })
}

/// Decides whether a new execution is held at once or parked until its wake time.
fn choose_initial_lease(
    shared: &Shared,
    journal: &Journal,
    batch: &EventBatch,
    now: i64,
) -> (InitialLease, Option<OwnedSemaphorePermit>) {
    let outstanding = journal.execution.outstanding();
    let times = outstanding.iter().map(|effect| match effect {
        Effect::SetTimer { at_ms, .. } => Some(*at_ms),
        _ => None,
    });
    let soon = now.saturating_add(shared.settings.park_after_ms);
    let only_waits = times
        .clone()
        .all(|time| time.is_some_and(|time| time > soon));
    let has_ended = batch.effects.contains(&Effect::Ended);
    if only_waits || has_ended {
        let look = next_parent_check_ms(&journal.execution, now);
        let wake_at_ms = times.flatten().chain(look).min();
        return (InitialLease::Parked { wake_at_ms }, None);
    }
    match Arc::clone(&shared.execution_permits).try_acquire_owned() {
        Ok(permit) => {
            let worker = shared.settings.worker.clone();
            let until_ms = shared.lease_until_ms();
            (InitialLease::Held { worker, until_ms }, Some(permit))
        }
        Err(_) => {
            let wake_at_ms = Some(now);
            (InitialLease::Parked { wake_at_ms }, None)
        }
    }
}

/// Refuses an input beyond the payload limit; the execution would fail at once.
fn check_input(input: &Value) -> Result<(), CreateError> {
    pipeline::check_size(input, "the input").map_err(|fault| InvalidRecord(fault.cause).into())
}

fn check_name(name: &str) -> Result<(), InvalidName> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_good) {
        let name = name.chars().take(2 * NAME_CHARS_MAX).collect();
        return Err(InvalidName { name });
    }
    Ok(())
}

/// The error for a definition with problems: its errors, otherwise its open
/// substitutions.
fn to_deploy_error(problems: Vec<DefinitionProblem>) -> DeployError {
    let (errors, others): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(DefinitionProblem::is_error);
    if !errors.is_empty() {
        return DeployError::Invalid { problems: errors };
    }
    let unfilled = others.into_iter();
    let unfilled = unfilled.filter(|problem| problem.code == ProblemCode::Unfilled);
    DeployError::Unfilled {
        unfilled: unfilled.collect(),
    }
}

fn check_handlers(
    registry: &HandlerRegistry,
    definition: &Definition,
) -> Result<(), MissingHandlers> {
    let resources = registry.missing(definition);
    match resources.is_empty() {
        true => Ok(()),
        false => Err(MissingHandlers { resources }),
    }
}

/// The hash that identifies a definition's text.
#[must_use]
pub fn hash_definition(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
