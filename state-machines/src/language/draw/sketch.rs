//! The common content of all drawings: states, arrows and nested machines. Folded
//! states are removed, and arrows pass through them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mark, Marks};
use crate::language::graph::GraphEdge;
use crate::language::graph::build::transitions;
use crate::language::model::{Definition, Machine, NextState, State, StateKind};

/// The maximum number of labels of an arrow through folded states.
const LABELS_MAX: usize = 6;

/// A machine, prepared for drawing.
#[derive(Debug)]
pub(super) struct Sketch {
    /// Its number: 0 for the definition.
    pub(super) number: usize,
    /// The title, if it is nested in a state.
    pub(super) title: String,
    /// The entry arrows: several if the first state is folded.
    pub(super) entry: Vec<Arrow>,
    pub(super) nodes: Vec<SketchNode>,
}

/// A state.
#[derive(Debug)]
pub(super) struct SketchNode {
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) mark: Option<Mark>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) inner: Vec<Sketch>,
}

/// An arrow to another state, or to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) label: String,
    pub(super) way: ArrowKind,
    pub(super) to: ArrowTarget,
}

/// Why a transition is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowKind {
    /// `Next`, or the default of a Choice.
    Onward,
    /// A rule of a Choice.
    Choice,
    /// An error was caught.
    Catch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrowTarget {
    Node(usize),
    End,
}

impl Sketch {
    pub(super) fn from_definition(definition: &Definition, marks: &Marks) -> Self {
        let mut ids = BTreeMap::new();
        number_states(definition.machine(), &mut ids);
        let mut sketching = SketchBuilder {
            ids,
            marks,
            machines: 0,
        };
        sketching.machine(definition.machine(), String::new())
    }

    /// Whether an arrow leads to its end.
    pub(super) fn has_end(&self) -> bool {
        let arrows = self.nodes.iter().flat_map(|node| &node.arrows);
        arrows
            .chain(&self.entry)
            .any(|arrow| arrow.to == ArrowTarget::End)
    }

    /// Its nodes, and those of all nested machines.
    pub(super) fn all_nodes(&self) -> Vec<&SketchNode> {
        let mut all = Vec::new();
        for node in &self.nodes {
            all.push(node);
            for inner in &node.inner {
                all.extend(inner.all_nodes());
            }
        }
        all
    }
}

/// Numbers the states in the order of the definition, independent of folding.
fn number_states<'a>(machine: &'a Machine, ids: &mut BTreeMap<&'a str, usize>) {
    for state in machine.states() {
        ids.insert(&state.name, ids.len());
        for inner in state.machines() {
            number_states(inner, ids);
        }
    }
}

struct SketchBuilder<'a> {
    ids: BTreeMap<&'a str, usize>,
    marks: &'a Marks,
    machines: usize,
}

impl SketchBuilder<'_> {
    fn machine(&mut self, machine: &Machine, title: String) -> Sketch {
        let number = self.machines;
        self.machines += 1;
        let start = ArrowStep {
            labels: Vec::new(),
            way: ArrowKind::Onward,
            to: Some(machine.start_at()),
        };
        let entry = self.arrows(machine, vec![start]);
        let mut nodes = Vec::new();
        for state in machine.states() {
            if !self.is_folded(&state.name) {
                nodes.push(self.node(machine, state));
            }
        }
        Sketch {
            number,
            title,
            entry,
            nodes,
        }
    }

    fn node(&mut self, machine: &Machine, state: &State) -> SketchNode {
        let arrows = self.arrows(machine, steps_from(state));
        let mut inner = Vec::new();
        for (index, branch) in state.machines().iter().enumerate() {
            let title = match state.kind {
                StateKind::Map(_) => format!("{}: each item", state.name),
                _ => format!("{}: branch {}", state.name, index + 1),
            };
            inner.push(self.machine(branch, title));
        }
        SketchNode {
            id: self.id(&state.name),
            name: state.name.clone(),
            kind: state.kind.as_str(),
            mark: self.marks.find(&state.name),
            arrows,
            inner,
        }
    }

    fn id(&self, name: &str) -> usize {
        self.ids.get(name).copied().unwrap_or_default()
    }

    fn is_folded(&self, name: &str) -> bool {
        // The current position must always be visible.
        self.marks.folded.contains(name)
            && !self.marks.current.contains(name)
            && !self.marks.failed.contains(name)
            && !self.marks.stopped.contains(name)
    }

    /// Follows steps through folded states to drawn ones. Each folded state is visited
    /// at most once per source state, so that cycles end.
    fn arrows<'m>(&self, machine: &'m Machine, steps: Vec<ArrowStep<'m>>) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        let mut through = BTreeSet::new();
        let mut open = steps;
        open.reverse();
        while let Some(step) = open.pop() {
            // The target of an unfilled substitution is unknown.
            if step.to.is_some_and(|name| machine.state(name).is_none()) {
                continue;
            }
            let folded = step
                .to
                .filter(|name| self.is_folded(name))
                .and_then(|name| machine.state(name));
            let Some(folded) = folded else {
                let arrow = Arrow {
                    label: step.labels.join(" · "),
                    way: step.way,
                    to: step
                        .to
                        .map_or(ArrowTarget::End, |name| ArrowTarget::Node(self.id(name))),
                };
                if !arrows.contains(&arrow) {
                    arrows.push(arrow);
                }
                continue;
            };
            if !through.insert(folded.name.as_str()) {
                continue;
            }
            let mut onward = self::steps_from(folded);
            if onward.is_empty() {
                onward.push(ArrowStep::end());
            }
            for next in onward.into_iter().rev() {
                open.push(step.then(&folded.name, next));
            }
        }
        arrows
    }
}

/// A step towards a drawn state, or towards the end if `to` is none.
#[derive(Debug, Clone)]
struct ArrowStep<'a> {
    labels: Vec<String>,
    way: ArrowKind,
    to: Option<&'a str>,
}

impl<'a> ArrowStep<'a> {
    fn end() -> Self {
        Self {
            labels: Vec::new(),
            way: ArrowKind::Onward,
            to: None,
        }
    }

    fn then<'m>(&self, folded: &str, next: ArrowStep<'m>) -> ArrowStep<'m> {
        let mut labels = self.labels.clone();
        if labels.len() < LABELS_MAX {
            labels.push(folded.to_owned());
            labels.extend(next.labels);
            if labels.len() >= LABELS_MAX {
                labels.push("…".to_owned());
            }
        }
        ArrowStep {
            labels,
            way: self.way.max(next.way),
            to: next.to,
        }
    }
}

/// The steps from a state; none for Succeed and Fail.
fn steps_from(state: &State) -> Vec<ArrowStep<'_>> {
    let mut steps: Vec<ArrowStep<'_>> = transitions(state)
        .into_iter()
        .map(|(edge, to)| {
            let (label, way) = match edge {
                GraphEdge::Choice(_, words) => (Some(words), ArrowKind::Choice),
                GraphEdge::Default => (Some("otherwise".to_owned()), ArrowKind::Onward),
                GraphEdge::Catch(_, errors) => {
                    (Some(format!("on {}", errors.join(", "))), ArrowKind::Catch)
                }
                GraphEdge::Next | GraphEdge::Branch(_) | GraphEdge::Item => {
                    (None, ArrowKind::Onward)
                }
            };
            ArrowStep {
                labels: label.into_iter().collect(),
                way,
                to: Some(to),
            }
        })
        .collect();
    if state.next() == Some(&NextState::End) {
        steps.push(ArrowStep::end());
    }
    steps
}
