//! A tenant under a steady load of votes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;

use super::Instance;
use super::polls::{Application, TestPoll};

/// A tenant under a steady load of votes.
pub struct BusyTenant {
    /// Its name.
    pub tenant: String,
    /// Its polls.
    pub polls: Arc<Vec<TestPoll>>,
    /// The application that sends the votes.
    pub app: Arc<Application>,
    counted: Arc<AtomicU64>,
    ending: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl BusyTenant {
    /// Sends `votes` votes ten times a second, spread over `polls` polls in turn.
    pub async fn begin(it: &Instance, tenant: &str, votes: u64, polls: usize) -> Self {
        let app = Arc::new(Application::with_scopes(it, tenant, &["vote", "read", "polls"]).await);
        let mut made = Vec::new();
        for _ in 0..polls {
            made.push(app.poll(json!({})).await);
        }
        let polls = Arc::new(made);
        let counted = Arc::new(AtomicU64::new(0));
        let ending = Arc::new(AtomicBool::new(false));
        let task = {
            let (app, polls) = (app.clone(), polls.clone());
            let (counted, ending) = (counted.clone(), ending.clone());
            tokio::spawn(async move {
                let mut beat = tokio::time::interval(Duration::from_millis(100));
                let mut voter = 0;
                while !ending.load(Ordering::SeqCst) {
                    beat.tick().await;
                    let line = |n: u64| {
                        let poll = &polls[n as usize % polls.len()];
                        poll.line(0, &format!("v-{n}"))
                    };
                    let lines: String = (voter..voter + votes).map(line).collect();
                    voter += votes;
                    let call = app
                        .call("POST", "/votes")
                        .raw("application/x-ndjson", lines);
                    // There is no answer while the process is down.
                    let Some(answer) = call.try_send().await else {
                        continue;
                    };
                    let fine = answer.text.matches("\"counted\"").count();
                    counted.fetch_add(fine as u64, Ordering::SeqCst);
                }
            })
        };
        Self {
            tenant: tenant.to_owned(),
            polls,
            app,
            counted,
            ending,
            task,
        }
    }

    /// Stops voting, checks that the polls have exactly the acknowledged votes, and returns
    /// how many there are.
    pub async fn end(self) -> u64 {
        self.ending.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
        let counted = self.counted.load(Ordering::SeqCst);
        let mut found = 0;
        for poll in self.polls.iter() {
            found += self.app.newest(poll).await["total"].as_u64().unwrap();
        }
        assert_eq!(found, counted, "{}", self.tenant);
        assert!(counted > 0);
        counted
    }
}
