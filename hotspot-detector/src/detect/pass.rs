//! One pass over every shard, slice and busy item.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::hotspot::{Hotspot, Reading};
use super::scene::{ShardScene, item_value, slice_value};
use super::state::{Change, State, Timing, apply};
use super::subject::Subject;
use crate::load::ShardBook;
use crate::load::{Book, Interval, ItemView, Window};
use crate::rules::vars::Var;
use crate::rules::{Rule, Ruleset, SubjectKind, Truth};

/// What changed in a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// By which rule.
    pub rule: Arc<str>,
    /// For what.
    pub subject: Subject,
    /// What.
    pub change: Change,
    /// Since when the condition has held, or had when it was over.
    pub since: Option<Timestamp>,
    /// How long it is known to have held before this; gaps are left out.
    pub held_ms: u64,
    /// The numbers at that moment.
    pub evidence: Vec<Reading>,
}

/// Where every rule stands on every subject on which it is not quiet.
#[derive(Debug, Clone, Default)]
pub struct Detector {
    shards: BTreeMap<ShardId, BTreeMap<Key, Entry>>,
}

type Key = (Arc<str>, Subject);

#[derive(Debug, Clone)]
struct Entry {
    state: State,
    fired: Vec<Reading>,
    now: Vec<Reading>,
}

impl Entry {
    fn new(state: State) -> Self {
        Self {
            state,
            fired: Vec::new(),
            now: Vec::new(),
        }
    }
}

impl Detector {
    /// Judges everything in the book once. Meant to run after every sample.
    pub fn pass(&mut self, rules: &Ruleset, book: &Book) -> Vec<Event> {
        let Some(measured) = book.newest_interval() else {
            return Vec::new();
        };
        let at = measured.end();
        let mut events = Vec::new();
        for (name, shard) in book.shards() {
            let entries = self.shards.remove(name).unwrap_or_default();
            let mut round = Round {
                at,
                measured,
                rules,
                book,
                name,
                shard,
                scene: scene(book, shard),
                entries,
                judged: BTreeSet::new(),
                events: &mut events,
            };
            round.run();
            let entries = round.entries;
            if !entries.is_empty() {
                self.shards.insert(name.clone(), entries);
            }
        }
        // A shard that is no longer in the book has nothing left to judge.
        let gone: Vec<_> = self
            .shards
            .keys()
            .filter(|name| book.shard(name).is_none())
            .cloned()
            .collect();
        for name in gone {
            for ((rule, subject), entry) in self.shards.remove(&name).unwrap_or_default() {
                events.extend(farewell(at, rule, subject, &entry));
            }
        }
        events
    }

    /// Every hotspot, by shard.
    #[must_use]
    pub fn hotspots(&self, rules: &Ruleset) -> Vec<Hotspot> {
        let entries = self.shards.values().flatten();
        entries
            .filter_map(|((rule, subject), entry)| {
                let (since, fired, is_easing) = match entry.state {
                    State::Firing { since, fired, .. } => (since, fired, false),
                    State::Clearing { since, fired, .. } => (since, fired, true),
                    State::Quiet { .. } | State::Pending { .. } => return None,
                };
                Some(Hotspot {
                    rule: Arc::clone(rule),
                    subject: subject.clone(),
                    severity: rules
                        .rule(rule)
                        .map(|rule| rule.severity)
                        .unwrap_or_default(),
                    since,
                    fired,
                    is_easing,
                    evidence: entry.fired.clone(),
                    now: entry.now.clone(),
                })
            })
            .collect()
    }

    /// The subject on which a rule has held for longest without being a
    /// hotspot, and how long.
    pub(crate) fn longest_pending(&self, rule: &Arc<str>) -> Option<(Subject, u64)> {
        let entries = self.shards.values().flatten();
        let pending = entries.filter_map(|((name, subject), entry)| match entry.state {
            State::Pending { held, .. } if name == rule => Some((subject, held.ms)),
            _ => None,
        });
        let (subject, ms) = pending.max_by_key(|(_, ms)| *ms)?;
        Some((subject.clone(), ms))
    }

    /// The subjects of a shard on which a rule is not quiet.
    pub(super) fn not_quiet(&self, rule: &Arc<str>, shard: &ShardId) -> Vec<Subject> {
        let entries = self.shards.get(shard).into_iter().flatten();
        let loud = entries.filter(|((name, _), entry)| {
            name == rule && !matches!(entry.state, State::Quiet { .. })
        });
        loud.map(|((_, subject), _)| subject.clone()).collect()
    }

    /// Where a rule stands on a subject.
    #[must_use]
    pub fn state(&self, rule: &Arc<str>, subject: &Subject) -> State {
        let entries = self.shards.get(subject.shard());
        let key = (Arc::clone(rule), subject.clone());
        entries
            .and_then(|entries| entries.get(&key))
            .map_or(State::QUIET, |entry| entry.state)
    }
}

/// The pass over one shard.
struct Round<'a> {
    at: Timestamp,
    measured: Interval,
    rules: &'a Ruleset,
    book: &'a Book,
    name: &'a ShardId,
    shard: &'a ShardBook,
    scene: ShardScene,
    entries: BTreeMap<Key, Entry>,
    judged: BTreeSet<Key>,
    events: &'a mut Vec<Event>,
}

impl Round<'_> {
    fn run(&mut self) {
        let rules = self.rules;
        let about = |kind| rules.rules.iter().filter(move |rule| rule.subject == kind);
        for rule in about(SubjectKind::Shard) {
            let shard = self.name;
            let subject = || Subject::Shard {
                shard: shard.clone(),
            };
            let known = |var: Var| self.scene.value(var);
            let verdict = Verdict::of(rule, &known, !self.entries.is_empty());
            self.settle(rule, verdict, &subject);
        }
        let tenant_rules: Vec<_> = about(SubjectKind::Tenant).collect();
        if !tenant_rules.is_empty() {
            self.slices(&tenant_rules);
        }
        let item_rules: Vec<_> = about(SubjectKind::Item).collect();
        if !item_rules.is_empty() {
            self.items(&item_rules);
        }
        self.sweep();
    }

    fn slices(&mut self, rules: &[&Rule]) {
        let (book, shard, name) = (self.book, self.shard, self.name);
        let (Some(short), long) = (self.scene.short.clone(), self.scene.long.clone()) else {
            return;
        };
        for (slice, now) in book.slices(shard, Window::Short, &short) {
            let before = OnceCell::new();
            for rule in rules {
                let known = |var: Var| match (var.what.subject(), var.window) {
                    (SubjectKind::Shard, _) => self.scene.value(var),
                    (_, Window::Short) => slice_value(&now, &short, var.what),
                    (_, Window::Long) => {
                        let long = long.as_ref()?;
                        let view =
                            before.get_or_init(|| book.slice(shard, slice, Window::Long, long));
                        slice_value(&view.unwrap_or_default(), long, var.what)
                    }
                };
                let verdict = Verdict::of(rule, &known, !self.entries.is_empty());
                let subject = || slice_subject(name, slice);
                self.settle(rule, verdict, &subject);
            }
        }
    }

    fn items(&mut self, rules: &[&Rule]) {
        let (Some(short), long) = (&self.scene.short, &self.scene.long) else {
            return;
        };
        let now = self.book.items(self.shard, Window::Short, short);
        let before: BTreeMap<_, ItemView> = match long {
            Some(long) => {
                let items = self.book.items(self.shard, Window::Long, long).into_iter();
                items.map(|item| (item.name.clone(), item)).collect()
            }
            None => BTreeMap::new(),
        };
        let shard = self.name;
        for item in now {
            for rule in rules {
                let known = |var: Var| match (var.what.subject(), var.window) {
                    (SubjectKind::Shard, _) => self.scene.value(var),
                    (_, Window::Short) => item_value(&item, var.what),
                    (_, Window::Long) => item_value(before.get(&item.name)?, var.what),
                };
                let verdict = Verdict::of(rule, &known, !self.entries.is_empty());
                let subject = || Subject::Item {
                    shard: shard.clone(),
                    item: item.name.clone(),
                };
                self.settle(rule, verdict, &subject);
            }
        }
    }

    /// Steps the state machine of one rule on one subject. Nearly all of a
    /// million are quiet and stay so: they cost a look and no more.
    fn settle(&mut self, rule: &Rule, verdict: Verdict, subject: &dyn Fn() -> Subject) {
        if verdict.when != Truth::True && self.entries.is_empty() {
            return;
        }
        let key = (Arc::clone(&rule.name), subject());
        let before = self
            .entries
            .get(&key)
            .map_or(State::QUIET, |entry| entry.state);
        let timing = Timing::of(rule, self.rules.spans.step_ms);
        let (state, change) = apply(before, self.measured, verdict.when, verdict.over, &timing);
        if state == State::QUIET && before == State::QUIET {
            self.judged.insert(key);
            return;
        }
        let readings = self.readings(&verdict);
        if state == State::QUIET {
            self.entries.remove(&key);
        } else {
            let entry = self
                .entries
                .entry(key.clone())
                .or_insert_with(|| Entry::new(state));
            entry.state = state;
            entry.now.clone_from(&readings);
            if change == Some(Change::Fired) {
                entry.fired.clone_from(&readings);
            }
        }
        if let Some(change) = change {
            let (rule, subject) = key.clone();
            let (at, evidence) = (self.at, readings);
            self.events.push(Event {
                at,
                rule,
                subject,
                change,
                since: before.since().or(state.since()),
                held_ms: before.held_ms(),
                evidence,
            });
        }
        self.judged.insert(key);
    }

    fn readings(&self, verdict: &Verdict) -> Vec<Reading> {
        let length = |window| self.rules.spans.length_ms(window);
        let values = verdict.values.iter();
        values
            .map(|(var, value)| Reading::new(*var, *value, length(var.window)))
            .collect()
    }

    /// What was not judged is gone, if the shard was measured; if it was not,
    /// nobody knows.
    fn sweep(&mut self) {
        let left: Vec<_> = self
            .entries
            .keys()
            .filter(|key| !self.judged.contains(*key))
            .cloned()
            .collect();
        for key in left {
            let Some(rule) = self.rules.rule(&key.0) else {
                self.drop(key);
                continue;
            };
            if self.scene.short.is_some() {
                self.drop(key);
                continue;
            }
            let timing = Timing::of(rule, self.rules.spans.step_ms);
            if let Some(entry) = self.entries.get_mut(&key) {
                let unknown = Truth::Unknown;
                (entry.state, _) = apply(entry.state, self.measured, unknown, unknown, &timing);
            }
        }
    }

    fn drop(&mut self, key: Key) {
        let Some(entry) = self.entries.remove(&key) else {
            return;
        };
        // A cooldown outlives what it is for: it may come back.
        if let State::Quiet { until: Some(until) } = entry.state
            && self.at < until
            && self.rules.rule(&key.0).is_some()
        {
            self.entries.insert(key, entry);
            return;
        }
        let (rule, subject) = key;
        self.events.extend(farewell(self.at, rule, subject, &entry));
    }
}

/// A shard that is not in the newest sample is unknown, however much its windows
/// still hold.
fn scene(book: &Book, shard: &ShardBook) -> ShardScene {
    let view = |window| book.view(shard, window).filter(|_| book.is_fresh(shard));
    ShardScene::new(view(Window::Short), view(Window::Long), shard.slice_count())
}

fn slice_subject(shard: &ShardId, slice: &SliceId) -> Subject {
    Subject::Slice {
        shard: shard.clone(),
        slice: slice.clone(),
    }
}

fn farewell(at: Timestamp, rule: Arc<str>, subject: Subject, entry: &Entry) -> Option<Event> {
    let evidence = entry.now.clone();
    let was_something = !matches!(entry.state, State::Quiet { .. });
    was_something.then_some(Event {
        at,
        rule,
        subject,
        change: Change::Gone,
        since: entry.state.since(),
        held_ms: entry.state.held_ms(),
        evidence,
    })
}

/// What a rule says of a subject, and the numbers it looked at.
struct Verdict {
    when: Truth,
    over: Truth,
    values: Vec<(Var, Option<f64>)>,
}

impl Verdict {
    /// `in_full` where something may be ending: the numbers are kept then too.
    fn of(rule: &Rule, known: &impl Fn(Var) -> Option<f64>, in_full: bool) -> Self {
        let when = rule.when.judge(known);
        if when != Truth::True && !in_full {
            let values = Vec::new();
            return Self {
                when,
                over: Truth::Unknown,
                values,
            };
        }
        let clear = rule.clear.as_ref().map(|clear| clear.judge(known));
        let over = rule.is_over(when, clear);
        let values = rule
            .when
            .vars()
            .iter()
            .map(|var| (*var, known(*var)))
            .collect();
        Self { when, over, values }
    }
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
