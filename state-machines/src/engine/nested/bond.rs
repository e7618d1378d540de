//! What parent and child tell each other: hints, through the store's inboxes.
//! None of them is needed for what happens in the end, only for it to happen
//! soon.

use crate::core::{Nested, Origin, token_names};
use crate::engine::journal::json_text;
use crate::engine::message::Message;
use crate::engine::shared::Shared;
use crate::engine::waiting::Stands;
use crate::store::{Post, PostError, StoreResult};

/// A task waits for the end of an execution.
#[derive(Debug)]
pub(in crate::engine) struct Bond {
    pub(in crate::engine) child: String,
    /// That of the task.
    pub(in crate::engine) token: String,
    pub(in crate::engine) nested: Nested,
}

/// Tells the parent that this execution has ended.
pub(in crate::engine) async fn tell_ended(shared: &Shared, child: &str, origin: Option<&Origin>) {
    let Some(Origin {
        execution,
        token: Some(token),
        ..
    }) = origin
    else {
        return;
    };
    let token = token.clone();
    tell(shared, child, execution, &Message::ChildEnded { token }).await;
}

/// Tells a child that nobody waits for it. It minds only if this was whom it
/// was started by.
pub(in crate::engine) async fn disown(shared: &Shared, bond: &Bond) {
    let token = bond.token.clone();
    tell(
        shared,
        &bond.token,
        &bond.child,
        &Message::Disowned { token },
    )
    .await;
}

async fn tell(shared: &Shared, from: &str, to: &str, message: &Message) {
    let post = Post {
        key: format!("{} {from}", message.kind()),
        body: json_text(message),
        at_ms: shared.clock.now_ms(),
    };
    match shared.store.post(to, post).await {
        Ok(_) => shared.posted(to),
        // Whoever has ended needs no telling.
        Err(PostError::Ended { .. } | PostError::NotFound { .. }) => {}
        Err(error) => tracing::warn!(
            execution = to,
            error = &error as &(dyn std::error::Error + 'static),
            "a hint was not sent; it will be found without"
        ),
    }
}

/// Whether the task that an execution was started by is still in flight.
pub(in crate::engine) async fn is_wanted(shared: &Shared, origin: &Origin) -> StoreResult<bool> {
    let Some((_, task)) = origin.token.as_deref().and_then(token_names) else {
        return Ok(true);
    };
    let parent = shared.store.get(&origin.execution).await?;
    Ok(parent.is_some_and(|parent| {
        parent.row.status.is_open() && Stands::read(&parent.row.position).may_have(task)
    }))
}
