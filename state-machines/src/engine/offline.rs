//! What is done to executions while no engine runs them.

use super::error::AskError;
use super::journal::json_text;
use super::message::Message;
use crate::store::limits::LIST_MAX;
use crate::store::{Post, PostError, Query, Status, Store};

/// Has every execution that is open in a store end as soon as an engine runs
/// it; how many there are. For stores that were put back to an earlier time:
/// what their executions did since is not known to them.
pub async fn cancel_open(store: &dyn Store, now_ms: i64, cause: &str) -> Result<u64, AskError> {
    let body = json_text(&Message::Cancel {
        error: None,
        cause: Some(cause.to_owned()),
    });
    let mut query = Query {
        status: Some(Status::Running),
        ..Query::newest(LIST_MAX)
    };
    let mut all = 0;
    loop {
        let open = store.list(&query).await.map_err(PostError::from)?;
        let Some(last) = open.last() else {
            return Ok(all);
        };
        query.before = Some(last.number);
        for row in &open {
            let post = Post {
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

    use serde_json::json;

    use super::*;
    use crate::core;
    use crate::engine::{Engine, Registry, Settings, SystemClock};
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn what_was_open_ends_when_it_is_run_again() {
        let store = Arc::new(MemoryStore::new());
        let text = r#"{"StartAt": "Wait", "States": {
            "Wait": {"Type": "Wait", "Seconds": 86400, "End": true}}}"#;
        let run = || {
            let (clock, settings) = (Arc::new(SystemClock), Settings::default());
            Engine::new(store.clone(), Registry::new(), clock, settings)
        };
        let engine = run().await.unwrap();
        engine.deploy("long", text).await.unwrap();
        for name in ["one", "two"] {
            engine.start("long", name, json!({})).await.unwrap();
        }
        engine.stop().await;
        assert_eq!(cancel_open(&*store, 1, "restored").await.unwrap(), 2);
        let engine = run().await.unwrap();
        let ended = engine.ended("long:two").await.unwrap().unwrap();
        assert_eq!(ended.summary.status, core::Status::Aborted);
        assert_eq!(ended.cause.as_deref(), Some("restored"));
        engine.stop().await;
    }
}
