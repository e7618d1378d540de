//! Definitions deployed, and executions started.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use super::claimer::hold;
use super::error::{BadName, DeployError, NoHandler, StartError};
use super::held::Held;
use super::holder::Holder;
use super::journal::{Batch, Journal};
use super::nested::next_origin_look_ms;
use super::shared::Shared;
use super::{Engine, Registry};
use crate::core::{Begin, Effect, Origin};
use crate::data::pipeline;
use crate::language::{self, Code, Definition, Problem};
use crate::store::{self, CreateError, Created, New, Row, Start, StoreError, Unfit};

const NAME_CHARS_MAX: usize = 80;

/// A definition that can be deployed.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The definition, read.
    pub definition: Definition,
    /// What names its text.
    pub hash: String,
    /// What is worth a warning.
    pub problems: Vec<Problem>,
}

impl Engine {
    /// Looks at what would be deployed, and refuses what [`deploy`](Self::deploy)
    /// would refuse.
    pub fn examine(&self, name: &str, text: &str) -> Result<Examined, DeployError> {
        check_name(name)?;
        let checked = language::check(text);
        let Some(definition) = checked.definition else {
            return Err(refusal(checked.problems));
        };
        if !definition.unfilled().is_empty() {
            return Err(refusal(definition.unfilled().to_vec()));
        }
        check_handlers(&self.shared.registry, &definition)?;
        Ok(Examined {
            definition,
            hash: hash(text),
            problems: checked.problems,
        })
    }

    /// Deploys a definition under a name: what is started under it from now on
    /// runs this. Executions that are on their way keep the one they began
    /// with. Its hash, and what is worth a warning.
    pub async fn deploy(
        &self,
        name: &str,
        text: &str,
    ) -> Result<(String, Vec<Problem>), DeployError> {
        let Examined { hash, problems, .. } = self.examine(name, text)?;
        let definition = store::Definition {
            name: name.to_owned(),
            hash: hash.clone(),
            text: text.to_owned(),
            at_ms: self.shared.clock.now_ms(),
        };
        self.shared.store.keep_definition(&definition).await?;
        Ok((hash, problems))
    }

    /// Whether an execution of a workflow could be started under a name,
    /// with this input.
    pub async fn may_start(
        &self,
        workflow: &str,
        name: &str,
        input: &Value,
    ) -> Result<(), StartError> {
        if self.shared.is_stopping() {
            return Err(StartError::Stopping);
        }
        check_input(input)?;
        startable(&self.shared, workflow, name).await.map(|_| ())
    }

    /// Starts an execution of a workflow; its id. The same workflow, name and
    /// input are the same execution, whether it runs or has ended, and though
    /// the workflow was deployed anew since. It is durable when this returns.
    pub async fn start(
        &self,
        workflow: &str,
        name: &str,
        input: Value,
    ) -> Result<String, StartError> {
        // Who stops waits for those who start, and nobody starts after that.
        let Ok(_starting) = self.shared.gate.try_read() else {
            return Err(StartError::Stopping);
        };
        if self.shared.is_stopping() {
            return Err(StartError::Stopping);
        }
        let started = start(&self.shared, workflow, name, input, None).await?;
        Ok(started.id)
    }
}

/// An execution that was started, now or before.
pub(super) struct Started {
    pub(super) id: String,
    pub(super) at_ms: i64,
    pub(super) is_ended: bool,
}

impl Started {
    /// One that is there already.
    fn before(row: Row) -> Self {
        Self {
            id: row.id,
            at_ms: row.created_at_ms,
            is_ended: !row.status.is_open(),
        }
    }
}

/// Starts an execution of a workflow.
pub(super) async fn start(
    shared: &Arc<Shared>,
    workflow: &str,
    name: &str,
    input: Value,
    origin: Option<Origin>,
) -> Result<Started, StartError> {
    let (hash, definition) = startable(shared, workflow, name).await?;
    check_input(&input)?;
    let begin = Begin {
        execution_id: format!("{workflow}:{name}"),
        name: name.to_owned(),
        machine: workflow.to_owned(),
        role: String::new(),
        input,
        at_ms: shared.clock.now_ms(),
        seed: (shared.settings.chance)(),
        limits: shared.settings.limits,
        origin,
    };
    begin_with(shared, hash, definition, begin).await
}

/// What would be started.
async fn startable(
    shared: &Shared,
    workflow: &str,
    name: &str,
) -> Result<(String, Arc<Definition>), StartError> {
    check_name(workflow)?;
    check_name(name)?;
    let (hash, definition) = deployed(shared, workflow).await?;
    check_handlers(&shared.registry, &definition)?;
    Ok((hash, definition))
}

/// What a workflow's name stands for.
async fn deployed(
    shared: &Shared,
    workflow: &str,
) -> Result<(String, Arc<Definition>), StartError> {
    let deployed = shared.store.deployed().await?;
    let none = || StartError::NoWorkflow {
        name: workflow.to_owned(),
    };
    let deployed = deployed.into_iter().find(|known| known.name == workflow);
    let hash = deployed.ok_or_else(none)?.hash;
    let definition = shared.definition(&hash).await?.ok_or_else(none)?;
    let definition = definition.map_err(|cause| StartError::BadDefinition {
        workflow: workflow.to_owned(),
        cause,
    })?;
    Ok((hash, definition))
}

/// Creates an execution. If it has something to do and there is room, it is
/// held at once.
async fn begin_with(
    shared: &Arc<Shared>,
    hash: String,
    definition: Arc<Definition>,
    begin: Begin,
) -> Result<Started, StartError> {
    let (id, workflow, at_ms) = (
        begin.execution_id.clone(),
        begin.machine.clone(),
        begin.at_ms,
    );
    let input = begin.input.to_string();
    let of = Arc::clone(&definition);
    let begun = shared.evaluate(&of, move || Journal::begin(definition, begin));
    let (mut journal, batch) = begun
        .await
        .map_err(|cause| StoreError::new("begin an execution", cause))?;
    let (start, slot) = first_place(shared, &journal, &batch, at_ms);
    let leased_until_ms = match &start {
        Start::Held { until_ms, .. } => Some(*until_ms),
        Start::Parked { .. } => None,
    };
    let posts = shared.posts.load(Ordering::Acquire);
    let created = shared
        .store
        .create(New {
            id: id.clone(),
            workflow: workflow.clone(),
            definition: hash,
            input,
            at_ms,
            entries: batch.entries,
            standing: journal.standing(),
            snapshot: journal.first_snapshot(),
            start,
        })
        .await?;
    let lease = match created {
        Created::Before(row) => return Ok(Started::before(*row)),
        Created::New(lease) => lease,
    };
    let is_ended = journal.execution.status().is_ended();
    if let (Some(lease), Some(until_ms), Some(slot)) = (lease, leased_until_ms, slot) {
        let held = Arc::new(Held::new(lease, workflow, until_ms));
        let mut effects = batch.effects;
        // What the first step did not get to is asked for again.
        let turns = journal.execution.outstanding().into_iter();
        effects.extend(turns.filter(|effect| matches!(effect, Effect::Continue { .. })));
        hold(shared, &held, posts);
        let holder = Holder::new(Arc::clone(shared), held, journal, slot);
        shared.spawn(holder.run(effects, Vec::new()));
    }
    Ok(Started {
        id,
        at_ms,
        is_ended,
    })
}

/// Where a new execution is put: in memory, or away until its time comes.
fn first_place(
    shared: &Shared,
    journal: &Journal,
    batch: &Batch,
    now: i64,
) -> (Start, Option<OwnedSemaphorePermit>) {
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
        let look = next_origin_look_ms(&journal.execution, now);
        let wake_at_ms = times.flatten().chain(look).min();
        return (Start::Parked { wake_at_ms }, None);
    }
    match Arc::clone(&shared.slots).try_acquire_owned() {
        Ok(slot) => {
            let worker = shared.settings.worker.clone();
            let until_ms = shared.lease_until_ms();
            (Start::Held { worker, until_ms }, Some(slot))
        }
        Err(_) => {
            let wake_at_ms = Some(now);
            (Start::Parked { wake_at_ms }, None)
        }
    }
}

/// What is larger than a payload may be would fail at once: it is refused.
fn check_input(input: &Value) -> Result<(), CreateError> {
    pipeline::check_size(input, "the input").map_err(|fault| Unfit(fault.cause).into())
}

fn check_name(name: &str) -> Result<(), BadName> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_good) {
        let name = name.chars().take(2 * NAME_CHARS_MAX).collect();
        return Err(BadName { name });
    }
    Ok(())
}

/// Why a definition with these problems is not deployed: its errors, or else
/// what is not filled in.
fn refusal(problems: Vec<Problem>) -> DeployError {
    let (errors, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(Problem::is_error);
    if !errors.is_empty() {
        return DeployError::Invalid { problems: errors };
    }
    let unfilled = others.into_iter();
    let unfilled = unfilled.filter(|problem| problem.code == Code::Unfilled);
    DeployError::Unfilled {
        unfilled: unfilled.collect(),
    }
}

fn check_handlers(registry: &Registry, definition: &Definition) -> Result<(), NoHandler> {
    let resources = registry.missing(definition);
    match resources.is_empty() {
        true => Ok(()),
        false => Err(NoHandler { resources }),
    }
}

/// What names a text.
#[must_use]
pub fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
