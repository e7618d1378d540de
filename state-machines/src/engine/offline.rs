//! Changes to executions while no engine runs them.

use super::error::CommandError;
use super::journal::to_json_text;
use super::message::InboxMessage;
use crate::store::limits::LIST_MAX;
use crate::store::{ExecutionQuery, ExecutionStore, NewMessage, PostError, StoredStatus};

/// Cancels every open execution of a store: each ends as soon as an engine runs it.
/// Returns how many there are. For restored backups, whose executions may have gone
/// further than the backup knows.
pub async fn cancel_open_executions(
    store: &dyn ExecutionStore,
    now_ms: i64,
    cause: &str,
) -> Result<u64, CommandError> {
    let body = to_json_text(&InboxMessage::Cancel {
        error: None,
        cause: Some(cause.to_owned()),
    });
    let mut query = ExecutionQuery {
        status: Some(StoredStatus::Running),
        ..ExecutionQuery::newest(LIST_MAX)
    };
    let mut all = 0;
    loop {
        let open = store.list(&query).await.map_err(PostError::from)?;
        let Some(last) = open.last() else {
            return Ok(all);
        };
        query.before = Some(last.number);
        for row in &open {
            let post = NewMessage {
                key: format!("cancel all {now_ms}"),
                body: body.clone(),
                at_ms: now_ms,
            };
            store.post(&row.id, post).await?;
            all += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::core;
    use crate::engine::{Engine, EngineSettings, HandlerRegistry, SystemClock};
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn open_executions_are_cancelled_when_run_again() {
        let store = Arc::new(MemoryStore::new());
        let text = r#"{"StartAt": "Wait", "States": {
            "Wait": {"Type": "Wait", "Seconds": 86400, "End": true}}}"#;
        let run = || {
            let (clock, settings) = (Arc::new(SystemClock), EngineSettings::default());
            Engine::new(store.clone(), HandlerRegistry::new(), clock, settings)
        };
        let engine = run().await.unwrap();
        engine.deploy("long", text).await.unwrap();
        for name in ["one", "two"] {
            engine.start("long", name, json!({})).await.unwrap();
        }
        engine.stop().await;
        assert_eq!(
            cancel_open_executions(&*store, 1, "restored")
                .await
                .unwrap(),
            2
        );
        let engine = run().await.unwrap();
        let ending = engine.wait_for_end("long:two");
        let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
        let ended = ended.expect("long:two did not end within 60 s");
        let ended = ended.unwrap().unwrap();
        assert_eq!(ended.summary.status, core::ExecutionStatus::Aborted);
        assert_eq!(ended.cause.as_deref(), Some("restored"));
        engine.stop().await;
    }
}
