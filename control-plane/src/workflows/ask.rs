//! What is asked of an execution while it runs.

use std::time::Duration;

use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::core::{HistoryType, Position, token_names};
use ballast_state_machines::engine::{AskError, Description, Engine, Progress, Signal};
use ballast_state_machines::store::limits::HISTORY_MAX;
use ballast_state_machines::store::{HistoryQuery, PostError};
use serde::Deserialize;
use serde_json::Value;

use super::body::ExecutionBody;
use super::executions::{asked, not_found};
use super::{away, engine};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::validate;

/// How long it is waited for a wish to take effect before it is answered how
/// the execution stands. The wish is durable by then and will be met.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why an execution is ended.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancellation {
    /// The name of the error that it ends with.
    #[schema(max_length = 256)]
    pub error: Option<String>,
    /// Why.
    #[schema(max_length = 4096)]
    pub cause: Option<String>,
}

/// An answer for a task that was handed over.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answer {
    /// The state whose task is answered for; not needed when only one waits.
    pub state: Option<String>,
    /// The task's token, instead of the state.
    pub token: Option<String>,
    /// What came of the task.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
    /// The name of the error, if the task was not done.
    #[schema(min_length = 1, max_length = 256)]
    pub error: Option<String>,
    /// What happened then.
    #[schema(max_length = 4096)]
    pub cause: Option<String>,
}

/// `null` is an output too.
fn said<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Answer {
    fn signal(&self) -> Result<Signal> {
        said_briefly(self.error.as_deref(), self.cause.as_deref())?;
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
                let error = Error::invalid_field("", "it says neither output nor error");
                Err(error.next("Send output if the task was done, error and cause if it was not."))
            }
            _ => Err(Error::invalid_field(
                "/output",
                "it goes without error and cause",
            )),
        }
    }
}

/// AWS keeps as much of an error's name; causes are for people.
const ERROR_CHARS_MAX: usize = 256;
const CAUSE_CHARS_MAX: usize = 4_096;
const UNIT_CHARS_MAX: usize = 64;

fn said_briefly(error: Option<&str>, cause: Option<&str>) -> Result<()> {
    validate::length("/error", error.unwrap_or_default(), ERROR_CHARS_MAX)?;
    validate::length("/cause", cause.unwrap_or_default(), CAUSE_CHARS_MAX)
}

/// Has an execution begin nothing new.
pub async fn pause(plane: &ControlPlane, intent: &Intent, id: &str) -> Result<ExecutionBody> {
    let (engine, found) = open(plane, id).await?;
    if !found.summary.paused {
        asked(plane, intent, "execution.pause", id, None).await?;
        engine.pause(id).await.map_err(refused)?;
    }
    settled(engine, id, |now| now.summary.paused).await
}

/// Has a paused execution go on.
pub async fn resume(plane: &ControlPlane, intent: &Intent, id: &str) -> Result<ExecutionBody> {
    let (engine, found) = open(plane, id).await?;
    if found.summary.paused {
        asked(plane, intent, "execution.resume", id, None).await?;
        engine.resume(id).await.map_err(refused)?;
    }
    settled(engine, id, |now| !now.summary.paused).await
}

/// Ends an execution.
pub async fn cancel(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    why: Cancellation,
) -> Result<ExecutionBody> {
    said_briefly(why.error.as_deref(), why.cause.as_deref())?;
    let (engine, _) = open(plane, id).await?;
    asked(plane, intent, "execution.cancel", id, None).await?;
    let cause = why.cause.or_else(|| intent.reason.clone());
    engine.cancel(id, why.error, cause).await.map_err(refused)?;
    let ended = settled(engine, id, Description::is_ended).await?;
    match ended.summary.status {
        // It was faster than the wish.
        "SUCCEEDED" | "FAILED" | "TIMED_OUT" => Err(has_ended(id, ended.summary.status)),
        _ => Ok(ended),
    }
}

/// Answers for a task that was handed over.
pub async fn signal(
    plane: &ControlPlane,
    intent: &Intent,
    id: &str,
    answer: &Answer,
) -> Result<ExecutionBody> {
    let signal = answer.signal()?;
    let (engine, found) = open(plane, id).await?;
    let (state, token) = named(&found, answer.state.as_deref(), answer.token.as_deref())?;
    asked(plane, intent, "execution.signal", id, state).await?;
    engine.signal(&token, signal).await.map_err(refused)?;
    let now = settled(engine, id, |now| {
        let mut waiting = now.summary.position.iter();
        !waiting.any(|position| position.token.as_ref() == Some(&token))
    })
    .await?;
    // One that was cancelled or ran out of time at the same moment may have
    // ended without the answer.
    let cut_short = matches!(now.summary.status, "ABORTED" | "TIMED_OUT");
    if cut_short && !answered_since(engine, id, found.summary.history_len).await? {
        return Err(has_ended(id, now.summary.status));
    }
    Ok(now)
}

/// Whether a task was answered for since the history had so many events.
async fn answered_since(engine: &Engine, id: &str, length: u64) -> Result<bool> {
    let query = HistoryQuery {
        after: Some(length),
        newest_first: false,
        limit: HISTORY_MAX,
    };
    let page = engine.history(id, &query).await.map_err(away)?;
    let events = page.map(|page| page.events).unwrap_or_default();
    let is_answer = |kind| matches!(kind, HistoryType::TaskSucceeded | HistoryType::TaskFailed);
    Ok(events.iter().any(|event| is_answer(event.kind)))
}

/// A sign of life of a task that was handed over, and how far it is.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignOfLife {
    /// The state whose task it is; not needed when only one waits.
    pub state: Option<String>,
    /// The task's token, instead of the state.
    pub token: Option<String>,
    /// How much is done.
    #[serde(default)]
    pub done: u64,
    /// How much there is, if that is known.
    pub total: Option<u64>,
    /// What is counted.
    #[schema(max_length = 64)]
    pub unit: Option<String>,
    /// What is being done, for people.
    #[schema(max_length = 4096)]
    pub note: Option<String>,
}

/// Tells that a task that was handed over is alive. It changes nothing but how
/// long it is waited for, so it is not in the audit log.
pub async fn heartbeat(plane: &ControlPlane, id: &str, sign: SignOfLife) -> Result<ExecutionBody> {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    validate::length("/unit", &said(&sign.unit), UNIT_CHARS_MAX)?;
    validate::length("/note", &said(&sign.note), CAUSE_CHARS_MAX)?;
    let (engine, found) = open(plane, id).await?;
    let (_, token) = named(&found, sign.state.as_deref(), sign.token.as_deref())?;
    let progress = Progress {
        done: sign.done,
        total: sign.total,
        unit: said(&sign.unit),
        note: sign.note,
    };
    engine.heartbeat(&token, progress).await.map_err(refused)?;
    let found = engine.get(id).await.map_err(away)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

/// The state and the token of the task that is answered for.
fn named(
    found: &Description,
    state: Option<&str>,
    token: Option<&str>,
) -> Result<(Option<String>, String)> {
    let waits = |position: &&Position| position.token.is_some();
    let all: Vec<_> = found.summary.position.iter().filter(waits).collect();
    if let Some(token) = token {
        let named = token_names(token).filter(|(id, _)| *id == found.summary.id);
        if named.is_none() {
            let message = "it is no token of a task of this execution";
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
        ([], _) => Err(nothing_waits(&all, state)),
        (several, Some(state)) => {
            let detail = format!("{} tasks of {state} wait for a signal", several.len());
            let error = Error::new(ErrorCode::NothingWaits, detail);
            Err(error.next("Name the one you mean by its token, which the task was given."))
        }
        (several, None) => {
            let states: Vec<_> = several.iter().map(|at| at.state.as_str()).collect();
            let detail = format!("several tasks wait for a signal: {}", states.join(", "));
            let error = Error::new(ErrorCode::NothingWaits, detail);
            Err(error.next("Name the state of the one you mean."))
        }
    }
}

fn nothing_waits(all: &[&Position], state: Option<&str>) -> Error {
    let states: Vec<_> = all.iter().map(|position| position.state.as_str()).collect();
    let detail = match (state, states.as_slice()) {
        (Some(state), []) => format!("no task of {state:?} waits for a signal, nor does any other"),
        (Some(state), some) => {
            let others = some.join(", ");
            format!("no task of {state:?} waits for a signal; these do: {others}")
        }
        (None, _) => "no task waits for a signal".to_owned(),
    };
    Error::new(ErrorCode::NothingWaits, detail)
}

/// An execution that something can be asked of.
async fn open<'a>(plane: &'a ControlPlane, id: &str) -> Result<(&'a Engine, Description)> {
    let engine = engine(plane)?;
    let found = engine.get(id).await.map_err(away)?;
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

/// How an execution stands once a wish has taken effect.
async fn settled(
    engine: &Engine,
    id: &str,
    is_met: impl Fn(&Description) -> bool,
) -> Result<ExecutionBody> {
    let mut watch = engine.watch(id);
    let met = async {
        while let Some(now) = watch.next().await.map_err(away)? {
            if is_met(&now) || now.is_ended() {
                break;
            }
        }
        Ok::<_, Error>(())
    };
    if let Ok(met) = tokio::time::timeout(PATIENCE, met).await {
        met?;
    }
    let found = engine.get(id).await.map_err(away)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

fn refused(error: AskError) -> Error {
    match error {
        AskError::BadToken => Error::invalid_field("/token", error.to_string()),
        AskError::NotWaiting { .. } => Error::new(ErrorCode::NothingWaits, error.to_string()),
        AskError::Post(PostError::NotFound { id }) => not_found(&id),
        AskError::Post(PostError::Ended { .. }) => {
            Error::new(ErrorCode::ExecutionEnded, error.to_string())
        }
        AskError::Post(PostError::Conflict { .. }) => {
            let detail = "the task was answered for already, and otherwise";
            Error::new(ErrorCode::NothingWaits, detail)
        }
        AskError::Post(PostError::Full { .. }) => {
            Error::new(ErrorCode::Busy, error.to_string()).retry_after(1)
        }
        AskError::Post(PostError::Unfit(unfit)) => Error::invalid_field("", unfit.to_string()),
        AskError::Post(PostError::Store(source)) => away(source),
    }
}
