//! A machine: its states, and whether each is reachable and can reach an end.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};
use serde_json::Value;

use super::object::JsonObject;
use super::{DefinitionReader, suggest};
use crate::language::graph::reach;
use crate::language::model::{Machine, State};
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// After this many problems, no similar state names are suggested any more.
const HINTS_MAX: usize = 20;

/// The transitions of one machine, as far as they are valid.
#[derive(Debug, Default)]
pub(super) struct MachineFlow {
    /// Source state, location and target state of each transition.
    steps: Vec<(String, Pointer, String)>,
    /// The states that end the machine.
    ends: Vec<String>,
    /// Whether a transition is invalid: then reachability is unknown and is not
    /// checked.
    broken: bool,
}

impl MachineFlow {
    pub(super) fn add_transition(&mut self, from: &str, at: Pointer, to: &str) {
        self.steps.push((from.to_owned(), at, to.to_owned()));
    }

    pub(super) fn add_end(&mut self, state: &str) {
        self.ends.push(state.to_owned());
    }

    pub(super) fn mark_unreadable(&mut self) {
        self.broken = true;
    }
}

impl DefinitionReader {
    /// The states of a definition, a branch or a processor.
    pub(super) fn read_machine(&mut self, object: &JsonObject<'_>) -> Option<Machine> {
        self.require_field(object, "StartAt");
        self.require_field(object, "States");
        let start_at = self.read_text(object, "StartAt");
        let states = self.read_object(object, "States")?;
        if states.fields.is_empty() {
            let message = "\"States\" is empty, and must hold at least one state";
            self.report(&states.at, ProblemCode::Empty, message);
            return None;
        }
        let mut flow = MachineFlow::default();
        let read: Vec<Option<State>> = states
            .fields
            .iter()
            .map(|(name, value)| self.read_named_state(&states, name, value, &mut flow))
            .collect();
        self.check_flow(object, &states, start_at, &flow);
        Some(Machine::new(
            start_at?.to_owned(),
            read.into_iter().collect::<Option<Vec<State>>>()?,
        ))
    }

    fn read_named_state(
        &mut self,
        states: &JsonObject<'_>,
        name: &str,
        value: &Value,
        flow: &mut MachineFlow,
    ) -> Option<State> {
        let at = states.pointer_to(name);
        self.check_state_name(name, &at);
        let Some(object) = self.as_object(at, value) else {
            flow.mark_unreadable();
            return None;
        };
        self.read_state(name, &object, flow)
    }

    /// Checks that every transition has a target, every state is reachable, and there
    /// is an end.
    fn check_flow(
        &mut self,
        machine: &JsonObject<'_>,
        states: &JsonObject<'_>,
        start_at: Option<&str>,
        flow: &MachineFlow,
    ) {
        let mut known = true;
        let start = start_at.map(|name| (machine.pointer_to("StartAt"), name));
        let steps = flow
            .steps
            .iter()
            .map(|(_, at, to)| (at.clone(), to.as_str()));
        for (at, target) in start.into_iter().chain(steps) {
            if !states.has(target) {
                known = false;
                let hint = self.suggest_state(target, states);
                let message = format!("no state named {target:?}{hint}");
                self.report(&at, ProblemCode::UnknownTarget, message);
            }
        }
        let Some(start_at) = start_at.filter(|_| known && !flow.broken) else {
            return;
        };
        if flow.ends.is_empty() {
            let message =
                "this machine never ends; add \"End\": true to a state, or a Succeed or Fail state";
            self.report(&states.at, ProblemCode::NoEnd, message);
            return;
        }
        self.check_reach(states, start_at, flow);
    }

    /// Suggests a similar state name. The search is slow with many states, and few
    /// users read beyond the first problems.
    fn suggest_state(&self, target: &str, states: &JsonObject<'_>) -> String {
        if self.problems.len() > HINTS_MAX {
            return String::new();
        }
        suggest::suggest_name(target, states.fields.keys().map(String::as_str))
    }

    fn check_reach(&mut self, states: &JsonObject<'_>, start_at: &str, flow: &MachineFlow) {
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
        let reached = reach::reachable_from(&graph, node(start_at));
        let ending = reach::nodes_reaching(&graph, flow.ends.iter().filter_map(|name| node(name)));
        for index in graph.node_indices() {
            let Some(name) = graph.node_weight(index) else {
                continue;
            };
            if !reached.contains(&index) {
                let message = format!(
                    "no transition leads to {name:?}; use it in a Next, Default or Catch, or remove it"
                );
                self.report(&states.pointer_to(name), ProblemCode::Unreachable, message);
            } else if !ending.contains(&index) {
                let message = format!("{name:?} cannot reach an end");
                self.report(&states.pointer_to(name), ProblemCode::NoWayOut, message);
            }
        }
    }
}
