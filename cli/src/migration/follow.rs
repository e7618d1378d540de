//! Following a move until it is over: in a terminal as a live view, in a pipe
//! line by line, with `--json` as one document per line, or the last alone.

use std::time::Duration;

use ballast_domain::migration::Status;
use tokio::sync::mpsc;

use super::body::Migration;
use super::live::Live;
use crate::Remote;
use crate::execution::watch::{interrupted, is_dumb, one_line};
use crate::failure::{Failure, Verdict};
use crate::listen::{Listening, unknown};
use crate::now::now;
use crate::output::Screen;
use crate::sse::Sent;
use crate::view::moving::told::Teller;
use crate::view::{certificate, migrations};

/// How often a live view is drawn at least: times go on.
const TICK: Duration = Duration::from_secs(1);

/// A move that is followed.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) id: String,
    /// Nothing is told on the way.
    pub(crate) final_only: bool,
    pub(crate) patience: Duration,
    /// Whether the server was there a moment ago.
    pub(crate) met: bool,
}

/// Something that was heard.
enum Heard {
    Seen(Box<Seen>),
    Lost(Failure),
}

struct Seen {
    migration: Migration,
    /// The API's own words.
    document: String,
}

/// Where it is shown.
enum Shown<'a> {
    Nowhere,
    /// One document per line.
    Documents(String),
    Lines(Box<Teller>),
    Live(Box<Live<'a>>),
}

impl Following {
    /// Follows it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let screen = &remote.screen;
        let mut shown = self.shown(screen);
        let (listener, mut heard) = mpsc::channel(64);
        let feeding = self.feed(remote, listener);
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
                    drop(shown);
                    screen.hint("no longer watched; the move goes on");
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

    async fn feed(&self, remote: &Remote, listener: mpsc::Sender<Heard>) -> Result<(), Failure> {
        let listening = Listening {
            client: &remote.client,
            path: &["migrations", &self.id, "watch"],
            patience: self.patience,
            met: self.met,
        };
        // Who listens no more has stopped us already.
        let sent = async |sent: Sent| {
            if sent.event != "migration" && sent.event != "end" {
                return Ok(false);
            }
            let migration = serde_json::from_str(&sent.data).map_err(unknown)?;
            let seen = Seen {
                migration,
                document: sent.data,
            };
            let _ = listener.send(Heard::Seen(Box::new(seen))).await;
            Ok(sent.event == "end")
        };
        let lost = async |failure| {
            let _ = listener.send(Heard::Lost(failure)).await;
        };
        listening.run(sent, lost).await
    }

    fn shown<'a>(&self, screen: &'a Screen) -> Shown<'a> {
        if self.final_only {
            Shown::Nowhere
        } else if screen.json {
            Shown::Documents(String::new())
        } else if screen.terminal && !is_dumb() {
            Shown::Live(Box::new(Live::new(screen)))
        } else {
            Shown::Lines(Box::default())
        }
    }

    /// Tells what came of it.
    fn end(&self, screen: &Screen, seen: &Seen) -> Result<Verdict, Failure> {
        let migration = &seen.migration;
        if self.final_only {
            screen.data(seen.document.as_bytes())?;
        } else if !screen.json {
            let ended = match (&migration.record.certificate, screen.terminal) {
                (Some(signed), _) => certificate::lines(screen, signed),
                (None, _) => migrations::line(screen, migration),
            };
            // On a terminal the view stands above.
            let gap = if screen.terminal { "\n" } else { "" };
            screen.data(format!("{gap}{ended}").as_bytes())?;
        }
        Ok(match migration.status {
            Status::Completed => Verdict::Done,
            _ => Verdict::Negative,
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
                for line in teller.tell(&seen.migration, now()) {
                    screen.data(line.as_bytes())?;
                }
                Ok(())
            }
            Self::Live(live) => live.seen(&seen.migration),
        }
    }

    fn lost(&mut self, screen: &Screen, failure: &Failure) -> Result<(), Failure> {
        match self {
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
}
