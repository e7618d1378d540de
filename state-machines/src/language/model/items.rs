//! The states with machines within them: Parallel and Map.

use serde_json::Value;

use super::{Catcher, Given, Machine, Next, Place, Retrier};
use crate::data::{Expression, Path, Template};

/// Runs several machines at once, all on the same input.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallel {
    /// The machines, in order: the result lists their outputs in this order.
    pub branches: Vec<Machine>,
    /// `Parameters` (JSONPath) or `Arguments` (JSONata): their input.
    pub arguments: Option<Template>,
    /// `ResultSelector` (JSONPath): what is kept of the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: Place,
    /// What is tried again.
    pub retry: Vec<Retrier>,
    /// What is done about errors that remain.
    pub catch: Vec<Catcher>,
    /// Where it leads.
    pub next: Next,
}

/// Runs a machine once for each item.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The machine, and how it is run.
    pub processor: Processor,
    /// The items.
    pub items: Items,
    /// `ItemSelector`, formerly `Parameters`: the input of one run.
    pub item_selector: Option<Template>,
    /// How many run at once; 0, and none written, for as many as can be.
    pub concurrency_max: Option<Given<u64>>,
    /// What only a distributed Map has.
    pub distributed: Distributed,
    /// `ResultSelector` (JSONPath): what is kept of the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: Place,
    /// What is tried again.
    pub retry: Vec<Retrier>,
    /// What is done about errors that remain.
    pub catch: Vec<Catcher>,
    /// Where it leads.
    pub next: Next,
}

/// The machine of a Map (`ItemProcessor`, formerly `Iterator`).
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// How it is run.
    pub mode: Mode,
    /// What is run for each item.
    pub machine: Machine,
}

/// How the machine of a Map is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Within the execution.
    #[default]
    Inline,
    /// Each run is an execution of its own.
    Distributed(ExecutionType),
}

/// What kind of execution a run of a distributed Map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionType {
    /// It is durable, and may wait for others.
    Standard,
    /// It is short.
    Express,
}

/// Where a Map's items come from, unless a reader brings them.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// The input is the list.
    Input,
    /// `ItemsPath` (JSONPath).
    Path(Path),
    /// `Items` as a list, with expressions in it (JSONata).
    List(Template),
    /// `Items` as an expression (JSONata).
    Expression(Expression),
}

/// What only a distributed Map has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Distributed {
    /// The name of its runs.
    pub label: Option<String>,
    /// How many runs may fail.
    pub failures_max: Option<Given<u64>>,
    /// What share of the runs may fail, in percent.
    pub failures_percent_max: Option<Given<f64>>,
    /// Reads the items from elsewhere.
    pub reader: Option<ItemReader>,
    /// Gives several items to one run.
    pub batcher: Option<ItemBatcher>,
    /// Writes the results elsewhere.
    pub writer: Option<ResultWriter>,
}

/// Reads a Map's items from elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemReader {
    /// Who reads them.
    pub resource: String,
    /// `Parameters` or `Arguments`: what it is given.
    pub arguments: Option<Template>,
    /// How many items are taken at most; 0 for all.
    pub items_max: Option<Given<u64>>,
    /// `ReaderConfig` as it is written: how the items are laid out.
    pub config: Value,
}

/// Gives several items to one run of a Map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItemBatcher {
    /// What each batch is given besides its items.
    pub input: Option<Template>,
    /// How many items a batch has at most.
    pub items_max: Option<Given<u64>>,
    /// How many bytes a batch has at most.
    pub bytes_max: Option<Given<u64>>,
}

/// Writes a Map's results elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultWriter {
    /// Who writes them; without one they are only laid out anew.
    pub resource: Option<String>,
    /// `Parameters` or `Arguments`: what it is given.
    pub arguments: Option<Template>,
    /// `WriterConfig` as it is written: how the results are laid out.
    pub config: Value,
}
