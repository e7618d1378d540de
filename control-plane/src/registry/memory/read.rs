//! Queries over the in-memory state.

use std::collections::BTreeMap;

use ballast_domain::Timestamp;
use ballast_domain::registry::{
    EventQuery, Record, RecordKey, RecordKind, RecordQuery, RegistryEvent,
};

use super::MemoryState;
use crate::registry::sqlite::group::{CommitRow, EventRow, RecordState};

impl MemoryState {
    pub(super) fn get(&self, key: &RecordKey) -> Option<Record> {
        self.get_at(key, u64::MAX)
    }

    pub(super) fn list(&self, query: &RecordQuery) -> Vec<Record> {
        let RecordQuery {
            kind,
            terms,
            id_prefix,
            after,
            limit,
            descending,
        } = query;
        let is_past = |id: &String, after: &String| match descending {
            true => id < after,
            false => id > after,
        };
        let is_found = |(key, known): &(&RecordKey, &RecordState)| {
            let has = |term| known.terms.contains(term) || known.tallies.contains(term);
            key.kind == *kind
                && known.live
                && key.id.starts_with(id_prefix)
                && after.as_ref().is_none_or(|after| is_past(&key.id, after))
                && terms.iter().all(has)
        };
        let mut found: Vec<_> = self.all.records.iter().filter(is_found).collect();
        if *descending {
            found.reverse();
        }
        let found = found.into_iter().filter_map(|(key, _)| self.get(key));
        found.take(*limit as usize).collect()
    }

    pub(super) fn tallies(&self, kind: RecordKind, prefix: &str) -> BTreeMap<String, u64> {
        self.tallies_at(kind, prefix, u64::MAX)
    }

    pub(super) fn tallies_at(
        &self,
        kind: RecordKind,
        prefix: &str,
        revision: u64,
    ) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        // In the order of revisions: the last entry wins.
        for ((of, tally, at), count) in &self.all.tally_history {
            if *of == kind && tally.starts_with(prefix) && *at <= revision {
                counts.insert(tally.clone(), *count);
            }
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    pub(super) fn get_at(&self, key: &RecordKey, revision: u64) -> Option<Record> {
        let mut past = self.all.events.iter().rev();
        let last = past.find(|event| event.key == *key && event.revision <= revision)?;
        Some(Record {
            key: key.clone(),
            version: last.version,
            revision: last.revision,
            body: last.body.clone()?,
        })
    }

    pub(super) fn list_at(&self, kind: RecordKind, revision: u64) -> Vec<Record> {
        let keys = self.all.records.keys().filter(|key| key.kind == kind);
        keys.filter_map(|key| self.get_at(key, revision)).collect()
    }

    pub(super) fn revision_at(&self, moment: Timestamp) -> u64 {
        let mut commits = self.all.commits.iter().rev();
        let last = commits.find(|commit| commit.at <= moment);
        last.map_or(0, |commit| commit.revision)
    }

    pub(super) fn changes(&self, revision: u64, limit: u32) -> Vec<RegistryEvent> {
        let after = self.all.events.iter();
        let mut after = after.skip_while(|event| event.revision <= revision);
        let least = (limit as usize).max(1);
        let mut events: Vec<&EventRow> = after.by_ref().take(least).collect();
        // Return whole commits only.
        if let Some(last) = events.last().map(|event| event.revision) {
            events.extend(after.take_while(|event| event.revision == last));
        }
        events
            .into_iter()
            .filter_map(|row| self.event(row))
            .collect()
    }

    pub(super) fn events(&self, query: &EventQuery) -> Vec<RegistryEvent> {
        let EventQuery {
            kind,
            hidden,
            id,
            before,
            since,
            until,
            limit,
        } = query;
        let last = until.map_or(u64::MAX, |until| self.revision_at(until));
        let is_asked = |event: &EventRow| {
            let of_kind = kind.is_none_or(|kind| {
                event.key.kind == kind && id.as_ref().is_none_or(|id| event.key.id == *id)
            });
            let recent = since.is_none_or(|since| {
                let commit = self.find_commit(event);
                commit.is_some_and(|commit| commit.at >= since)
            });
            of_kind
                && recent
                && hidden.is_none_or(|hidden| event.key.kind != hidden)
                && before.is_none_or(|before| event.sequence < before)
                && event.revision <= last
        };
        let newest = self.all.events.iter().rev();
        let asked = newest.filter(|event| is_asked(event));
        let events = asked.filter_map(|row| self.event(row));
        events.take(*limit as usize).collect()
    }

    fn find_commit(&self, event: &EventRow) -> Option<&CommitRow> {
        let commits = &self.all.commits;
        let place = commits.binary_search_by_key(&event.revision, |commit| commit.revision);
        place.ok().map(|place| &commits[place])
    }

    fn event(&self, row: &EventRow) -> Option<RegistryEvent> {
        let CommitRow { at, commit, .. } = self.find_commit(row)?;
        let events = &self.all.events;
        let before = row.previous.and_then(|previous| {
            let place = events.binary_search_by_key(&previous, |event| event.sequence);
            events[place.ok()?].body.clone()
        });
        Some(RegistryEvent {
            sequence: row.sequence,
            revision: row.revision,
            at: *at,
            actor: commit.actor.clone(),
            action: commit.action.to_owned(),
            reason: commit.reason.clone(),
            key: row.key.clone(),
            version: row.version,
            before,
            after: row.body.clone(),
        })
    }
}
