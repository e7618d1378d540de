//! A shard's log written and its files kept step by step, by whoever has the
//! steps: the same work as that of the two threads, in an order that a
//! simulation decides.
//!
//! ```text
//!   take ──► (the disk is slow) ──► write ──► those who wait are told
//!                                     │ failed
//!                        memory thrown away ──► reopen, until it works
//! ```
//! A step does not wait. Between taking a group and writing it the shard is
//! as it is while a disk syncs: the next group is gathered, answers are held
//! back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ballast_domain::Timestamp;

use super::committer;
use super::core::Group;
use super::keeper::{self, KeepError};
use super::log::Log;
use super::open::{Opener, Options};
use super::record::PollNo;
use super::shared::{Capturing, Next, Shared};
use super::store::Store;
use crate::shard::Tally;

/// What a step of the log came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There was nothing to do.
    Nothing,
    /// A group was taken: the next step writes it.
    Taken,
    /// It is written.
    Group,
    /// It failed, or a panic was found: memory was thrown away, and the next
    /// step tries to open the log anew.
    Failed,
    /// The log was opened anew.
    Reopened,
}

/// Writes the log.
pub struct LogSteps {
    shared: Arc<Shared>,
    opener: Opener,
    /// None while it must be opened anew.
    log: Option<Log>,
    taken: Option<(Group, Vec<(PollNo, Tally)>)>,
    ticked: Option<Timestamp>,
}

impl LogSteps {
    pub(super) fn new(shared: Arc<Shared>, log: Log, opener: Opener) -> Self {
        Self {
            shared,
            opener,
            log: Some(log),
            taken: None,
            ticked: None,
        }
    }

    /// Waits until there may be something to do.
    pub async fn stirred(&self) {
        self.shared.stirred.notified().await;
    }

    /// Does the next thing.
    pub fn step(&mut self) -> Written {
        let Some(log) = &mut self.log else {
            self.log = committer::reopen(&self.shared, &self.opener);
            return match self.log {
                Some(_) => Written::Reopened,
                None => Written::Failed,
            };
        };
        let failed = match self.taken.take() {
            Some((group, tallies)) => {
                let (shared, opener) = (&*self.shared, &self.opener);
                let write = || committer::write(shared, log, opener, &group, tallies);
                match catch_unwind(AssertUnwindSafe(write)) {
                    Ok(Ok(())) => return Written::Group,
                    Ok(Err(why)) => why,
                    Err(_) => "a panic while the shard's log was written".to_owned(),
                }
            }
            None => match self.shared.next_now(&mut self.ticked) {
                Some(Next::Write(group, tallies)) => {
                    self.taken = Some((group, tallies));
                    return Written::Taken;
                }
                Some(Next::Rebuild(why)) => why,
                Some(Next::Stop) | None => return Written::Nothing,
            },
        };
        if let Some(log) = self.log.take() {
            committer::give_up(&self.shared, &failed, &self.opener, log);
        }
        Written::Failed
    }
}

/// What a step of the keeper came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// There was nothing to do.
    Nothing,
    /// Memory is copied when the group that is open is durable.
    Waits,
    /// A checkpoint was made.
    Checkpoint,
    /// It was not; nothing is lost by that.
    Failed,
}

/// Makes checkpoints.
pub struct KeepSteps {
    shared: Arc<Shared>,
    options: Options,
    name: String,
    begun: Option<Begun>,
}

/// A checkpoint that waits for a group to be durable.
struct Begun {
    asked: u64,
    bytes: u64,
    store: Arc<Store>,
}

impl KeepSteps {
    pub(super) fn new(shared: Arc<Shared>, options: Options, name: &str) -> Self {
        Self {
            shared,
            options,
            name: name.to_owned(),
            begun: None,
        }
    }

    /// Waits until somebody asks for a checkpoint.
    pub async fn stirred(&self) {
        self.shared.keeping.stirred.notified().await;
    }

    /// Does the next thing.
    pub fn step(&mut self) -> Kept {
        keeper::tidy(&self.shared);
        let (capturing, begun) = match self.begun.take() {
            Some(begun) => (self.shared.captured(&begun.store), begun),
            None => {
                let asked = self.shared.keeping.asked();
                if !keeper::is_due(&self.shared, &self.options, asked, false) {
                    return Kept::Nothing;
                }
                let bytes = self.shared.log_bytes();
                let (capturing, store) = self.shared.begin_capture();
                let begun = Begun {
                    asked,
                    bytes,
                    store,
                };
                (capturing, begun)
            }
        };
        let kept = match capturing {
            Capturing::Waits => {
                self.begun = Some(begun);
                return Kept::Waits;
            }
            Capturing::Trouble => Err(KeepError::Trouble),
            Capturing::Done(captured) => {
                let _files = self.shared.hold_files();
                let (shared, store) = (&*self.shared, &*begun.store);
                let write = || keeper::write(shared, &self.options, begun.bytes, &captured, store);
                catch_unwind(AssertUnwindSafe(write)).unwrap_or(Err(KeepError::Panic))
            }
        };
        match keeper::told(&self.shared, &self.name, begun.asked, kept) {
            true => Kept::Checkpoint,
            false => Kept::Failed,
        }
    }
}
