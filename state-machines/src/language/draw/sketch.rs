//! What all drawings show: states, arrows between them, machines within them;
//! folded states are gone, and arrows go through where they were.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mark, Marks};
use crate::language::graph::Edge;
use crate::language::graph::build::transitions;
use crate::language::model::{Definition, Kind, Machine, Next, State};

/// How many labels an arrow through folded states has; further ones are left
/// out.
const LABELS_MAX: usize = 6;

/// A machine, ready to be drawn.
#[derive(Debug)]
pub(super) struct Sketch {
    /// Its number: 0 for the definition.
    pub(super) number: usize,
    /// What it is called, if it is within a state.
    pub(super) title: String,
    /// How it begins: more than one way if its first state is folded.
    pub(super) entry: Vec<Arrow>,
    pub(super) nodes: Vec<Node>,
}

/// A state.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) mark: Option<Mark>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) inner: Vec<Sketch>,
}

/// A way from a state to another, or to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) label: String,
    pub(super) way: Way,
    pub(super) to: Target,
}

/// Why an arrow is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// `Next`, or the default of a Choice.
    Onward,
    /// A rule of a Choice.
    Choice,
    /// An error was caught.
    Catch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Node(usize),
    End,
}

impl Sketch {
    pub(super) fn of(definition: &Definition, marks: &Marks) -> Self {
        let mut ids = BTreeMap::new();
        number(definition.machine(), &mut ids);
        let mut sketching = Sketching {
            ids,
            marks,
            machines: 0,
        };
        sketching.machine(definition.machine(), String::new())
    }

    /// Whether something leads to its end.
    pub(super) fn has_end(&self) -> bool {
        let arrows = self.nodes.iter().flat_map(|node| &node.arrows);
        arrows
            .chain(&self.entry)
            .any(|arrow| arrow.to == Target::End)
    }

    /// Its nodes, and those of all machines within it.
    pub(super) fn all_nodes(&self) -> Vec<&Node> {
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

/// Gives each state a number, in the order of writing. Folding does not change
/// it.
fn number<'a>(machine: &'a Machine, ids: &mut BTreeMap<&'a str, usize>) {
    for state in machine.states() {
        ids.insert(&state.name, ids.len());
        for inner in state.machines() {
            number(inner, ids);
        }
    }
}

struct Sketching<'a> {
    ids: BTreeMap<&'a str, usize>,
    marks: &'a Marks,
    machines: usize,
}

impl Sketching<'_> {
    fn machine(&mut self, machine: &Machine, title: String) -> Sketch {
        let number = self.machines;
        self.machines += 1;
        let start = Step {
            labels: Vec::new(),
            way: Way::Onward,
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

    fn node(&mut self, machine: &Machine, state: &State) -> Node {
        let arrows = self.arrows(machine, steps(state));
        let mut inner = Vec::new();
        for (index, branch) in state.machines().iter().enumerate() {
            let title = match state.kind {
                Kind::Map(_) => format!("{}: each item", state.name),
                _ => format!("{}: branch {}", state.name, index + 1),
            };
            inner.push(self.machine(branch, title));
        }
        Node {
            id: self.id(&state.name),
            name: state.name.clone(),
            kind: state.kind.as_str(),
            mark: self.marks.of(&state.name),
            arrows,
            inner,
        }
    }

    fn id(&self, name: &str) -> usize {
        self.ids.get(name).copied().unwrap_or_default()
    }

    fn is_folded(&self, name: &str) -> bool {
        // Where an execution stands is what a drawing is looked at for.
        self.marks.folded.contains(name)
            && !self.marks.current.contains(name)
            && !self.marks.failed.contains(name)
            && !self.marks.stopped.contains(name)
    }

    /// Follows steps through folded states to those that are drawn. A folded
    /// state is gone through once from where it is come from, so that cycles
    /// and ways that part and meet come to an end.
    fn arrows<'m>(&self, machine: &'m Machine, steps: Vec<Step<'m>>) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        let mut through = BTreeSet::new();
        let mut open = steps;
        open.reverse();
        while let Some(step) = open.pop() {
            // Nobody knows yet where a substitution will lead to.
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
                        .map_or(Target::End, |name| Target::Node(self.id(name))),
                };
                if !arrows.contains(&arrow) {
                    arrows.push(arrow);
                }
                continue;
            };
            if !through.insert(folded.name.as_str()) {
                continue;
            }
            let mut onward = self::steps(folded);
            if onward.is_empty() {
                onward.push(Step::end());
            }
            for next in onward.into_iter().rev() {
                open.push(step.followed_by(&folded.name, next));
            }
        }
        arrows
    }
}

/// A step on the way to a state that is drawn; to the end if to none.
#[derive(Debug, Clone)]
struct Step<'a> {
    labels: Vec<String>,
    way: Way,
    to: Option<&'a str>,
}

impl<'a> Step<'a> {
    fn end() -> Self {
        Self {
            labels: Vec::new(),
            way: Way::Onward,
            to: None,
        }
    }

    fn followed_by<'m>(&self, folded: &str, next: Step<'m>) -> Step<'m> {
        let mut labels = self.labels.clone();
        if labels.len() < LABELS_MAX {
            labels.push(folded.to_owned());
            labels.extend(next.labels);
            if labels.len() >= LABELS_MAX {
                labels.push("…".to_owned());
            }
        }
        Step {
            labels,
            way: self.way.max(next.way),
            to: next.to,
        }
    }
}

/// The steps from a state; none if it ends by what it is.
fn steps(state: &State) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = transitions(state)
        .into_iter()
        .map(|(edge, to)| {
            let (label, way) = match edge {
                Edge::Choice(_, words) => (Some(words), Way::Choice),
                Edge::Default => (Some("otherwise".to_owned()), Way::Onward),
                Edge::Catch(_, errors) => (Some(format!("on {}", errors.join(", "))), Way::Catch),
                Edge::Next | Edge::Branch(_) | Edge::Item => (None, Way::Onward),
            };
            Step {
                labels: label.into_iter().collect(),
                way,
                to: Some(to),
            }
        })
        .collect();
    if state.next() == Some(&Next::End) {
        steps.push(Step::end());
    }
    steps
}
