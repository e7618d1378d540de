//! Commands to executions. A command is durable when its call returns, and takes
//! effect soon after.

use super::callbacks::StoredPosition;
use super::error::CommandError;
use super::journal::to_json_text;
use super::message::{InboxMessage, Signal};
use super::{Engine, ProgressReport};
use crate::core::parse_token;
use crate::store::{NewMessage, PostError};

impl Engine {
    /// Pauses an execution: it starts no new work. Results of running tasks are
    /// still recorded.
    pub async fn pause(&self, id: &str) -> Result<(), CommandError> {
        self.post_command(id, &InboxMessage::Pause).await
    }

    /// Resumes a paused execution.
    pub async fn resume(&self, id: &str) -> Result<(), CommandError> {
        self.post_command(id, &InboxMessage::Resume).await
    }

    /// Cancels an execution and stops its tasks.
    pub async fn cancel(
        &self,
        id: &str,
        error: Option<String>,
        cause: Option<String>,
    ) -> Result<(), CommandError> {
        self.post_command(id, &InboxMessage::Cancel { error, cause })
            .await
    }

    /// Completes the task that has this token. Sending the same signal again is
    /// allowed. A different signal for the same token is refused, and so is a token
    /// that the execution does not wait for. A signal that arrives after the task
    /// timed out has no effect.
    pub async fn signal(&self, token: &str, signal: Signal) -> Result<(), CommandError> {
        let (id, _) = parse_token(token).ok_or(CommandError::BadToken)?;
        let key = format!("answer {token}");
        let is_known = async || {
            let known = self.shared.store.find_message(id, &key).await;
            known.map(|known| known.is_some()).map_err(PostError::from)
        };
        // An answered token is no longer awaited either. The store compares the new
        // signal with the one it recorded.
        if !self.may_await_token(id, token).await? && !is_known().await? {
            return Err(CommandError::NotWaiting { id: id.to_owned() });
        }
        let token = token.to_owned();
        let message = InboxMessage::Answer { token, signal };
        self.post_message(id, key, &message).await
    }

    /// Reports that the task with this token is alive, and its progress. For
    /// callback tasks with `HeartbeatSeconds`.
    pub async fn heartbeat(
        &self,
        token: &str,
        progress: ProgressReport,
    ) -> Result<(), CommandError> {
        let (id, _) = parse_token(token).ok_or(CommandError::BadToken)?;
        if !self.may_await_token(id, token).await? {
            return Err(CommandError::NotWaiting { id: id.to_owned() });
        }
        let token = token.to_owned();
        self.post_command(id, &InboxMessage::Alive { token, progress })
            .await
    }

    /// Whether an execution may wait for a token. Also true if the execution has
    /// ended or does not exist: then the post reports that error.
    async fn may_await_token(&self, id: &str, token: &str) -> Result<bool, CommandError> {
        let found = self.shared.store.get(id).await.map_err(PostError::from)?;
        Ok(found.is_none_or(|found| {
            !found.row.status.is_open()
                || StoredPosition::parse(&found.row.position).may_await_token(token)
        }))
    }

    async fn post_command(&self, id: &str, message: &InboxMessage) -> Result<(), CommandError> {
        // A random key: each call is a new command, even with the same contents.
        let key = format!("ask {:016x}", (self.shared.settings.random_seed)());
        self.post_message(id, key, message).await
    }

    async fn post_message(
        &self,
        id: &str,
        key: String,
        message: &InboxMessage,
    ) -> Result<(), CommandError> {
        let post = NewMessage {
            key,
            body: to_json_text(message),
            at_ms: self.shared.clock.now_ms(),
        };
        self.shared.store.post(id, post).await?;
        self.shared.notify_posted(id);
        Ok(())
    }
}
