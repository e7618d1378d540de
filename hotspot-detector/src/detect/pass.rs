//! One evaluation pass over every shard, slice and busy item.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::hotspot::{Hotspot, Reading};
use super::state::{HotspotTransition, RuleState, Timing, apply};
use super::subject::HotspotSubject;
use super::variables::{ShardVariables, item_value, slice_value};
use crate::load::ShardHistory;
use crate::load::{Interval, ItemWindow, LoadHistory, Window};
use crate::rules::vars::Variable;
use crate::rules::{HotspotRule, Ruleset, SubjectKind, Truth};

/// A state transition in a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct HotspotEvent {
    /// When.
    pub at: Timestamp,
    /// The rule.
    pub rule: Arc<str>,
    /// The subject.
    pub subject: HotspotSubject,
    /// The transition.
    pub change: HotspotTransition,
    /// When the condition began to hold.
    pub since: Option<Timestamp>,
    /// How long it had held before, without gaps.
    pub held_ms: u64,
    /// The readings at that moment.
    pub evidence: Vec<Reading>,
}

/// The states of all rules on the subjects on which they are not quiet.
#[derive(Debug, Clone, Default)]
pub struct Detector {
    shards: BTreeMap<ShardId, BTreeMap<EntryKey, Entry>>,
}

type EntryKey = (Arc<str>, HotspotSubject);

#[derive(Debug, Clone)]
struct Entry {
    state: RuleState,
    fired: Vec<Reading>,
    now: Vec<Reading>,
}

impl Entry {
    fn new(state: RuleState) -> Self {
        Self {
            state,
            fired: Vec::new(),
            now: Vec::new(),
        }
    }
}

impl Detector {
    /// Evaluates all rules once. Meant to run after every sample.
    pub fn pass(&mut self, rules: &Ruleset, history: &LoadHistory) -> Vec<HotspotEvent> {
        let Some(measured) = history.newest_interval() else {
            return Vec::new();
        };
        let at = measured.end();
        let mut events = Vec::new();
        for (name, shard) in history.shards() {
            let entries = self.shards.remove(name).unwrap_or_default();
            let mut round = ShardPass {
                at,
                measured,
                rules,
                history,
                name,
                shard,
                variables: shard_variables(history, shard),
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
        // Shards that are no longer in the history.
        let gone: Vec<_> = self
            .shards
            .keys()
            .filter(|name| history.shard(name).is_none())
            .cloned()
            .collect();
        for name in gone {
            for ((rule, subject), entry) in self.shards.remove(&name).unwrap_or_default() {
                events.extend(gone_event(at, rule, subject, &entry));
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
                    RuleState::Firing { since, fired, .. } => (since, fired, false),
                    RuleState::Clearing { since, fired, .. } => (since, fired, true),
                    RuleState::Quiet { .. } | RuleState::Pending { .. } => return None,
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

    /// The subject on which a rule has been pending longest, and how long.
    pub(crate) fn longest_pending(&self, rule: &Arc<str>) -> Option<(HotspotSubject, u64)> {
        let entries = self.shards.values().flatten();
        let pending = entries.filter_map(|((name, subject), entry)| match entry.state {
            RuleState::Pending { held, .. } if name == rule => Some((subject, held.ms)),
            _ => None,
        });
        let (subject, ms) = pending.max_by_key(|(_, ms)| *ms)?;
        Some((subject.clone(), ms))
    }

    /// The subjects of a shard on which a rule is not quiet.
    pub(super) fn subjects_not_quiet(
        &self,
        rule: &Arc<str>,
        shard: &ShardId,
    ) -> Vec<HotspotSubject> {
        let entries = self.shards.get(shard).into_iter().flatten();
        let loud = entries.filter(|((name, _), entry)| {
            name == rule && !matches!(entry.state, RuleState::Quiet { .. })
        });
        loud.map(|((_, subject), _)| subject.clone()).collect()
    }

    /// The state of a rule on a subject.
    #[must_use]
    pub fn state(&self, rule: &Arc<str>, subject: &HotspotSubject) -> RuleState {
        let entries = self.shards.get(subject.shard());
        let key = (Arc::clone(rule), subject.clone());
        entries
            .and_then(|entries| entries.get(&key))
            .map_or(RuleState::QUIET, |entry| entry.state)
    }
}

/// The pass over one shard.
struct ShardPass<'a> {
    at: Timestamp,
    measured: Interval,
    rules: &'a Ruleset,
    history: &'a LoadHistory,
    name: &'a ShardId,
    shard: &'a ShardHistory,
    variables: ShardVariables,
    entries: BTreeMap<EntryKey, Entry>,
    judged: BTreeSet<EntryKey>,
    events: &'a mut Vec<HotspotEvent>,
}

impl ShardPass<'_> {
    fn run(&mut self) {
        let rules = self.rules;
        let about = |kind| rules.rules.iter().filter(move |rule| rule.subject == kind);
        for rule in about(SubjectKind::Shard) {
            let shard = self.name;
            let subject = || HotspotSubject::Shard {
                shard: shard.clone(),
            };
            let known = |var: Variable| self.variables.value(var);
            let verdict = RuleJudgement::new(rule, &known, !self.entries.is_empty());
            self.step(rule, verdict, &subject);
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

    fn slices(&mut self, rules: &[&HotspotRule]) {
        let (history, shard, name) = (self.history, self.shard, self.name);
        let (Some(short), long) = (self.variables.short.clone(), self.variables.long.clone())
        else {
            return;
        };
        for (slice, now) in history.slices(shard, Window::Short, &short) {
            let before = OnceCell::new();
            for rule in rules {
                let known = |var: Variable| match (var.what.subject(), var.window) {
                    (SubjectKind::Shard, _) => self.variables.value(var),
                    (_, Window::Short) => slice_value(&now, &short, var.what),
                    (_, Window::Long) => {
                        let long = long.as_ref()?;
                        let view =
                            before.get_or_init(|| history.slice(shard, slice, Window::Long, long));
                        slice_value(&view.unwrap_or_default(), long, var.what)
                    }
                };
                let verdict = RuleJudgement::new(rule, &known, !self.entries.is_empty());
                let subject = || slice_subject(name, slice);
                self.step(rule, verdict, &subject);
            }
        }
    }

    fn items(&mut self, rules: &[&HotspotRule]) {
        let (Some(short), long) = (&self.variables.short, &self.variables.long) else {
            return;
        };
        let now = self.history.items(self.shard, Window::Short, short);
        let before: BTreeMap<_, ItemWindow> = match long {
            Some(long) => {
                let items = self
                    .history
                    .items(self.shard, Window::Long, long)
                    .into_iter();
                items.map(|item| (item.name.clone(), item)).collect()
            }
            None => BTreeMap::new(),
        };
        let shard = self.name;
        for item in now {
            for rule in rules {
                let known = |var: Variable| match (var.what.subject(), var.window) {
                    (SubjectKind::Shard, _) => self.variables.value(var),
                    (_, Window::Short) => item_value(&item, var.what),
                    (_, Window::Long) => item_value(before.get(&item.name)?, var.what),
                };
                let verdict = RuleJudgement::new(rule, &known, !self.entries.is_empty());
                let subject = || HotspotSubject::Item {
                    shard: shard.clone(),
                    item: item.name.clone(),
                };
                self.step(rule, verdict, &subject);
            }
        }
    }

    /// Steps the state machine of one rule on one subject. Nearly all of a million are quiet
    /// and stay so, so this case is cheap.
    fn step(
        &mut self,
        rule: &HotspotRule,
        verdict: RuleJudgement,
        subject: &dyn Fn() -> HotspotSubject,
    ) {
        if verdict.when != Truth::True && self.entries.is_empty() {
            return;
        }
        let key = (Arc::clone(&rule.name), subject());
        let before = self
            .entries
            .get(&key)
            .map_or(RuleState::QUIET, |entry| entry.state);
        let timing = Timing::for_rule(rule, self.rules.spans.step_ms);
        let (state, change) = apply(before, self.measured, verdict.when, verdict.over, &timing);
        if state == RuleState::QUIET && before == RuleState::QUIET {
            self.judged.insert(key);
            return;
        }
        let readings = self.readings(&verdict);
        if state == RuleState::QUIET {
            self.entries.remove(&key);
        } else {
            let entry = self
                .entries
                .entry(key.clone())
                .or_insert_with(|| Entry::new(state));
            entry.state = state;
            entry.now.clone_from(&readings);
            if change == Some(HotspotTransition::Fired) {
                entry.fired.clone_from(&readings);
            }
        }
        if let Some(change) = change {
            let (rule, subject) = key.clone();
            let (at, evidence) = (self.at, readings);
            self.events.push(HotspotEvent {
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

    fn readings(&self, verdict: &RuleJudgement) -> Vec<Reading> {
        let length = |window| self.rules.spans.length_ms(window);
        let values = verdict.values.iter();
        values
            .map(|(var, value)| Reading::new(*var, *value, length(var.window)))
            .collect()
    }

    /// Handles entries that were not evaluated: their subject is gone if the shard was
    /// measured, unknown otherwise.
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
            if self.variables.short.is_some() {
                self.drop(key);
                continue;
            }
            let timing = Timing::for_rule(rule, self.rules.spans.step_ms);
            if let Some(entry) = self.entries.get_mut(&key) {
                let unknown = Truth::Unknown;
                (entry.state, _) = apply(entry.state, self.measured, unknown, unknown, &timing);
            }
        }
    }

    fn drop(&mut self, key: EntryKey) {
        let Some(entry) = self.entries.remove(&key) else {
            return;
        };
        // A cooldown outlives its subject, which may come back.
        if let RuleState::Quiet { until: Some(until) } = entry.state
            && self.at < until
            && self.rules.rule(&key.0).is_some()
        {
            self.entries.insert(key, entry);
            return;
        }
        let (rule, subject) = key;
        self.events
            .extend(gone_event(self.at, rule, subject, &entry));
    }
}

/// The variables of a shard; all unknown if it is not in the newest sample.
fn shard_variables(history: &LoadHistory, shard: &ShardHistory) -> ShardVariables {
    let view = |window| {
        history
            .view(shard, window)
            .filter(|_| history.is_fresh(shard))
    };
    ShardVariables::new(view(Window::Short), view(Window::Long), shard.slice_count())
}

fn slice_subject(shard: &ShardId, slice: &SliceId) -> HotspotSubject {
    HotspotSubject::Slice {
        shard: shard.clone(),
        slice: slice.clone(),
    }
}

fn gone_event(
    at: Timestamp,
    rule: Arc<str>,
    subject: HotspotSubject,
    entry: &Entry,
) -> Option<HotspotEvent> {
    let evidence = entry.now.clone();
    let was_something = !matches!(entry.state, RuleState::Quiet { .. });
    was_something.then_some(HotspotEvent {
        at,
        rule,
        subject,
        change: HotspotTransition::Gone,
        since: entry.state.since(),
        held_ms: entry.state.held_ms(),
        evidence,
    })
}

/// The evaluation of a rule on a subject, and its readings.
struct RuleJudgement {
    when: Truth,
    over: Truth,
    values: Vec<(Variable, Option<f64>)>,
}

impl RuleJudgement {
    /// `in_full`: also evaluate and record the readings if the condition does not hold, because
    /// a hotspot may be ending.
    fn new(rule: &HotspotRule, known: &impl Fn(Variable) -> Option<f64>, in_full: bool) -> Self {
        let when = rule.when.evaluate(known);
        if when != Truth::True && !in_full {
            let values = Vec::new();
            return Self {
                when,
                over: Truth::Unknown,
                values,
            };
        }
        let clear = rule.clear.as_ref().map(|clear| clear.evaluate(known));
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
