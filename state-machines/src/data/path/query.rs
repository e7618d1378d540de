//! A parsed JSONPath: its root and its steps.

use super::filter::Filter;

/// A path without its source text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathQuery {
    pub(super) root: PathRoot,
    pub(super) steps: Vec<QueryStep>,
}

/// The root of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PathRoot {
    /// `$`
    Input,
    /// `$$`
    Context,
    /// `$name`
    Variable(String),
    /// `@`, inside a filter.
    Current,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum QueryStep {
    /// `.name`, `['name']`
    Name(String),
    /// `['a', 'b']`: an object with those fields at the end of a path, each of them in the
    /// middle.
    Names(Vec<String>),
    /// `[3]`, `[-1]`
    Index(i64),
    /// `[0, 2]`
    Indexes(Vec<i64>),
    /// `[1:3]`
    Slice(SliceBounds),
    /// `*`
    Any,
    /// `..`: the next step applies at every depth.
    Deep,
    /// `[?(…)]`
    Filter(Filter),
    /// `.length()` and the like, at the end of a path.
    Apply(PathFunction),
}

/// The bounds of a slice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SliceBounds {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    pub(super) step: usize,
}

/// A function at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathFunction {
    Length,
    Min,
    Max,
    Avg,
    Sum,
    StdDev,
    First,
    Last,
    Keys,
}

impl PathFunction {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "length" | "size" => Self::Length,
            "min" => Self::Min,
            "max" => Self::Max,
            "avg" => Self::Avg,
            "sum" => Self::Sum,
            "stddev" => Self::StdDev,
            "first" => Self::First,
            "last" => Self::Last,
            "keys" => Self::Keys,
            _ => return None,
        })
    }
}

impl PathQuery {
    /// Whether it finds at most one value. Any other path finds an array, which may be
    /// empty.
    pub(super) fn is_definite(&self) -> bool {
        self.steps.iter().enumerate().all(|(at, step)| match step {
            QueryStep::Name(_) | QueryStep::Index(_) => true,
            // Several names at the end give one object.
            QueryStep::Names(_) => at + 1 == self.steps.len(),
            QueryStep::Apply(_) => true,
            _ => false,
        }) || matches!(self.steps.last(), Some(QueryStep::Apply(_)))
    }

    /// Whether it names exactly one location where a value can be inserted.
    pub(super) fn is_reference(&self) -> bool {
        self.steps
            .iter()
            .all(|step| matches!(step, QueryStep::Name(_) | QueryStep::Index(0..)))
    }

    /// The variables it reads, including those in its filters.
    pub(super) fn variables<'q>(&'q self, into: &mut Vec<&'q str>) {
        if let PathRoot::Variable(name) = &self.root {
            into.push(name);
        }
        for step in &self.steps {
            if let QueryStep::Filter(filter) = step {
                filter.variables(into);
            }
        }
    }
}
