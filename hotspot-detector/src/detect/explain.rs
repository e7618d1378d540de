//! Why something is no hotspot, or is one: where every rule stands on a subject.

use std::sync::Arc;

use ballast_domain::ShardId;

use super::hotspot::Reading;
use super::pass::Detector;
use super::scene::{ShardScene, item_value, slice_value};
use super::state::State;
use super::subject::Subject;
use crate::load::{Book, Window};
use crate::rules::vars::Var;
use crate::rules::{Rule, Ruleset, SubjectKind, Truth};
use crate::words::duration;

/// Where a rule stands on a subject, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The rule.
    pub rule: Arc<str>,
    /// Where it stands.
    pub state: State,
    /// What its condition says now.
    pub when: Truth,
    /// The numbers it looks at.
    pub readings: Vec<Reading>,
    /// All of it in a sentence.
    pub words: String,
}

/// Where every rule that is about such subjects stands on this one.
#[must_use]
pub fn explain(
    rules: &Ruleset,
    book: &Book,
    detector: &Detector,
    subject: &Subject,
) -> Vec<Standing> {
    let kind = match subject {
        Subject::Shard { .. } => SubjectKind::Shard,
        Subject::Slice { .. } => SubjectKind::Tenant,
        Subject::Item { .. } => SubjectKind::Item,
    };
    let about = rules.rules.iter().filter(|rule| rule.subject == kind);
    about
        .map(|rule| {
            let readings: Vec<_> = values(book, subject, rule.when.vars())
                .into_iter()
                .map(|(var, value)| Reading::new(var, value, rules.spans.length_ms(var.window)))
                .collect();
            let known = |var: Var| {
                let name = var.name();
                let reading = readings.iter().find(|reading| reading.name == name);
                reading.and_then(|reading| reading.value)
            };
            let when = rule.when.judge(&known);
            let state = detector.state(&rule.name, subject);
            Standing {
                rule: Arc::clone(&rule.name),
                state,
                when,
                words: words(rule, state, when, &readings),
                readings,
            }
        })
        .collect()
}

/// Subjects of a rule on a shard that are told, at the most.
const TOLD_MAX: usize = 3;

/// Where every rule stands on a shard and on what is on it: of rules about
/// tenants and items those on which one is not quiet, or else the one that uses
/// most. A rule for which there is nothing on the shard is left out.
#[must_use]
pub fn explain_shard(
    rules: &Ruleset,
    book: &Book,
    detector: &Detector,
    shard: &ShardId,
) -> Vec<(Subject, Standing)> {
    let mut told = Vec::new();
    for rule in &rules.rules {
        let mut subjects = detector.not_quiet(&rule.name, shard);
        subjects.truncate(TOLD_MAX);
        if subjects.is_empty() {
            subjects.extend(busiest(book, shard, rule.subject));
        }
        for subject in subjects {
            let standings = explain(rules, book, detector, &subject);
            let mine = standings.into_iter().find(|it| it.rule == rule.name);
            told.extend(mine.map(|standing| (subject, standing)));
        }
    }
    told
}

/// What uses most of a shard, of a kind.
fn busiest(book: &Book, name: &ShardId, kind: SubjectKind) -> Option<Subject> {
    let shard = name.clone();
    if kind == SubjectKind::Shard {
        return Some(Subject::Shard { shard });
    }
    let known = book.shard(name)?;
    let view = book.view(known, Window::Short)?;
    if kind == SubjectKind::Item {
        // The most voted on comes first.
        let item = book.items(known, Window::Short, &view).into_iter().next()?;
        let item = item.name;
        return Some(Subject::Item { shard, item });
    }
    let slices = book.slices(known, Window::Short, &view);
    let shares = slices.map(|(slice, used)| (slice, used.share_of_use(&view)));
    let (slice, _) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let slice = slice.clone();
    Some(Subject::Slice { shard, slice })
}

fn words(rule: &Rule, state: State, when: Truth, readings: &[Reading]) -> String {
    let numbers: Vec<_> = readings
        .iter()
        .map(|reading| format!("{} is {}", reading.name, reading.shown))
        .collect();
    let numbers = numbers.join(", ");
    let condition = rule.when.text();
    match (state, when) {
        (State::Quiet { until: Some(until) }, Truth::True) => {
            format!("it holds ({numbers}), but was raised before and rests until {until}")
        }
        (State::Quiet { .. }, Truth::Unknown) => {
            format!("it cannot be told ({numbers}); a gap is no hotspot")
        }
        // Nobody has looked since it began, or nobody looks at all.
        (State::Quiet { .. }, Truth::True) => {
            format!("it holds now ({numbers}), and has not been judged since it does")
        }
        (State::Quiet { .. }, Truth::False) => format!("{condition} does not hold: {numbers}"),
        (State::Pending { held, .. }, _) => {
            let (held, needed) = (duration(held.ms as f64), duration(rule.for_ms as f64));
            format!("it has held for {held} of the {needed} it must: {numbers}")
        }
        (State::Firing { since, .. }, Truth::Unknown) => {
            format!("it is a hotspot since {since}, and cannot be told now: {numbers}")
        }
        (State::Firing { since, .. }, _) => format!("it is a hotspot since {since}: {numbers}"),
        (State::Clearing { held, .. }, _) => {
            let (held, needed) = (duration(held.ms as f64), duration(rule.clear_for_ms as f64));
            format!("it looks over for {held} of the {needed} it must: {numbers}")
        }
    }
}

/// The values of variables for one subject.
fn values(book: &Book, subject: &Subject, vars: &[Var]) -> Vec<(Var, Option<f64>)> {
    let Some(shard) = book.shard(subject.shard()) else {
        return vars.iter().map(|var| (*var, None)).collect();
    };
    let scene = ShardScene::new(
        book.view(shard, Window::Short),
        book.view(shard, Window::Long),
        shard.slice_count(),
    );
    let value = |var: Var| {
        if var.what.subject() == SubjectKind::Shard {
            return scene.value(var);
        }
        let measured = scene.view(var.window)?;
        match subject {
            Subject::Shard { .. } => None,
            Subject::Slice { slice, .. } => {
                let slice = book.slice(shard, slice, var.window, measured)?;
                slice_value(&slice, measured, var.what)
            }
            Subject::Item { item, .. } => {
                let items = book.items(shard, var.window, measured);
                let item = items.iter().find(|view| view.name == *item)?;
                item_value(item, var.what)
            }
        }
    };
    vars.iter().map(|var| (*var, value(*var))).collect()
}
