//! Definitions deployed, and executions started.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use super::claimer::hold;
use super::error::{BadName, DeployError, NoHandler, StartError};
use super::held::Held;
use super::journal::{Batch, Journal};
use super::{Engine, Registry};
use crate::core::{Begin, Effect};
use crate::language::{self, Code, Definition, Problem};
use crate::store::{self, Created, New, Start};

const NAME_CHARS_MAX: usize = 80;

impl Engine {
    /// Deploys a definition under a name: what is started under it from now on
    /// runs this. Executions that are on their way keep the one they began
    /// with. Its hash, and what is worth a warning.
    pub async fn deploy(
        &self,
        name: &str,
        text: &str,
    ) -> Result<(String, Vec<Problem>), DeployError> {
        check_name(name)?;
        let checked = language::check(text);
        let Some(definition) = checked.definition else {
            return Err(refusal(checked.problems));
        };
        if !definition.unfilled().is_empty() {
            return Err(refusal(definition.unfilled().to_vec()));
        }
        check_handlers(&self.shared.registry, &definition)?;
        let hash = hash(text);
        let definition = store::Definition {
            name: name.to_owned(),
            hash: hash.clone(),
            text: text.to_owned(),
            at_ms: self.shared.clock.now_ms(),
        };
        self.shared.store.keep_definition(&definition).await?;
        Ok((hash, checked.problems))
    }

    /// Starts an execution of a workflow; its id. The same workflow, name and
    /// input are the same execution, whether it runs or has ended. It is
    /// durable when this returns.
    pub async fn start(
        &self,
        workflow: &str,
        name: &str,
        input: Value,
    ) -> Result<String, StartError> {
        check_name(workflow)?;
        check_name(name)?;
        if self.shared.is_stopping() {
            return Err(StartError::Stopping);
        }
        let (hash, definition) = self.deployed(workflow).await?;
        check_handlers(&self.shared.registry, &definition)?;
        let id = format!("{workflow}:{name}");
        let begin = Begin {
            execution_id: id.clone(),
            name: name.to_owned(),
            machine: workflow.to_owned(),
            role: String::new(),
            input,
            at_ms: self.shared.clock.now_ms(),
            seed: (self.shared.settings.chance)(),
            limits: self.shared.settings.limits,
        };
        self.begin(hash, definition, begin).await?;
        Ok(id)
    }

    /// What a workflow's name stands for.
    async fn deployed(&self, workflow: &str) -> Result<(String, Arc<Definition>), StartError> {
        let deployed = self.shared.store.deployed().await?;
        let none = || StartError::NoWorkflow {
            name: workflow.to_owned(),
        };
        let deployed = deployed.into_iter().find(|known| known.name == workflow);
        let hash = deployed.ok_or_else(none)?.hash;
        let definition = self.shared.definition(&hash).await?.ok_or_else(none)?;
        let definition = definition.map_err(|cause| StartError::BadDefinition {
            workflow: workflow.to_owned(),
            cause,
        })?;
        Ok((hash, definition))
    }

    /// Creates an execution. If it has something to do and there is room, it
    /// is held at once.
    async fn begin(
        &self,
        hash: String,
        definition: Arc<Definition>,
        begin: Begin,
    ) -> Result<(), StartError> {
        let shared = &self.shared;
        let (id, workflow, at_ms) = (
            begin.execution_id.clone(),
            begin.machine.clone(),
            begin.at_ms,
        );
        let input = begin.input.to_string();
        let (journal, batch) = Journal::begin(definition, begin);
        let (start, slot) = self.first_place(&journal, &batch, at_ms);
        let posts = shared.posts.load(Ordering::Acquire);
        let created = shared
            .store
            .create(New {
                id,
                workflow: workflow.clone(),
                definition: hash,
                input,
                at_ms,
                entries: batch.entries,
                standing: journal.standing(),
                snapshot: None,
                start,
            })
            .await?;
        if let (Created::New(Some(lease)), Some(slot)) = (created, slot) {
            let held = Arc::new(Held::new(lease, workflow));
            let mut effects = batch.effects;
            // What the first step did not get to is asked for again.
            let turns = journal.execution.outstanding().into_iter();
            effects.extend(turns.filter(|effect| matches!(effect, Effect::Continue { .. })));
            hold(shared, held, journal, slot, posts, |holder| {
                holder.run(effects, Vec::new())
            });
        }
        Ok(())
    }

    /// Where a new execution is put: in memory, or away until its time comes.
    fn first_place(
        &self,
        journal: &Journal,
        batch: &Batch,
        now: i64,
    ) -> (Start, Option<OwnedSemaphorePermit>) {
        let shared = &self.shared;
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
            let wake_at_ms = times.flatten().min();
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
fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
