//! What the store in memory holds.

use std::collections::{BTreeMap, HashMap};

use crate::store::paging::Paging;
use crate::store::rules::Kept;
use crate::store::{
    Claim, Deployed, Entry, Found, HistoryPage, HistoryQuery, Lease, Message, New, Post, PostError,
    Posted, Recorded, Row, Snapshot, Standing, Step,
};

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// The texts of definitions by hash.
    pub(super) definitions: HashMap<String, String>,
    pub(super) deployed: BTreeMap<String, Deployed>,
    /// Executions by number.
    pub(super) executions: BTreeMap<u64, Execution>,
    /// Their numbers by id.
    pub(super) numbers: HashMap<String, u64>,
    pub(super) last_number: u64,
}

impl Inner {
    pub(super) fn find(&self, id: &str) -> Option<&Execution> {
        self.executions.get(self.numbers.get(id)?)
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut Execution> {
        self.executions.get_mut(self.numbers.get(id)?)
    }

    pub(super) fn forget(&mut self, before_ms: i64, most: usize) -> u64 {
        let ended = self.executions.iter().filter_map(|(number, execution)| {
            let ended = execution.standing.ended_at_ms?;
            (ended < before_ms).then_some((ended, *number))
        });
        let mut ended: Vec<_> = ended.collect();
        ended.sort_unstable();
        ended.truncate(most);
        for (_, number) in &ended {
            if let Some(execution) = self.executions.remove(number) {
                self.numbers.remove(&execution.id);
            }
        }
        ended.len() as u64
    }
}

/// One execution.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) definition: String,
    pub(super) input: String,
    pub(super) kept: Kept,
    created_at_ms: i64,
    standing: Standing,
    entries: Vec<Entry>,
    snapshot: Option<Snapshot>,
    messages: Vec<Message>,
}

impl Execution {
    pub(super) fn new(new: New, kept: Kept) -> Self {
        let seq = kept.next_seq - 1;
        Self {
            id: new.id,
            workflow: new.workflow,
            definition: new.definition,
            input: new.input,
            kept,
            created_at_ms: new.at_ms,
            standing: new.standing,
            entries: new.entries,
            snapshot: new.snapshot.map(|text| Snapshot { seq, text }),
            messages: Vec::new(),
        }
    }

    /// Keeps what a step brought, which was taken in already.
    pub(super) fn stepped(&mut self, step: Step) {
        self.entries.extend(step.entries);
        self.standing = step.standing;
        if let Some(text) = step.snapshot {
            let seq = self.kept.next_seq - 1;
            self.snapshot = Some(Snapshot { seq, text });
        }
    }

    pub(super) fn post(&mut self, post: Post) -> Result<Posted, PostError> {
        let same = self.messages.iter().find(|known| known.key == post.key);
        if let Some(known) = same {
            if known.body != post.body {
                let (id, key) = (self.id.clone(), post.key);
                return Err(PostError::Conflict { id, key });
            }
            return Ok(Posted::Before(known.number));
        }
        let number = self.kept.post(&self.id, post.at_ms)?;
        self.messages.push(Message {
            number,
            key: post.key,
            body: post.body,
            at_ms: post.at_ms,
        });
        Ok(Posted::New(number))
    }

    pub(super) fn unread(&self) -> Vec<Message> {
        let messages = self.messages.iter();
        let unread = messages.filter(|message| message.number > self.kept.taken);
        unread.cloned().collect()
    }

    pub(super) fn message(&self, key: &str) -> Option<Message> {
        let mut messages = self.messages.iter();
        messages.find(|known| known.key == key).cloned()
    }

    pub(super) fn claimed(&self, lease: Lease) -> Claim {
        let after = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let entries = (1..).zip(&self.entries).map(|(seq, entry)| Recorded {
            seq,
            at_ms: entry.at_ms,
            event: entry.event.clone(),
        });
        Claim {
            lease,
            row: self.row(),
            snapshot: self.snapshot.clone(),
            entries: entries.filter(|entry| entry.seq > after).collect(),
            messages: self.unread(),
        }
    }

    pub(super) fn history(&self, query: &HistoryQuery) -> HistoryPage {
        let mut paging = Paging::new(query, self.kept.next_history_id);
        let events = self.entries.iter().flat_map(|entry| &entry.history);
        let events: Vec<&str> = events.map(String::as_str).collect();
        paging.take(1, &events);
        paging.finish()
    }

    pub(super) fn row(&self) -> Row {
        Row {
            id: self.id.clone(),
            number: self.kept.number,
            workflow: self.workflow.clone(),
            definition: self.definition.clone(),
            created_at_ms: self.created_at_ms,
            status: self.kept.status,
            paused: self.standing.paused,
            position: self.standing.position.clone(),
            ended_at_ms: self.standing.ended_at_ms,
            next_seq: self.kept.next_seq,
            next_history_id: self.kept.next_history_id,
            fence: self.kept.fence,
            worker: self.kept.worker.clone(),
            due_at_ms: self.kept.due_at_ms,
            waiting: self.kept.waiting(),
        }
    }

    pub(super) fn found(&self) -> Found {
        Found {
            row: self.row(),
            input: self.input.clone(),
            outcome: self.standing.outcome.clone(),
        }
    }
}
