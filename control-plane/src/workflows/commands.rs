//! Commands on running executions: pause, resume, cancel, signal, heartbeat.

use std::time::Duration;

use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::core::{HistoryType, Position, parse_token};
use ballast_state_machines::engine::{
    CommandError, Engine, ExecutionDetails, ProgressReport, Signal,
};
use ballast_state_machines::store::limits::HISTORY_MAX;
use ballast_state_machines::store::{HistoryQuery, PostError};
use serde::Deserialize;
use serde_json::Value;

use super::body::ExecutionBody;
use super::executions::{not_found, record_command};
use super::{engine, store_unavailable};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::validate;

/// How long a request waits for its command to take effect before it returns the
/// execution's current state. The command is durable by then.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A request to cancel an execution.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancellation {
    /// The name of the error that it ends with.
    #[schema(max_length = 256)]
    pub error: Option<String>,
    /// The reason.
    #[schema(max_length = 4096)]
    pub cause: Option<String>,
}

/// The result of a task that waits for a signal.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Answer)]
pub struct SignalRequest {
    /// The state whose task this is; optional if only one task waits.
    pub state: Option<String>,
    /// The task's token, instead of the state.
    pub token: Option<String>,
    /// The task's output.
    #[serde(default, deserialize_with = "present_value")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
    /// The name of the error, if the task failed.
    #[schema(min_length = 1, max_length = 256)]
    pub error: Option<String>,
    /// The cause of the error.
    #[schema(max_length = 4096)]
    pub cause: Option<String>,
}

/// Distinguishes an explicit `null` from an absent field.
fn present_value<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl SignalRequest {
    fn to_signal(&self) -> Result<Signal> {
        check_lengths(self.error.as_deref(), self.cause.as_deref())?;
        if self.error.as_deref() == Some("") {
            return Err(Error::invalid_field("/error", "it is empty"));
        }
        match (&self.output, &self.error) {
            (Some(output), None) if self.cause.is_none() => Ok(Signal::Success(output.clone())),
            (None, Some(error)) => Ok(Signal::Failure {
                error: error.clone(),
                cause: self.cause.clone().unwrap_or_default(),
            }),
            (None, None) => {
                let error = Error::invalid_field("", "it has neither output nor error");
                Err(error.with_next_step(
                    "Send output if the task succeeded, error and cause if it failed.",
                ))
            }
            _ => Err(Error::invalid_field(
                "/output",
                "cannot be combined with error and cause",
            )),
        }
    }
}

/// The same limit on error names as AWS; causes are for people.
const ERROR_CHARS_MAX: usize = 256;
const CAUSE_CHARS_MAX: usize = 4_096;
const UNIT_CHARS_MAX: usize = 64;

fn check_lengths(error: Option<&str>, cause: Option<&str>) -> Result<()> {
    validate::length("/error", error.unwrap_or_default(), ERROR_CHARS_MAX)?;
    validate::length("/cause", cause.unwrap_or_default(), CAUSE_CHARS_MAX)
}

/// Pauses an execution: it begins nothing new.
pub async fn pause(plane: &ControlPlane, intent: &Intent, id: &str) -> Result<ExecutionBody> {
    let (engine, found) = find_running(plane, id).await?;
    if !found.summary.paused {
        record_command(plane, intent, "execution.pause", id, None).await?;
        engine.pause(id).await.map_err(to_error)?;
    }
    wait_until(engine, id, |now| now.summary.paused).await
}

/// Resumes a paused execution.
pub async fn resume(plane: &ControlPlane, intent: &Intent, id: &str) -> Result<ExecutionBody> {
    let (engine, found) = find_running(plane, id).await?;
    if found.summary.paused {
        record_command(plane, intent, "execution.resume", id, None).await?;
        engine.resume(id).await.map_err(to_error)?;
    }
    wait_until(engine, id, |now| !now.summary.paused).await
}

/// Cancels an execution.
pub async fn cancel(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    why: Cancellation,
) -> Result<ExecutionBody> {
    check_lengths(why.error.as_deref(), why.cause.as_deref())?;
    let (engine, _) = find_running(plane, id).await?;
    record_command(plane, intent, "execution.cancel", id, None).await?;
    let cause = why.cause.or_else(|| intent.reason.clone());
    engine
        .cancel(id, why.error, cause)
        .await
        .map_err(to_error)?;
    let ended = wait_until(engine, id, ExecutionDetails::is_ended).await?;
    match ended.summary.status {
        // It ended before the cancellation took effect.
        "SUCCEEDED" | "FAILED" | "TIMED_OUT" => Err(has_ended(id, ended.summary.status)),
        _ => Ok(ended),
    }
}

/// Sends the result of a task that waits for a signal.
pub async fn signal(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    answer: &SignalRequest,
) -> Result<ExecutionBody> {
    let signal = answer.to_signal()?;
    let (engine, found) = find_running(plane, id).await?;
    let (state, token) =
        find_waiting_task(&found, answer.state.as_deref(), answer.token.as_deref())?;
    record_command(plane, intent, "execution.signal", id, state).await?;
    engine.signal(&token, signal).await.map_err(to_error)?;
    let now = wait_until(engine, id, |now| {
        let mut waiting = now.summary.position.iter();
        !waiting.any(|position| position.token.as_ref() == Some(&token))
    })
    .await?;
    // An execution that was cancelled or timed out at the same moment may have
    // ended without the result.
    let cut_short = matches!(now.summary.status, "ABORTED" | "TIMED_OUT");
    if cut_short && !answered_since(engine, id, found.summary.history_len).await? {
        return Err(has_ended(id, now.summary.status));
    }
    Ok(now)
}

/// Whether any task has ended since the history had `length` events.
async fn answered_since(engine: &Engine, id: &str, length: u64) -> Result<bool> {
    let query = HistoryQuery {
        after: Some(length),
        newest_first: false,
        limit: HISTORY_MAX,
    };
    let page = engine
        .history(id, &query)
        .await
        .map_err(store_unavailable)?;
    let events = page.map(|page| page.events).unwrap_or_default();
    let is_answer = |kind| matches!(kind, HistoryType::TaskSucceeded | HistoryType::TaskFailed);
    Ok(events.iter().any(|event| is_answer(event.kind)))
}

/// A heartbeat of a task that waits for a signal, with its progress.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = SignOfLife)]
pub struct HeartbeatRequest {
    /// The state whose task this is; optional if only one task waits.
    pub state: Option<String>,
    /// The task's token, instead of the state.
    pub token: Option<String>,
    /// Amount done.
    #[serde(default)]
    pub done: u64,
    /// Total amount, if known.
    pub total: Option<u64>,
    /// The unit of both.
    #[schema(max_length = 64)]
    pub unit: Option<String>,
    /// What is being done, for people.
    #[schema(max_length = 4096)]
    pub note: Option<String>,
}

/// Records a heartbeat. It only extends the task's timeout, so it is not in the audit
/// log.
pub async fn heartbeat(
    plane: &ControlPlane,
    id: &str,
    sign: HeartbeatRequest,
) -> Result<ExecutionBody> {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    validate::length("/unit", &said(&sign.unit), UNIT_CHARS_MAX)?;
    validate::length("/note", &said(&sign.note), CAUSE_CHARS_MAX)?;
    let (engine, found) = find_running(plane, id).await?;
    let (_, token) = find_waiting_task(&found, sign.state.as_deref(), sign.token.as_deref())?;
    let progress = ProgressReport {
        done: sign.done,
        total: sign.total,
        unit: said(&sign.unit),
        note: sign.note,
    };
    engine.heartbeat(&token, progress).await.map_err(to_error)?;
    let found = engine.get(id).await.map_err(store_unavailable)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

/// The state and token of the waiting task that a request refers to.
fn find_waiting_task(
    found: &ExecutionDetails,
    state: Option<&str>,
    token: Option<&str>,
) -> Result<(Option<String>, String)> {
    let waits = |position: &&Position| position.token.is_some();
    let all: Vec<_> = found.summary.position.iter().filter(waits).collect();
    if let Some(token) = token {
        let named = parse_token(token).filter(|(id, _)| *id == found.summary.id);
        if named.is_none() {
            let message = "it is not the token of a task of this execution";
            return Err(Error::invalid_field("/token", message));
        }
        let its = all
            .iter()
            .find(|position| position.token.as_deref() == Some(token));
        return Ok((its.map(|position| position.state.clone()), token.to_owned()));
    }
    let meant = |position: &&&Position| state.is_none_or(|state| *state == position.state);
    let meant: Vec<_> = all.iter().filter(meant).collect();
    match (meant.as_slice(), state) {
        ([one], _) => {
            let token = one.token.clone().unwrap_or_default();
            Ok((Some(one.state.clone()), token))
        }
        ([], _) => Err(no_task_waits(&all, state)),
        (several, Some(state)) => {
            let detail = format!("{} tasks of {state} wait for a signal", several.len());
            let error = Error::new(ErrorCode::NothingWaits, detail);
            Err(error.with_next_step("Specify the task by its token."))
        }
        (several, None) => {
            let states: Vec<_> = several.iter().map(|at| at.state.as_str()).collect();
            let detail = format!("several tasks wait for a signal: {}", states.join(", "));
            let error = Error::new(ErrorCode::NothingWaits, detail);
            Err(error.with_next_step("Specify the state of the task."))
        }
    }
}

fn no_task_waits(all: &[&Position], state: Option<&str>) -> Error {
    let states: Vec<_> = all.iter().map(|position| position.state.as_str()).collect();
    let detail = match (state, states.as_slice()) {
        (Some(state), []) => {
            format!("no task of {state:?} waits for a signal, and no other task does")
        }
        (Some(state), some) => {
            let others = some.join(", ");
            format!("no task of {state:?} waits for a signal; these do: {others}")
        }
        (None, _) => "no task waits for a signal".to_owned(),
    };
    Error::new(ErrorCode::NothingWaits, detail)
}

/// An execution that has not ended.
async fn find_running<'a>(
    plane: &'a ControlPlane,
    id: &str,
) -> Result<(&'a Engine, ExecutionDetails)> {
    let engine = engine(plane)?;
    let found = engine.get(id).await.map_err(store_unavailable)?;
    let found = found.ok_or_else(|| not_found(id))?;
    if found.is_ended() {
        return Err(has_ended(id, found.summary.status.as_str()));
    }
    Ok((engine, found))
}

fn has_ended(id: &str, how: &str) -> Error {
    let detail = format!("the execution {id:?} has ended: {how}");
    Error::new(ErrorCode::ExecutionEnded, detail)
}

/// Waits until a command has taken effect, and returns the execution's state.
async fn wait_until(
    engine: &Engine,
    id: &str,
    is_met: impl Fn(&ExecutionDetails) -> bool,
) -> Result<ExecutionBody> {
    let mut watch = engine.watch(id);
    let met = async {
        while let Some(now) = watch.next().await.map_err(store_unavailable)? {
            if is_met(&now) || now.is_ended() {
                break;
            }
        }
        Ok::<_, Error>(())
    };
    if let Ok(met) = tokio::time::timeout(EFFECT_TIMEOUT, met).await {
        met?;
    }
    let found = engine.get(id).await.map_err(store_unavailable)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

fn to_error(error: CommandError) -> Error {
    match error {
        CommandError::BadToken => Error::invalid_field("/token", error.to_string()),
        CommandError::NotWaiting { .. } => Error::new(ErrorCode::NothingWaits, error.to_string()),
        CommandError::Post(PostError::NotFound { id }) => not_found(&id),
        CommandError::Post(PostError::Ended { .. }) => {
            Error::new(ErrorCode::ExecutionEnded, error.to_string())
        }
        CommandError::Post(PostError::Conflict { .. }) => {
            let detail = "the task already has a different result";
            Error::new(ErrorCode::NothingWaits, detail)
        }
        CommandError::Post(PostError::Full { .. }) => {
            Error::new(ErrorCode::Busy, error.to_string()).retry_after(1)
        }
        CommandError::Post(PostError::InvalidRecord(invalid)) => {
            Error::invalid_field("", invalid.to_string())
        }
        CommandError::Post(PostError::Store(source)) => store_unavailable(source),
    }
}
