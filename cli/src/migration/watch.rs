//! Watches a migration until it ends: as a live view on a terminal, line by line in a pipe, as one
//! document per line with `--json`, or only the final document.

use std::time::Duration;

use ballast_domain::migration::MigrationStatus;
use tokio::sync::mpsc;

use super::body::MigrationBody;
use super::live::LiveMigration;
use crate::Remote;
use crate::execution::watch::{is_dumb_terminal, to_one_line, wait_for_interrupt};
use crate::failure::{CliError, CommandOutcome};
use crate::listen::{EventListener, unreadable_event};
use crate::now::now;
use crate::output::Screen;
use crate::sse::ServerEvent;
use crate::view::moving::log::MigrationLog;
use crate::view::{certificate, migrations};

/// How often the live view is redrawn at least, for elapsed times.
const TICK: Duration = Duration::from_secs(1);

/// A migration to watch.
#[derive(Debug)]
pub(crate) struct MigrationWatch {
    pub(crate) id: String,
    /// Show only the final document.
    pub(crate) final_only: bool,
    pub(crate) patience: Duration,
    /// Whether the server was reachable a moment ago.
    pub(crate) was_reachable: bool,
}

/// An update from the stream.
enum WatchEvent {
    Changed(Box<MigrationSnapshot>),
    Disconnected(CliError),
}

struct MigrationSnapshot {
    migration: MigrationBody,
    /// The API's own document.
    document: String,
}

/// How updates are shown.
enum MigrationView<'a> {
    Nowhere,
    /// One document per line.
    Documents(String),
    Lines(Box<MigrationLog>),
    Live(Box<LiveMigration<'a>>),
}

impl MigrationWatch {
    /// Watches until the end.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let screen = &remote.screen;
        let mut view = self.open_view(screen);
        let (listener, mut updates) = mpsc::channel(64);
        let feeding = self.feed(remote, listener);
        tokio::pin!(feeding);
        let mut fed: Option<Result<(), CliError>> = None;
        let mut last: Option<Box<MigrationSnapshot>> = None;
        let mut ticks = tokio::time::interval(TICK);
        let stop = wait_for_interrupt();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    drop(view);
                    screen.hint("stopped watching; the migration continues");
                    return Ok(CommandOutcome::Interrupted);
                }
                done = &mut feeding, if fed.is_none() => fed = Some(done),
                update = updates.recv() => match update {
                    Some(WatchEvent::Changed(snapshot)) => {
                        view.update(screen, &snapshot)?;
                        last = Some(snapshot);
                    }
                    Some(WatchEvent::Disconnected(failure)) => view.mark_disconnected(screen, &failure)?,
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

    async fn feed(
        &self,
        remote: &Remote,
        listener: mpsc::Sender<WatchEvent>,
    ) -> Result<(), CliError> {
        let listening = EventListener {
            client: &remote.client,
            path: &["migrations", &self.id, "watch"],
            patience: self.patience,
            was_reachable: self.was_reachable,
        };
        // If the receiver is gone, this task is being dropped too.
        let sent = async |sent: ServerEvent| {
            if sent.event != "migration" && sent.event != "end" {
                return Ok(false);
            }
            let migration = serde_json::from_str(&sent.data).map_err(unreadable_event)?;
            let snapshot = MigrationSnapshot {
                migration,
                document: sent.data,
            };
            let _ = listener.send(WatchEvent::Changed(Box::new(snapshot))).await;
            Ok(sent.event == "end")
        };
        let lost = async |failure| {
            let _ = listener.send(WatchEvent::Disconnected(failure)).await;
        };
        listening.run(sent, lost).await
    }

    fn open_view<'a>(&self, screen: &'a Screen) -> MigrationView<'a> {
        if self.final_only {
            MigrationView::Nowhere
        } else if screen.json {
            MigrationView::Documents(String::new())
        } else if screen.terminal && !is_dumb_terminal() {
            MigrationView::Live(Box::new(LiveMigration::new(screen)))
        } else {
            MigrationView::Lines(Box::default())
        }
    }

    /// Reports the result.
    fn report_result(
        &self,
        screen: &Screen,
        snapshot: &MigrationSnapshot,
    ) -> Result<CommandOutcome, CliError> {
        let migration = &snapshot.migration;
        if self.final_only {
            screen.data(snapshot.document.as_bytes())?;
        } else if !screen.json {
            let ended = match (&migration.record.certificate, screen.terminal) {
                (Some(signed), _) => certificate::describe_certificate(screen, signed),
                (None, _) => migrations::summary_line(screen, migration),
            };
            // On a terminal the live view is above.
            let gap = if screen.terminal { "\n" } else { "" };
            screen.data(format!("{gap}{ended}").as_bytes())?;
        }
        Ok(match migration.status {
            MigrationStatus::Completed => CommandOutcome::Done,
            _ => CommandOutcome::Negative,
        })
    }
}

impl MigrationView<'_> {
    fn update(&mut self, screen: &Screen, snapshot: &MigrationSnapshot) -> Result<(), CliError> {
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
                for line in log.log_changes(&snapshot.migration, now()) {
                    screen.data(line.as_bytes())?;
                }
                Ok(())
            }
            Self::Live(live) => live.update(&snapshot.migration),
        }
    }

    fn mark_disconnected(&mut self, screen: &Screen, failure: &CliError) -> Result<(), CliError> {
        match self {
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
}
