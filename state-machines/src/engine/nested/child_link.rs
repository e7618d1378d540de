//! Hints between parent and child, sent through the store's inboxes. Periodic
//! checks find the same facts without them, only later.

use crate::core::{NestedStart, ParentTask, parse_token};
use crate::engine::callbacks::StoredPosition;
use crate::engine::journal::to_json_text;
use crate::engine::message::InboxMessage;
use crate::engine::shared::Shared;
use crate::store::{ExecutionStoreResult, NewMessage, PostError};

/// A task that waits for a child execution.
#[derive(Debug)]
pub(in crate::engine) struct ChildLink {
    pub(in crate::engine) child: String,
    /// The task's token.
    pub(in crate::engine) token: String,
    pub(in crate::engine) nested: NestedStart,
}

/// Notifies the parent that this execution has ended.
pub(in crate::engine) async fn notify_parent(
    shared: &Shared,
    child: &str,
    origin: Option<&ParentTask>,
) {
    let Some(ParentTask {
        execution,
        token: Some(token),
        ..
    }) = origin
    else {
        return;
    };
    let token = token.clone();
    post_hint(
        shared,
        child,
        execution,
        &InboxMessage::ChildEnded { token },
    )
    .await;
}

/// Notifies a child that the task no longer waits for it. The child ignores this
/// unless that task started it.
pub(in crate::engine) async fn notify_child_abandoned(shared: &Shared, link: &ChildLink) {
    let token = link.token.clone();
    post_hint(
        shared,
        &link.token,
        &link.child,
        &InboxMessage::Disowned { token },
    )
    .await;
}

async fn post_hint(shared: &Shared, from: &str, to: &str, message: &InboxMessage) {
    let post = NewMessage {
        key: format!("{} {from}", message.key_prefix()),
        body: to_json_text(message),
        at_ms: shared.clock.now_ms(),
    };
    match shared.store.post(to, post).await {
        Ok(_) => shared.notify_posted(to),
        // An execution that has ended or is deleted needs no hint.
        Err(PostError::Ended { .. } | PostError::NotFound { .. }) => {}
        Err(error) => tracing::warn!(
            execution = to,
            error = &error as &(dyn std::error::Error + 'static),
            "sending a hint failed; the next periodic check finds it"
        ),
    }
}

/// Whether the task that started an execution is still in flight.
pub(in crate::engine) async fn is_parent_waiting(
    shared: &Shared,
    origin: &ParentTask,
) -> ExecutionStoreResult<bool> {
    let Some((_, task)) = origin.token.as_deref().and_then(parse_token) else {
        return Ok(true);
    };
    let parent = shared.store.get(&origin.execution).await?;
    Ok(parent.is_some_and(|parent| {
        parent.row.status.is_open()
            && StoredPosition::parse(&parent.row.position).may_have_task(task)
    }))
}
