//! Why a subject is or is not a hotspot: the state of every rule on it.

use std::sync::Arc;

use ballast_domain::ShardId;

use super::hotspot::Reading;
use super::pass::Detector;
use super::state::RuleState;
use super::subject::HotspotSubject;
use super::variables::{ShardVariables, item_value, slice_value};
use crate::format::duration;
use crate::load::{LoadHistory, Window};
use crate::rules::vars::Variable;
use crate::rules::{HotspotRule, Ruleset, SubjectKind, Truth};

/// The state of a rule on a subject, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleExplanation {
    /// The rule.
    pub rule: Arc<str>,
    /// Its state.
    pub state: RuleState,
    /// Whether its condition holds now.
    pub when: Truth,
    /// The values of its variables.
    pub readings: Vec<Reading>,
    /// The explanation as text.
    pub words: String,
}

/// Explains every rule for this kind of subject.
#[must_use]
pub fn explain(
    rules: &Ruleset,
    history: &LoadHistory,
    detector: &Detector,
    subject: &HotspotSubject,
) -> Vec<RuleExplanation> {
    let kind = match subject {
        HotspotSubject::Shard { .. } => SubjectKind::Shard,
        HotspotSubject::Slice { .. } => SubjectKind::Tenant,
        HotspotSubject::Item { .. } => SubjectKind::Item,
    };
    let about = rules.rules.iter().filter(|rule| rule.subject == kind);
    about
        .map(|rule| {
            let readings: Vec<_> = values(history, subject, rule.when.vars())
                .into_iter()
                .map(|(var, value)| Reading::new(var, value, rules.spans.length_ms(var.window)))
                .collect();
            let known = |var: Variable| {
                let name = var.name();
                let reading = readings.iter().find(|reading| reading.name == name);
                reading.and_then(|reading| reading.value)
            };
            let when = rule.when.evaluate(&known);
            let state = detector.state(&rule.name, subject);
            RuleExplanation {
                rule: Arc::clone(&rule.name),
                state,
                when,
                words: words(rule, state, when, &readings),
                readings,
            }
        })
        .collect()
}

/// The most subjects of a rule that are explained per shard.
const SUBJECTS_MAX: usize = 3;

/// Explains every rule for a shard and its subjects. Rules about tenants and items are
/// explained for the subjects on which they are not quiet, or else for the busiest one. A
/// rule without a subject on the shard is left out.
#[must_use]
pub fn explain_shard(
    rules: &Ruleset,
    history: &LoadHistory,
    detector: &Detector,
    shard: &ShardId,
) -> Vec<(HotspotSubject, RuleExplanation)> {
    let mut explained = Vec::new();
    for rule in &rules.rules {
        let mut subjects = detector.subjects_not_quiet(&rule.name, shard);
        subjects.truncate(SUBJECTS_MAX);
        if subjects.is_empty() {
            subjects.extend(busiest(history, shard, rule.subject));
        }
        for subject in subjects {
            let standings = explain(rules, history, detector, &subject);
            let mine = standings.into_iter().find(|it| it.rule == rule.name);
            explained.extend(mine.map(|standing| (subject, standing)));
        }
    }
    explained
}

/// The busiest subject of a kind on a shard.
fn busiest(history: &LoadHistory, name: &ShardId, kind: SubjectKind) -> Option<HotspotSubject> {
    let shard = name.clone();
    if kind == SubjectKind::Shard {
        return Some(HotspotSubject::Shard { shard });
    }
    let known = history.shard(name)?;
    let view = history.view(known, Window::Short)?;
    if kind == SubjectKind::Item {
        // Most votes first.
        let item = history
            .items(known, Window::Short, &view)
            .into_iter()
            .next()?;
        let item = item.name;
        return Some(HotspotSubject::Item { shard, item });
    }
    let slices = history.slices(known, Window::Short, &view);
    let shares = slices.map(|(slice, used)| (slice, used.share_of_use(&view)));
    let (slice, _) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let slice = slice.clone();
    Some(HotspotSubject::Slice { shard, slice })
}

fn words(rule: &HotspotRule, state: RuleState, when: Truth, readings: &[Reading]) -> String {
    let numbers: Vec<_> = readings
        .iter()
        .map(|reading| format!("{} is {}", reading.name, reading.shown))
        .collect();
    let numbers = numbers.join(", ");
    let condition = rule.when.text();
    match (state, when) {
        (RuleState::Quiet { until: Some(until) }, Truth::True) => {
            format!(
                "the condition holds ({numbers}), but the rule is in its cooldown until {until}"
            )
        }
        (RuleState::Quiet { .. }, Truth::Unknown) => {
            format!("unknown, because measurements are missing ({numbers}); a gap is not a hotspot")
        }
        // No pass has run since the condition holds, or detection is off.
        (RuleState::Quiet { .. }, Truth::True) => {
            format!("the condition holds now ({numbers}), but has not been evaluated yet")
        }
        (RuleState::Quiet { .. }, Truth::False) => format!("{condition} does not hold: {numbers}"),
        (RuleState::Pending { held, .. }, _) => {
            let (held, needed) = (duration(held.ms as f64), duration(rule.for_ms as f64));
            format!("the condition has held for {held} of the required {needed}: {numbers}")
        }
        (RuleState::Firing { since, .. }, Truth::Unknown) => {
            format!("hotspot since {since}; current state unknown: {numbers}")
        }
        (RuleState::Firing { since, .. }, _) => format!("hotspot since {since}: {numbers}"),
        (RuleState::Clearing { held, .. }, _) => {
            let (held, needed) = (duration(held.ms as f64), duration(rule.clear_for_ms as f64));
            format!("the hotspot has eased for {held} of the required {needed}: {numbers}")
        }
    }
}

/// The values of variables for one subject.
fn values(
    history: &LoadHistory,
    subject: &HotspotSubject,
    vars: &[Variable],
) -> Vec<(Variable, Option<f64>)> {
    let Some(shard) = history.shard(subject.shard()) else {
        return vars.iter().map(|var| (*var, None)).collect();
    };
    let variables = ShardVariables::new(
        history.view(shard, Window::Short),
        history.view(shard, Window::Long),
        shard.slice_count(),
    );
    let value = |var: Variable| {
        if var.what.subject() == SubjectKind::Shard {
            return variables.value(var);
        }
        let measured = variables.view(var.window)?;
        match subject {
            HotspotSubject::Shard { .. } => None,
            HotspotSubject::Slice { slice, .. } => {
                let slice = history.slice(shard, slice, var.window, measured)?;
                slice_value(&slice, measured, var.what)
            }
            HotspotSubject::Item { item, .. } => {
                let items = history.items(shard, var.window, measured);
                let item = items.iter().find(|view| view.name == *item)?;
                item_value(item, var.what)
            }
        }
    };
    vars.iter().map(|var| (*var, value(*var))).collect()
}
