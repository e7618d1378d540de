//! Payload templates: JSON that contains expressions.

use serde_json::{Map, Value};

use super::expression::EvaluationSession;
use super::{
    EvaluationFault, EvaluationScope, Expression, Path, StatesField, SyntaxError, pointer_to,
};

/// The maximum nesting of a template; the same as for JSON text.
const DEPTH_MAX: usize = 128;

/// A JSON value that contains expressions.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(TemplateNode);

#[derive(Debug, Clone, PartialEq)]
enum TemplateNode {
    /// A part without expressions.
    Fixed(Value),
    Items(Vec<TemplateNode>),
    Fields(Vec<(String, TemplateNode)>),
    Path(Path),
    Expression(Expression),
}

impl Template {
    /// A template with `"name.$"` fields: `Parameters`, `ResultSelector`,
    /// `ItemSelector`, `Assign`. Their values are paths or calls of intrinsic
    /// functions. Two fields that would get the same name are an error.
    pub fn json_path(value: &Value) -> Result<Self, Vec<SyntaxError>> {
        Self::read(value, TemplateLanguage::JsonPath)
    }

    /// A value with `{% … %}` texts: `Arguments`, `Output`, `Assign`.
    pub fn jsonata(value: &Value) -> Result<Self, Vec<SyntaxError>> {
        Self::read(value, TemplateLanguage::Jsonata)
    }

    fn read(value: &Value, language: TemplateLanguage) -> Result<Self, Vec<SyntaxError>> {
        let mut unreadable = Vec::new();
        let node = language.read_node(value, "", 0, &mut unreadable);
        if unreadable.is_empty() {
            Ok(Self(node))
        } else {
            Err(unreadable)
        }
    }

    /// Evaluates the template.
    ///
    /// A path that finds nothing is a `States.Runtime`, as on AWS, although the
    /// specification has another name. A wildcard, a slice or a filter below a missing
    /// field gives `[]`.
    pub fn fill(&self, scope: &EvaluationScope<'_>) -> Result<Value, EvaluationFault> {
        self.0.fill(scope, &EvaluationSession::new(scope), "")
    }

    /// Whether it contains no expressions.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self.0, TemplateNode::Fixed(_))
    }

    /// The locations of expressions that read a field of `$states`, as JSON pointers.
    #[must_use]
    pub fn mentions(&self, field: StatesField) -> Vec<String> {
        let mut places = Vec::new();
        self.0.visit("", &mut |at, node| {
            if matches!(node, TemplateNode::Expression(expression) if expression.mentions(field)) {
                places.push(at.to_owned());
            }
        });
        places
    }

    /// The variables that its expressions read: the location as a JSON pointer, and the
    /// name without `$`.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.0.visit("", &mut |at, node| {
            let names = match node {
                TemplateNode::Path(path) => path.variables(),
                TemplateNode::Expression(expression) => expression.variables(),
                _ => Vec::new(),
            };
            found.extend(
                names
                    .into_iter()
                    .map(|name| (at.to_owned(), name.to_owned())),
            );
        });
        found
    }
}

#[derive(Clone, Copy, PartialEq)]
enum TemplateLanguage {
    JsonPath,
    Jsonata,
}

impl TemplateLanguage {
    fn read_node(
        self,
        value: &Value,
        at: &str,
        depth: usize,
        unreadable: &mut Vec<SyntaxError>,
    ) -> TemplateNode {
        if depth > DEPTH_MAX {
            unreadable.push(
                SyntaxError::new(format!(
                    "the template is nested deeper than {DEPTH_MAX} levels"
                ))
                .prefix_pointer(at),
            );
            return TemplateNode::Fixed(Value::Null);
        }
        match value {
            Value::String(text) if self == Self::Jsonata && Expression::is_marked(text) => {
                match Expression::parse(text) {
                    Ok(expression) => return TemplateNode::Expression(expression),
                    Err(error) => unreadable.push(error.prefix_pointer(at)),
                }
                TemplateNode::Fixed(Value::Null)
            }
            Value::Array(items) => {
                let nodes: Vec<TemplateNode> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        self.read_node(item, &pointer_to(at, index), depth + 1, unreadable)
                    })
                    .collect();
                fixed_or(
                    value,
                    nodes.iter().all(TemplateNode::is_fixed),
                    TemplateNode::Items(nodes),
                )
            }
            Value::Object(fields) => {
                let nodes: Vec<(String, TemplateNode)> = fields
                    .iter()
                    .map(|(name, value)| self.read_field(name, value, at, depth, unreadable))
                    .collect();
                self.report_clashes(&nodes, fields, at, unreadable);
                let fixed = nodes
                    .iter()
                    .all(|(name, node)| node.is_fixed() && fields.contains_key(name));
                fixed_or(value, fixed, TemplateNode::Fields(nodes))
            }
            other => TemplateNode::Fixed(other.clone()),
        }
    }

    fn read_field(
        self,
        name: &str,
        value: &Value,
        at: &str,
        depth: usize,
        unreadable: &mut Vec<SyntaxError>,
    ) -> (String, TemplateNode) {
        let at = pointer_to(at, name);
        let Some(bare) = name.strip_suffix(".$").filter(|_| self == Self::JsonPath) else {
            return (
                name.to_owned(),
                self.read_node(value, &at, depth + 1, unreadable),
            );
        };
        let path = match value {
            Value::String(text) => Path::parse_or_call(text),
            _ => Err(SyntaxError::new(format!(
                "the field '{name}' must be a path or a function call"
            ))),
        };
        let node = match path {
            Ok(path) => TemplateNode::Path(path),
            Err(error) => {
                unreadable.push(error.prefix_pointer(&at));
                TemplateNode::Fixed(Value::Null)
            }
        };
        (bare.to_owned(), node)
    }

    /// Reports pairs such as `a` and `a.$`, which would become the same field.
    fn report_clashes(
        self,
        nodes: &[(String, TemplateNode)],
        fields: &Map<String, Value>,
        at: &str,
        unreadable: &mut Vec<SyntaxError>,
    ) {
        if self != Self::JsonPath {
            return;
        }
        for (name, written) in nodes.iter().map(|node| &node.0).zip(fields.keys()) {
            if name != written && fields.contains_key(name) {
                unreadable.push(
                    SyntaxError::new(format!(
                        "'{written}' and '{name}' would both become the field '{name}': keep one"
                    ))
                    .prefix_pointer(&pointer_to(at, written)),
                );
            }
        }
    }
}

fn fixed_or(value: &Value, fixed: bool, node: TemplateNode) -> TemplateNode {
    if fixed {
        TemplateNode::Fixed(value.clone())
    } else {
        node
    }
}

impl TemplateNode {
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    fn fill(
        &self,
        scope: &EvaluationScope<'_>,
        session: &EvaluationSession,
        at: &str,
    ) -> Result<Value, EvaluationFault> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::Items(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| item.fill(scope, session, &pointer_to(at, index)))
                .collect(),
            Self::Fields(fields) => {
                let mut filled = Map::with_capacity(fields.len());
                for (name, node) in fields {
                    let value = node.fill(scope, session, &pointer_to(at, name))?;
                    filled.insert(name.clone(), value);
                }
                Ok(Value::Object(filled))
            }
            Self::Path(path) => path
                .find_with(scope, &session.chance)
                .map(std::borrow::Cow::into_owned)
                .map_err(|fault| with_location(fault, &format!("{at}.$"))),
            Self::Expression(expression) => expression
                .evaluate_in(session, scope)
                .map_err(|fault| with_location(fault, at)),
        }
    }

    fn visit(&self, at: &str, see: &mut dyn FnMut(&str, &TemplateNode)) {
        see(at, self);
        match self {
            Self::Items(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.visit(&pointer_to(at, index), see);
                }
            }
            Self::Fields(fields) => {
                for (name, node) in fields {
                    node.visit(&pointer_to(at, name), see);
                }
            }
            _ => {}
        }
    }
}

/// Adds the location in the template to a fault.
fn with_location(mut fault: EvaluationFault, at: &str) -> EvaluationFault {
    if !at.is_empty() {
        fault.cause = format!("{} (at {at})", fault.cause);
    }
    fault
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
