//! Watches an execution until it ends: as a live view on a terminal, line by line in a pipe, as one
//! document per line with `--json`, or silently.

use std::time::Duration;

use tokio::sync::mpsc;

use super::body::ExecutionStatus;
use super::feed::{ExecutionFeed, ExecutionSnapshot, FeedEvent};
use super::fetch_definition;
use super::live::LiveExecution;
use crate::Remote;
use crate::failure::{CliError, CommandOutcome};
use crate::now::now;
use crate::output::Screen;
use crate::view::executions;
use crate::view::watch::log::ExecutionLog;

/// How often the live view is redrawn at least, for elapsed times.
const TICK: Duration = Duration::from_secs(1);

/// An execution to watch.
#[derive(Debug)]
pub(super) struct ExecutionWatch {
    pub(super) id: String,
    pub(super) mode: WatchMode,
    pub(super) patience: Duration,
    /// Whether this command started it: then the watch shows all events, and the server is known to
    /// be reachable.
    pub(super) from_start: bool,
}

/// Whether to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchMode {
    Silent,
    Visible,
}

/// How updates are shown.
enum WatchView<'a> {
    Nowhere,
    /// One document per line.
    Documents(String),
    Lines(ExecutionLog),
    Live(Box<LiveExecution<'a>>),
}

impl ExecutionWatch {
    /// Watches until the end.
    pub(super) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let screen = &remote.screen;
        let mut view = self.open_view(remote).await?;
        let (listener, mut updates) = mpsc::channel(64);
        let feed = ExecutionFeed {
            client: &remote.client,
            id: &self.id,
            history: matches!(view, WatchView::Lines(_) | WatchView::Live(_)),
            patience: self.patience,
            was_reachable: self.from_start,
            listener,
        };
        let feeding = feed.run();
        tokio::pin!(feeding);
        let mut fed: Option<Result<(), CliError>> = None;
        let mut last: Option<Box<ExecutionSnapshot>> = None;
        let mut ticks = tokio::time::interval(TICK);
        let stop = wait_for_interrupt();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    view.close(screen);
                    return Ok(CommandOutcome::Interrupted);
                }
                done = &mut feeding, if fed.is_none() => fed = Some(done),
                update = updates.recv() => match update {
                    Some(FeedEvent::Changed(snapshot)) => {
                        view.update(screen, &snapshot)?;
                        last = Some(snapshot);
                    }
                    Some(FeedEvent::Disconnected(failure)) => view.mark_disconnected(screen, &failure)?,
                    None => break,
                },
                _ = ticks.tick() => view.tick()?,
            }
        }
        drop(view);
        if let Some(Err(failure)) = fed {
            return Err(failure);
        }
        match last {
            Some(snapshot) => self.report_result(screen, &snapshot),
            None => Err(CliError::local("the event stream was empty".to_owned())),
        }
    }

    async fn open_view<'a>(&self, remote: &'a Remote) -> Result<WatchView<'a>, CliError> {
        let screen = &remote.screen;
        Ok(if self.mode == WatchMode::Silent {
            WatchView::Nowhere
        } else if screen.json {
            WatchView::Documents(String::new())
        } else if screen.terminal && !is_dumb_terminal() {
            let definition = fetch_definition(&remote.client, &self.id).await?;
            WatchView::Live(Box::new(LiveExecution::new(screen, definition)))
        } else {
            WatchView::Lines(ExecutionLog::new(self.from_start))
        })
    }

    /// Reports the result.
    fn report_result(
        &self,
        screen: &Screen,
        snapshot: &ExecutionSnapshot,
    ) -> Result<CommandOutcome, CliError> {
        let execution = &snapshot.execution;
        let good = execution.status == ExecutionStatus::Succeeded;
        match self.mode {
            WatchMode::Silent if screen.json => screen.data(snapshot.document.as_bytes())?,
            WatchMode::Silent if !good => screen.note(&executions::describe_end(screen, execution)),
            WatchMode::Silent => {
                screen.data(executions::render_output(screen, execution).as_bytes())?
            }
            WatchMode::Visible if screen.json => {}
            // The live view already shows the status.
            WatchMode::Visible if screen.terminal && !is_dumb_terminal() => {
                screen.data(
                    format!("\n{}", executions::describe_result(screen, execution)).as_bytes(),
                )?;
            }
            WatchMode::Visible => {
                screen.data(executions::describe_end(screen, execution).as_bytes())?
            }
        }
        Ok(if good {
            CommandOutcome::Done
        } else {
            CommandOutcome::Negative
        })
    }
}

impl WatchView<'_> {
    fn update(&mut self, screen: &Screen, snapshot: &ExecutionSnapshot) -> Result<(), CliError> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Documents(last) => {
                let line = to_one_line(&snapshot.document);
                if line == *last {
                    return Ok(());
                }
                screen.data(line.as_bytes())?;
                *last = line;
                Ok(())
            }
            Self::Lines(log) => {
                for line in log.log_changes(&snapshot.execution, &snapshot.events, now()) {
                    screen.data(line.as_bytes())?;
                }
                Ok(())
            }
            Self::Live(live) => live.update(&snapshot.execution, &snapshot.events),
        }
    }

    fn mark_disconnected(&mut self, screen: &Screen, failure: &CliError) -> Result<(), CliError> {
        match self {
            Self::Nowhere if !screen.json => {
                screen.note("connection lost, reconnecting…");
                Ok(())
            }
            Self::Nowhere | Self::Documents(_) => {
                screen.note(&failure.as_connection_lost().document());
                Ok(())
            }
            Self::Lines(log) => screen.data(log.log_disconnected(now()).as_bytes()),
            Self::Live(live) => live.mark_disconnected(),
        }
    }

    fn tick(&mut self) -> Result<(), CliError> {
        match self {
            Self::Live(live) => live.redraw(),
            _ => Ok(()),
        }
    }

    /// Ends the view after Ctrl-C.
    fn close(self, screen: &Screen) {
        drop(self);
        screen.hint("stopped watching; the execution continues");
    }
}

/// Whether the terminal cannot move its cursor.
pub(crate) fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Puts a document on one line.
pub(crate) fn to_one_line(document: &str) -> String {
    if !document.contains(['\n', '\r']) {
        return document.to_owned();
    }
    match serde_json::from_str::<serde_json::Value>(document) {
        Ok(value) => value.to_string(),
        Err(_) => document.replace(['\n', '\r'], " "),
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn wait_for_interrupt() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut ended) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = ended.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
