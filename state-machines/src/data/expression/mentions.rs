//! The variables, functions and fields that an expression mentions, collected once
//! from its syntax tree.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jsonata_core::ast::{AstNode, BinaryOp, PathStep, Stage, UnaryOp};
use serde_json::Value;

use super::StatesField;
use crate::data::EvaluationScope;

/// The names in an expression.
#[derive(Debug, Clone, Default)]
pub(super) struct Mentions {
    /// `$name`, bound or not.
    variables: BTreeSet<String>,
    /// `$name :=`, `function($name)`, `@$name`, `#$name`.
    bound: BTreeSet<String>,
    /// `$name(…)`
    functions: BTreeSet<String>,
    /// `$states.name`
    states: BTreeSet<String>,
    /// Whether `$states` is used in any other way.
    states_whole: bool,
    /// Whether the result may contain computed numbers.
    computes: bool,
}

/// Functions whose results contain computed numbers.
const COMPUTING: [&str; 14] = [
    "abs",
    "average",
    "ceil",
    "floor",
    "formatBase",
    "length",
    "millis",
    "number",
    "parseInteger",
    "power",
    "round",
    "sqrt",
    "sum",
    "toMillis",
];

impl Mentions {
    pub(super) fn from_tree(tree: &AstNode) -> Self {
        let mut mentions = Self::default();
        mentions.visit(tree);
        mentions
    }

    pub(super) fn mentions_variable(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    pub(super) fn calls(&self, function: &str) -> bool {
        self.functions.contains(function)
    }

    /// Whether a function is called or passed by name.
    pub(super) fn uses(&self, function: &str) -> bool {
        self.calls(function) || self.mentions_variable(function)
    }

    pub(super) fn reads(&self, field: StatesField) -> bool {
        self.states.contains(field.name())
    }

    /// Whether the evaluation needs the field.
    pub(super) fn needs(&self, field: StatesField) -> bool {
        self.states_whole || self.reads(field)
    }

    pub(super) fn computes(&self) -> bool {
        self.computes
    }

    pub(super) fn free_variables(&self) -> impl Iterator<Item = &str> {
        self.variables
            .difference(&self.bound)
            .map(String::as_str)
            .filter(|name| !name.is_empty() && *name != "states")
    }

    fn visit(&mut self, node: &AstNode) {
        match node {
            AstNode::Variable(name) => {
                // A function may be passed by name.
                self.computes |= COMPUTING.contains(&name.as_str());
                self.variables.insert(name.clone());
                self.states_whole |= name == "states";
            }
            AstNode::Path { steps } => self.visit_path(steps),
            AstNode::Binary { op, lhs, rhs } => self.visit_binary(*op, lhs, rhs),
            AstNode::Unary { op, operand } => {
                self.computes |= *op == UnaryOp::Negate;
                self.visit(operand);
            }
            AstNode::Function { name, args, .. } => {
                self.computes |= COMPUTING.contains(&name.as_str());
                self.functions.insert(name.clone());
                self.visit_all(args);
            }
            AstNode::Call { procedure, args } => {
                self.visit(procedure);
                self.visit_all(args);
            }
            AstNode::Lambda { params, body, .. } => {
                self.bound.extend(params.iter().cloned());
                self.visit(body);
            }
            AstNode::Array(items) | AstNode::Block(items) | AstNode::ArrayGroup(items) => {
                self.visit_all(items);
            }
            AstNode::Object(pairs) => self.visit_pairs(pairs),
            AstNode::ObjectTransform { input, pattern } => {
                self.visit(input);
                self.visit_pairs(pattern);
            }
            AstNode::Conditional {
                condition,
                then_branch,
                else_branch,
            } => {
                self.visit(condition);
                self.visit(then_branch);
                else_branch.iter().for_each(|branch| self.visit(branch));
            }
            AstNode::FunctionApplication(inner) => self.visit(inner),
            AstNode::Sort { input, terms } => {
                self.visit(input);
                terms.iter().for_each(|(term, _)| self.visit(term));
            }
            AstNode::Transform {
                location,
                update,
                delete,
            } => {
                self.visit(location);
                self.visit(update);
                delete.iter().for_each(|delete| self.visit(delete));
            }
            AstNode::String(_) | AstNode::Name(_) | AstNode::Number(_) | AstNode::Boolean(_) => {}
            AstNode::Null | AstNode::Undefined | AstNode::Placeholder => {}
            AstNode::Regex { .. } | AstNode::ParentVariable(_) => {}
            AstNode::Wildcard | AstNode::Descendant | AstNode::Parent(_) => {}
        }
    }

    fn visit_all(&mut self, nodes: &[AstNode]) {
        nodes.iter().for_each(|node| self.visit(node));
    }

    fn visit_pairs(&mut self, pairs: &[(AstNode, AstNode)]) {
        for (name, value) in pairs {
            self.visit(name);
            self.visit(value);
        }
    }

    fn visit_path(&mut self, steps: &[PathStep]) {
        let mut rest = steps;
        if let [first, second, ..] = steps
            && let (AstNode::Variable(name), AstNode::Name(field)) = (&first.node, &second.node)
            && name == "states"
            && first.stages.is_empty()
        {
            self.variables.insert(name.clone());
            self.states.insert(field.clone());
            rest = &steps[1..];
        }
        for step in rest {
            self.visit(&step.node);
        }
        for step in steps {
            self.bound.extend(step.focus.iter().cloned());
            self.bound.extend(step.index_var.iter().cloned());
            for stage in &step.stages {
                match stage {
                    Stage::Filter(test) => self.visit(test),
                    Stage::Index(name) => {
                        self.bound.insert(name.clone());
                    }
                    Stage::KeepArray => {}
                }
            }
        }
    }

    fn visit_binary(&mut self, op: BinaryOp, lhs: &AstNode, rhs: &AstNode) {
        self.computes |= matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Subtract
                | BinaryOp::Multiply
                | BinaryOp::Divide
                | BinaryOp::Modulo
                | BinaryOp::Range
        );
        match (op, lhs) {
            (BinaryOp::ColonEqual, AstNode::Variable(name)) => {
                self.bound.insert(name.clone());
            }
            _ => self.visit(lhs),
        }
        self.visit(rhs);
    }
}

/// An expression that is only a path to a field, such as `$states.input.order.id`. It
/// needs no evaluator, and its numbers stay exact.
#[derive(Debug, Clone)]
pub(super) struct DirectPath {
    variable: String,
    names: Vec<String>,
}

impl DirectPath {
    pub(super) fn from_tree(tree: &AstNode) -> Option<Self> {
        if let AstNode::Variable(variable) = tree {
            let names = Vec::new();
            return (!matches!(variable.as_str(), "" | "states")).then(|| Self {
                variable: variable.clone(),
                names,
            });
        }
        let AstNode::Path { steps } = tree else {
            return None;
        };
        let plain = steps.iter().all(|step| {
            step.stages.is_empty()
                && step.focus.is_none()
                && step.index_var.is_none()
                && step.ancestor_label.is_none()
                && !step.is_tuple
        });
        let (first, rest) = steps.split_first().filter(|_| plain)?;
        let AstNode::Variable(variable) = &first.node else {
            return None;
        };
        let names: Option<Vec<String>> = rest
            .iter()
            .map(|step| match &step.node {
                AstNode::Name(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let usable = !matches!((variable.as_str(), rest), ("", _) | ("states", []));
        usable.then_some(Self {
            variable: variable.clone(),
            names: names?,
        })
    }

    /// Evaluates the path. `None` if it needs a JSONata evaluator, because the path leads
    /// through an array or may name a function; `Some(None)` if the result is undefined.
    pub(super) fn find<'a>(&self, scope: &EvaluationScope<'a>) -> Option<Option<Cow<'a, Value>>> {
        let (start, names) = if self.variable == "states" {
            let (field, rest) = self.names.split_first()?;
            let field = StatesField::ALL
                .into_iter()
                .find(|known| known.name() == field)?;
            (field.value_in(scope), rest)
        } else {
            (Some(scope.variables.get(&self.variable)?), &self.names[..])
        };
        let Some(mut value) = start else {
            return Some(None);
        };
        for name in names {
            value = match value {
                Value::Object(fields) => match fields.get(name) {
                    Some(value) => value,
                    None => return Some(None),
                },
                Value::Array(_) => return None,
                _ => return Some(None),
            };
        }
        Some(Some(Cow::Borrowed(value)))
    }
}
