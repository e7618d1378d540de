//! The states with nested machines: Parallel and Map.

use serde_json::Value;

use super::{Catcher, FieldValue, Machine, NextState, ResultTarget, Retrier};
use crate::data::{Expression, Path, Template};

/// Runs several machines concurrently, all with the same input.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelState {
    /// The machines, in order: the result lists their outputs in this order.
    pub branches: Vec<Machine>,
    /// `Parameters` (JSONPath) or `Arguments` (JSONata): their input.
    pub arguments: Option<Template>,
    /// `ResultSelector` (JSONPath): transforms the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: ResultTarget,
    /// `Retry`.
    pub retry: Vec<Retrier>,
    /// `Catch`.
    pub catch: Vec<Catcher>,
    /// The transition on success.
    pub next: NextState,
}

/// Runs a machine once for each item.
#[derive(Debug, Clone, PartialEq)]
pub struct MapState {
    /// The machine, and how it runs.
    pub processor: ItemProcessor,
    /// The items.
    pub items: ItemsSource,
    /// `ItemSelector`, formerly `Parameters`: the input of one iteration.
    pub item_selector: Option<Template>,
    /// The maximum number of concurrent iterations; 0 or absent for no limit of its
    /// own.
    pub concurrency_max: Option<FieldValue<u64>>,
    /// The fields of distributed Maps.
    pub distributed: DistributedOptions,
    /// `ResultSelector` (JSONPath): transforms the result.
    pub result_selector: Option<Template>,
    /// `ResultPath` (JSONPath): where the result goes.
    pub result: ResultTarget,
    /// `Retry`.
    pub retry: Vec<Retrier>,
    /// `Catch`.
    pub catch: Vec<Catcher>,
    /// The transition on success.
    pub next: NextState,
}

/// The machine of a Map (`ItemProcessor`, formerly `Iterator`).
#[derive(Debug, Clone, PartialEq)]
pub struct ItemProcessor {
    /// How it runs.
    pub mode: ProcessorMode,
    /// The machine that runs for each item.
    pub machine: Machine,
}

/// How the machine of a Map runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessorMode {
    /// Within the execution of the Map.
    #[default]
    Inline,
    /// Each iteration is a separate execution.
    Distributed(ExecutionType),
}

/// The execution type of the iterations of a distributed Map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionType {
    /// Durable; may wait for jobs and callbacks.
    Standard,
    /// Short-lived.
    Express,
}

/// The source of a Map's items, unless it has an item reader.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemsSource {
    /// The input itself.
    Input,
    /// `ItemsPath` (JSONPath).
    Path(Path),
    /// `Items` as a list, with expressions in it (JSONata).
    List(Template),
    /// `Items` as an expression (JSONata).
    Expression(Expression),
}

/// The fields of distributed Maps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DistributedOptions {
    /// The label of its runs.
    pub label: Option<String>,
    /// How many iterations may fail.
    pub failures_max: Option<FieldValue<u64>>,
    /// The percentage of iterations that may fail.
    pub failures_percent_max: Option<FieldValue<f64>>,
    /// Reads the items from an external source.
    pub reader: Option<ItemReader>,
    /// Groups items into batches.
    pub batcher: Option<ItemBatcher>,
    /// Writes the results to an external destination.
    pub writer: Option<ResultWriter>,
}

/// Reads a Map's items from an external source.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemReader {
    /// The resource that reads them.
    pub resource: String,
    /// `Parameters` or `Arguments`: its input.
    pub arguments: Option<Template>,
    /// The maximum number of items; 0 for all.
    pub items_max: Option<FieldValue<u64>>,
    /// `ReaderConfig`, unparsed: the format of the items.
    pub config: Value,
}

/// Groups the items of a Map into batches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItemBatcher {
    /// Additional input of each batch.
    pub input: Option<Template>,
    /// The maximum number of items per batch.
    pub items_max: Option<FieldValue<u64>>,
    /// The maximum size of a batch, in bytes.
    pub bytes_max: Option<FieldValue<u64>>,
}

/// Writes a Map's results to an external destination.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultWriter {
    /// The resource that writes them; without one they are only reformatted.
    pub resource: Option<String>,
    /// `Parameters` or `Arguments`: its input.
    pub arguments: Option<Template>,
    /// `WriterConfig`, unparsed: the format of the results.
    pub config: Value,
}
