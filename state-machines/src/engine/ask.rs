//! What is asked of executions. Each is durable when it returns, and happens
//! soon after.

use super::error::AskError;
use super::journal::json_text;
use super::message::{Message, Signal};
use super::waiting::Stands;
use super::{Engine, Progress};
use crate::core::token_names;
use crate::store::{Post, PostError};

impl Engine {
    /// Has an execution begin nothing new. What its tasks answer is kept.
    pub async fn pause(&self, id: &str) -> Result<(), AskError> {
        self.ask(id, &Message::Pause).await
    }

    /// Has a paused execution go on.
    pub async fn resume(&self, id: &str) -> Result<(), AskError> {
        self.ask(id, &Message::Resume).await
    }

    /// Ends an execution. Its tasks are stopped.
    pub async fn cancel(
        &self,
        id: &str,
        error: Option<String>,
        cause: Option<String>,
    ) -> Result<(), AskError> {
        self.ask(id, &Message::Cancel { error, cause }).await
    }

    /// Answers for the task that has this token. The same answer may be given
    /// again; another one is refused, and so is a token that is not waited
    /// for. An answer that loses a race against the task's time has no effect.
    pub async fn signal(&self, token: &str, signal: Signal) -> Result<(), AskError> {
        let (id, _) = token_names(token).ok_or(AskError::BadToken)?;
        let key = format!("answer {token}");
        let is_known = async || {
            let known = self.shared.store.message(id, &key).await;
            known.map(|known| known.is_some()).map_err(PostError::from)
        };
        // What was answered before is not waited for either, and the store
        // knows whether it was the same answer.
        if !self.may_wait_for(id, token).await? && !is_known().await? {
            return Err(AskError::NotWaiting { id: id.to_owned() });
        }
        let token = token.to_owned();
        let message = Message::Answer { token, signal };
        self.post(id, key, &message).await
    }

    /// Tells that the task with this token is alive, and how far it is: for
    /// tasks that were handed over and have `HeartbeatSeconds`.
    pub async fn heartbeat(&self, token: &str, progress: Progress) -> Result<(), AskError> {
        let (id, _) = token_names(token).ok_or(AskError::BadToken)?;
        if !self.may_wait_for(id, token).await? {
            return Err(AskError::NotWaiting { id: id.to_owned() });
        }
        let token = token.to_owned();
        self.ask(id, &Message::Alive { token, progress }).await
    }

    /// Whether an execution may wait for a token. If it has ended or is not
    /// there, that is what whoever asks has to hear.
    async fn may_wait_for(&self, id: &str, token: &str) -> Result<bool, AskError> {
        let found = self.shared.store.get(id).await.map_err(PostError::from)?;
        Ok(found.is_none_or(|found| {
            !found.row.status.is_open() || Stands::read(&found.row.position).may_wait_for(token)
        }))
    }

    async fn ask(&self, id: &str, message: &Message) -> Result<(), AskError> {
        // Each is another wish, though it may be the same words.
        let key = format!("ask {:016x}", (self.shared.settings.chance)());
        self.post(id, key, message).await
    }

    async fn post(&self, id: &str, key: String, message: &Message) -> Result<(), AskError> {
        let post = Post {
            key,
            body: json_text(message),
            at_ms: self.shared.clock.now_ms(),
        };
        self.shared.store.post(id, post).await?;
        self.shared.posted(id);
        Ok(())
    }
}
