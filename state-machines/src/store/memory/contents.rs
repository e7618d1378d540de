//! The contents of the store in memory.

use std::collections::{BTreeMap, HashMap};

use crate::store::paging::HistoryPageBuilder;
use crate::store::rules::ExecutionHead;
use crate::store::{
    ClaimedExecution, Deployment, ExecutionCreation, ExecutionRecord, ExecutionRow,
    ExecutionSnapshot, ExecutionState, ExecutionStep, HistoryPage, HistoryQuery, JournalEntry,
    Lease, NewMessage, PostError, PostOutcome, StoredEntry, StoredMessage,
};

/// The contents of the store in memory.
#[derive(Debug, Default)]
pub(super) struct MemoryContents {
    /// The texts of definitions by hash.
    pub(super) definitions: HashMap<String, String>,
    pub(super) deployed: BTreeMap<String, Deployment>,
    /// Executions by number.
    pub(super) executions: BTreeMap<u64, MemoryExecution>,
    /// Numbers by id.
    pub(super) numbers: HashMap<String, u64>,
    pub(super) last_number: u64,
}

impl MemoryContents {
    pub(super) fn find(&self, id: &str) -> Option<&MemoryExecution> {
        self.executions.get(self.numbers.get(id)?)
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut MemoryExecution> {
        self.executions.get_mut(self.numbers.get(id)?)
    }

    pub(super) fn forget_ended(&mut self, before_ms: i64, most: usize) -> u64 {
        let ended = self.executions.iter().filter_map(|(number, execution)| {
            let ended = execution.state.ended_at_ms?;
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
pub(super) struct MemoryExecution {
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) definition: String,
    pub(super) input: String,
    pub(super) head: ExecutionHead,
    created_at_ms: i64,
    state: ExecutionState,
    entries: Vec<JournalEntry>,
    snapshot: Option<ExecutionSnapshot>,
    messages: Vec<StoredMessage>,
}

impl MemoryExecution {
    pub(super) fn new(new: ExecutionCreation, head: ExecutionHead) -> Self {
        let seq = head.next_seq - 1;
        Self {
            id: new.id,
            workflow: new.workflow,
            definition: new.definition,
            input: new.input,
            head,
            created_at_ms: new.at_ms,
            state: new.state,
            entries: new.entries,
            snapshot: new.snapshot.map(|text| ExecutionSnapshot { seq, text }),
            messages: Vec::new(),
        }
    }

    /// Stores a step that the head has accepted.
    pub(super) fn record_step(&mut self, step: ExecutionStep) {
        self.entries.extend(step.entries);
        self.state = step.state;
        if let Some(text) = step.snapshot {
            let seq = self.head.next_seq - 1;
            self.snapshot = Some(ExecutionSnapshot { seq, text });
        }
    }

    pub(super) fn add_message(&mut self, post: NewMessage) -> Result<PostOutcome, PostError> {
        let same = self.messages.iter().find(|known| known.key == post.key);
        if let Some(known) = same {
            if known.body != post.body {
                let (id, key) = (self.id.clone(), post.key);
                return Err(PostError::Conflict { id, key });
            }
            return Ok(PostOutcome::Duplicate(known.number));
        }
        let number = self.head.accept_message(&self.id, post.at_ms)?;
        self.messages.push(StoredMessage {
            number,
            key: post.key,
            body: post.body,
            at_ms: post.at_ms,
        });
        Ok(PostOutcome::Queued(number))
    }

    pub(super) fn unread_messages(&self) -> Vec<StoredMessage> {
        let messages = self.messages.iter();
        let unread = messages.filter(|message| message.number > self.head.messages_read);
        unread.cloned().collect()
    }

    pub(super) fn find_message(&self, key: &str) -> Option<StoredMessage> {
        let mut messages = self.messages.iter();
        messages.find(|known| known.key == key).cloned()
    }

    pub(super) fn to_claimed(&self, lease: Lease) -> ClaimedExecution {
        let after = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let entries = (1..).zip(&self.entries).map(|(seq, entry)| StoredEntry {
            seq,
            at_ms: entry.at_ms,
            event: entry.event.clone(),
        });
        ClaimedExecution {
            lease,
            row: self.to_row(),
            snapshot: self.snapshot.clone(),
            entries: entries.filter(|entry| entry.seq > after).collect(),
            messages: self.unread_messages(),
        }
    }

    pub(super) fn history_page(&self, query: &HistoryQuery) -> HistoryPage {
        let mut paging = HistoryPageBuilder::new(query, self.head.next_history_id);
        let events = self.entries.iter().flat_map(|entry| &entry.history);
        let events: Vec<&str> = events.map(String::as_str).collect();
        paging.add_events(1, &events);
        paging.finish()
    }

    pub(super) fn to_row(&self) -> ExecutionRow {
        ExecutionRow {
            id: self.id.clone(),
            number: self.head.number,
            workflow: self.workflow.clone(),
            definition: self.definition.clone(),
            created_at_ms: self.created_at_ms,
            status: self.head.status,
            paused: self.state.paused,
            position: self.state.position.clone(),
            ended_at_ms: self.state.ended_at_ms,
            next_seq: self.head.next_seq,
            next_history_id: self.head.next_history_id,
            fence: self.head.fence,
            worker: self.head.worker.clone(),
            due_at_ms: self.head.due_at_ms,
            waiting: self.head.waiting(),
        }
    }

    pub(super) fn to_record(&self) -> ExecutionRecord {
        ExecutionRecord {
            row: self.to_row(),
            input: self.input.clone(),
            outcome: self.state.outcome.clone(),
        }
    }
}
