//! A machine: its states, and whether each can be reached and can end.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};
use serde_json::Value;

use super::object::Object;
use super::{Reader, suggest};
use crate::language::graph::reach;
use crate::language::model::{Machine, State};
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// After how many problems no state is looked for that was meant.
const HINTS_MAX: usize = 20;

/// The transitions of one machine, as far as they could be read.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// From a state to another, and where that is written.
    steps: Vec<(String, Pointer, String)>,
    /// The states that end the machine.
    ends: Vec<String>,
    /// Whether some transition could not be read: then what can be reached is
    /// not known, and to complain of it would be noise.
    broken: bool,
}

impl Flow {
    pub(super) fn step(&mut self, from: &str, at: Pointer, to: &str) {
        self.steps.push((from.to_owned(), at, to.to_owned()));
    }

    pub(super) fn end(&mut self, state: &str) {
        self.ends.push(state.to_owned());
    }

    pub(super) fn broken(&mut self) {
        self.broken = true;
    }
}

impl Reader {
    /// The states of a definition, a branch or a processor.
    pub(super) fn machine(&mut self, object: &Object<'_>) -> Option<Machine> {
        self.required(object, "StartAt");
        self.required(object, "States");
        let start_at = self.text(object, "StartAt");
        let states = self.object(object, "States")?;
        if states.fields.is_empty() {
            let message = "\"States\" is empty, and must hold at least one state";
            self.report(&states.at, Code::Empty, message);
            return None;
        }
        let mut flow = Flow::default();
        let read: Vec<Option<State>> = states
            .fields
            .iter()
            .map(|(name, value)| self.one_state(&states, name, value, &mut flow))
            .collect();
        self.check_flow(object, &states, start_at, &flow);
        Some(Machine::new(
            start_at?.to_owned(),
            read.into_iter().collect::<Option<Vec<State>>>()?,
        ))
    }

    fn one_state(
        &mut self,
        states: &Object<'_>,
        name: &str,
        value: &Value,
        flow: &mut Flow,
    ) -> Option<State> {
        let at = states.at(name);
        self.state_name(name, &at);
        let Some(object) = self.as_object(at, value) else {
            flow.broken();
            return None;
        };
        self.state(name, &object, flow)
    }

    /// Every transition leads to a state, every state is reached, and there
    /// is an end.
    fn check_flow(
        &mut self,
        machine: &Object<'_>,
        states: &Object<'_>,
        start_at: Option<&str>,
        flow: &Flow,
    ) {
        let mut known = true;
        let start = start_at.map(|name| (machine.at("StartAt"), name));
        let steps = flow
            .steps
            .iter()
            .map(|(_, at, to)| (at.clone(), to.as_str()));
        for (at, target) in start.into_iter().chain(steps) {
            if !states.has(target) {
                known = false;
                let hint = self.hint_at_state(target, states);
                let message = format!("no state named {target:?}{hint}");
                self.report(&at, Code::UnknownTarget, message);
            }
        }
        let Some(start_at) = start_at.filter(|_| known && !flow.broken) else {
            return;
        };
        if flow.ends.is_empty() {
            let message =
                "this never ends; give a state \"End\": true, or lead to a Succeed or a Fail";
            self.report(&states.at, Code::NoEnd, message);
            return;
        }
        self.check_reach(states, start_at, flow);
    }

    /// The state that was meant, perhaps. To look for it takes long where
    /// there are many, and after the first problems few are read.
    fn hint_at_state(&self, target: &str, states: &Object<'_>) -> String {
        if self.problems.len() > HINTS_MAX {
            return String::new();
        }
        suggest::hint(target, states.fields.keys().map(String::as_str))
    }

    fn check_reach(&mut self, states: &Object<'_>, start_at: &str, flow: &Flow) {
        let mut graph: DiGraph<&str, ()> = DiGraph::new();
        let nodes: BTreeMap<&str, NodeIndex> = states
            .fields
            .keys()
            .map(|name| (name.as_str(), graph.add_node(name)))
            .collect();
        let node = |name: &str| nodes.get(name).copied();
        for (from, _, to) in &flow.steps {
            if let (Some(from), Some(to)) = (node(from), node(to)) {
                graph.add_edge(from, to, ());
            }
        }
        let reached = reach::forward(&graph, node(start_at));
        let ending = reach::backward(&graph, flow.ends.iter().filter_map(|name| node(name)));
        for index in graph.node_indices() {
            let Some(name) = graph.node_weight(index) else {
                continue;
            };
            if !reached.contains(&index) {
                let message = format!(
                    "nothing leads to {name:?}; name it in a Next, Default or Catch, or remove it"
                );
                self.report(&states.at(name), Code::Unreachable, message);
            } else if !ending.contains(&index) {
                let message = format!("no way leads from {name:?} to an end");
                self.report(&states.at(name), Code::NoWayOut, message);
            }
        }
    }
}
