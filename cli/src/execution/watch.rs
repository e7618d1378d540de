//! Following an execution to its end: in a terminal as a live view, in a pipe
//! line by line, with `--json` as one document per line, or in silence.

use std::time::Duration;

use tokio::sync::mpsc;

use super::body::Status;
use super::definition_of;
use super::feed::{Feed, Heard, Seen};
use super::live::Live;
use crate::Remote;
use crate::failure::{Failure, Verdict};
use crate::now::now;
use crate::output::Screen;
use crate::view::executions;
use crate::view::watch::told::Teller;

/// How often a live view is drawn at least: times go on.
const TICK: Duration = Duration::from_secs(1);

/// An execution that is followed.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) id: String,
    pub(super) manner: Manner,
    pub(super) patience: Duration,
    /// Whether it was started just now: then all that happened is told, and
    /// the server is known to be there.
    pub(super) from_start: bool,
}

/// Whether something is shown on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Silent,
    Shown,
}

/// Where it is shown.
enum Shown<'a> {
    Nowhere,
    /// One document per line.
    Documents(String),
    Lines(Teller),
    Live(Box<Live<'a>>),
}

impl Following {
    /// Follows it.
    pub(super) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let screen = &remote.screen;
        let mut shown = self.shown(remote).await?;
        let (listener, mut heard) = mpsc::channel(64);
        let feed = Feed {
            client: &remote.client,
            id: &self.id,
            history: matches!(shown, Shown::Lines(_) | Shown::Live(_)),
            patience: self.patience,
            met: self.from_start,
            listener,
        };
        let feeding = feed.run();
        tokio::pin!(feeding);
        let mut fed: Option<Result<(), Failure>> = None;
        let mut last: Option<Box<Seen>> = None;
        let mut ticks = tokio::time::interval(TICK);
        let stop = interrupted();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    shown.leave(screen);
                    return Ok(Verdict::Interrupted);
                }
                done = &mut feeding, if fed.is_none() => fed = Some(done),
                news = heard.recv() => match news {
                    Some(Heard::Seen(seen)) => {
                        shown.seen(screen, &seen)?;
                        last = Some(seen);
                    }
                    Some(Heard::Lost(failure)) => shown.lost(screen, &failure)?,
                    None => break,
                },
                _ = ticks.tick() => shown.tick()?,
            }
        }
        drop(shown);
        if let Some(Err(failure)) = fed {
            return Err(failure);
        }
        match last {
            Some(seen) => self.end(screen, &seen),
            None => Err(Failure::local("the stream held nothing".to_owned())),
        }
    }

    async fn shown<'a>(&self, remote: &'a Remote) -> Result<Shown<'a>, Failure> {
        let screen = &remote.screen;
        Ok(if self.manner == Manner::Silent {
            Shown::Nowhere
        } else if screen.json {
            Shown::Documents(String::new())
        } else if screen.terminal && !is_dumb() {
            let definition = definition_of(&remote.client, &self.id).await?;
            Shown::Live(Box::new(Live::new(screen, definition)))
        } else {
            Shown::Lines(Teller::new(self.from_start))
        })
    }

    /// Tells what came of it.
    fn end(&self, screen: &Screen, seen: &Seen) -> Result<Verdict, Failure> {
        let execution = &seen.execution;
        let good = execution.status == Status::Succeeded;
        match self.manner {
            Manner::Silent if screen.json => screen.data(seen.document.as_bytes())?,
            Manner::Silent if !good => screen.note(&executions::ended(screen, execution)),
            Manner::Silent => screen.data(executions::output(screen, execution).as_bytes())?,
            Manner::Shown if screen.json => {}
            // The view above says how it ended.
            Manner::Shown if screen.terminal && !is_dumb() => {
                screen.data(format!("\n{}", executions::result(screen, execution)).as_bytes())?;
            }
            Manner::Shown => screen.data(executions::ended(screen, execution).as_bytes())?,
        }
        Ok(if good {
            Verdict::Done
        } else {
            Verdict::Negative
        })
    }
}

impl Shown<'_> {
    fn seen(&mut self, screen: &Screen, seen: &Seen) -> Result<(), Failure> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Documents(last) => {
                let line = one_line(&seen.document);
                if line == *last {
                    return Ok(());
                }
                screen.data(line.as_bytes())?;
                *last = line;
                Ok(())
            }
            Self::Lines(teller) => {
                for line in teller.tell(&seen.execution, &seen.events, now()) {
                    screen.data(line.as_bytes())?;
                }
                Ok(())
            }
            Self::Live(live) => live.seen(&seen.execution, &seen.events),
        }
    }

    fn lost(&mut self, screen: &Screen, failure: &Failure) -> Result<(), Failure> {
        match self {
            Self::Nowhere if !screen.json => {
                screen.note("connection lost, trying again…");
                Ok(())
            }
            Self::Nowhere | Self::Documents(_) => {
                screen.note(&failure.passing().document());
                Ok(())
            }
            Self::Lines(teller) => screen.data(teller.lost(now()).as_bytes()),
            Self::Live(live) => live.lost(),
        }
    }

    fn tick(&mut self) -> Result<(), Failure> {
        match self {
            Self::Live(live) => live.draw(),
            _ => Ok(()),
        }
    }

    /// Nobody looks any more.
    fn leave(self, screen: &Screen) {
        drop(self);
        screen.hint("no longer watched; the execution goes on");
    }
}

/// Whether the terminal can only be written to line by line.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// A document on one line, whatever its line breaks.
pub(crate) fn one_line(document: &str) -> String {
    if !document.contains(['\n', '\r']) {
        return document.to_owned();
    }
    match serde_json::from_str::<serde_json::Value>(document) {
        Ok(value) => value.to_string(),
        Err(_) => document.replace(['\n', '\r'], " "),
    }
}

/// Waits for Ctrl-C, or for whoever ends processes.
pub(crate) async fn interrupted() {
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
