//! The Map state: reads or evaluates its items and starts the iterations.

use serde_json::{Map as Fields, Value, json};

use super::history::{Details, HistoryType};
use super::interpreter::{Interpreter, TurnOutcome};
use super::payload::{self, FieldFault, InField, unexpected_value};
use super::resource::Resource;
use super::run::{ChildRuns, ChildRunsKind, Failure, Phase, Run};
use super::scope::ExtraContext;
use super::{RunId, RunTask, TaskId, children, errors};
use crate::data::errors::RUNTIME;
use crate::data::{EvaluationFault, EvaluationScope};
use crate::language::State;
use crate::language::model::{
    FieldValue, ItemBatcher, ItemReader, ItemsSource, MapState, QueryLanguage,
};

impl<'a> Interpreter<'a> {
    pub(super) fn try_map(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        map: &'a MapState,
    ) -> TurnOutcome {
        if let Some(writer) = &map.distributed.writer
            && let Some(resource) = &writer.resource
        {
            let cause = format!("ResultWriter is not supported: {resource:?}");
            let failure = Failure::new(errors::RESULT_WRITER_FAILED, cause);
            return self.handle_failure(id, run, state, failure);
        }
        if let Some(reader) = &map.distributed.reader {
            return self.read_items(id, run, state, reader);
        }
        let items = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            evaluate_items(state, map, scope)
        });
        match items {
            Ok(items) => self.start_iterations(id, run, state, map, items, false),
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    /// Starts a task that reads the items.
    fn read_items(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        reader: &'a ItemReader,
    ) -> TurnOutcome {
        let input = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::evaluate_arguments(state, reader.arguments.as_ref(), scope)
        });
        let input = match input {
            Ok(input) => input,
            Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
        };
        self.record_map_started(run, state, 0);
        if let Err(field_fault) = self.evaluate_items_max(id, run, state, reader) {
            self.is_out_of_time |= field_fault.fault.is_out_of_time;
            return self.fail_reader(id, run, state, &field_fault.fault.cause);
        }
        let order = RunTask {
            task: TaskId(0),
            resource: reader.resource.clone(),
            input,
            token: self.make_next_token(),
            attempt: run.attempts,
            state: state.name.clone(),
            iterations: self.execution.iterations(run),
            timeout_ms: None,
            heartbeat_ms: None,
            credentials: None,
            waits_for_callback: Resource::from_name(&reader.resource).waits_for_callback(),
        };
        run.phase = Phase::Reading(self.start_task(id, order));
        TurnOutcome::Continues
    }

    /// Handles the result of the item reader.
    pub(super) fn handle_items_read(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        read: Value,
    ) -> TurnOutcome {
        let crate::language::model::StateKind::Map(map) = &state.kind else {
            return TurnOutcome::Continues;
        };
        let Value::Array(mut items) = read else {
            return self.fail_reader(id, run, state, "the item reader returned no list");
        };
        if let Some(reader) = &map.distributed.reader {
            match self.evaluate_items_max(id, run, state, reader) {
                Ok(most) => items.truncate(most),
                Err(field_fault) => {
                    self.is_out_of_time |= field_fault.fault.is_out_of_time;
                    return self.fail_reader(id, run, state, &field_fault.fault.cause);
                }
            }
        }
        self.start_iterations(id, run, state, map, items, true)
    }

    /// Evaluates `MaxItems`; 0 means all.
    fn evaluate_items_max(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        reader: &ItemReader,
    ) -> Result<usize, FieldFault> {
        let Some(most) = &reader.items_max else {
            return Ok(usize::MAX);
        };
        let most = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            let input = payload::effective_input(state, scope)?;
            payload::resolve_whole(most, 0, &scope.with_input(&input)).in_field("MaxItems")
        })?;
        Ok(match most {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        })
    }

    fn fail_reader(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        cause: &str,
    ) -> TurnOutcome {
        let failure = Failure::new(errors::ITEM_READER_FAILED, cause);
        self.record_run_event(
            run,
            HistoryType::MapRunFailed,
            failure.details(Details::new()),
        );
        self.handle_failure(id, run, state, failure)
    }

    fn record_map_started(&mut self, run: &mut Run, state: &State, length: usize) {
        let details = Details::new().with("length", length);
        self.record_run_event(run, HistoryType::MapStateStarted, details);
        if let crate::language::model::StateKind::Map(map) = &state.kind
            && children::is_distributed(map)
        {
            self.record_map_run_started(run, state, map);
        }
    }

    fn record_map_run_started(&mut self, run: &mut Run, state: &State, map: &MapState) {
        let label = map.distributed.label.as_deref().unwrap_or(&state.name);
        let name = format!("{}/{label}:{}", self.execution.id, run.entered_event);
        let details = Details::new().with("mapRunArn", name);
        self.record_run_event(run, HistoryType::MapRunStarted, details);
    }

    /// Starts the iterations over items. `is_started` tells whether the history
    /// already records the start of the Map.
    fn start_iterations(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        map: &'a MapState,
        items: Vec<Value>,
        is_started: bool,
    ) -> TurnOutcome {
        let limits = self.execution.limits;
        let is_distributed = children::is_distributed(map);
        let most = match is_distributed {
            true => limits.distributed_at_once_max,
            false => limits.iterations_at_once_max,
        };
        let at_once = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            evaluate_concurrency(state, map, most, scope)
        });
        let at_once = match at_once {
            Ok(at_once) => at_once,
            Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
        };
        if !is_started {
            let details = Details::new().with("length", items.len());
            self.record_run_event(run, HistoryType::MapStateStarted, details);
        }
        let count = items.len();
        let planned = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            let failed_max = evaluate_failures_max(state, map, count, scope)?;
            let input = payload::effective_input(state, scope)?.into_owned();
            let batches = match &map.distributed.batcher {
                None => None,
                Some(batcher) => Some(evaluate_batch_limits(state, batcher, scope)?),
            };
            Ok((failed_max, input, batches))
        });
        let (failed_max, input, batches) = match planned {
            Ok(planned) => planned,
            Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
        };
        if is_distributed && !is_started {
            self.record_map_run_started(run, state, map);
        }
        let (items, is_batched) = match batches {
            None => (items, false),
            Some(terms) => match self.select_items(id, run, state, map, &input, items) {
                Ok(items) => (make_batches(items, &terms), true),
                Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
            },
        };
        let kind = match is_distributed {
            true => ChildRunsKind::Distributed,
            false => ChildRunsKind::Inline,
        };
        let mut children = ChildRuns::new(kind, input, items.len() as u64);
        children.items = items;
        children.is_batched = is_batched;
        children.at_once = at_once;
        children.failed_max = failed_max;
        self.start_children(id, run, state, children)
    }

    /// Applies `ItemSelector` to all items before they are batched.
    fn select_items(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        map: &MapState,
        input: &Value,
        items: Vec<Value>,
    ) -> Result<Vec<Value>, FieldFault> {
        let Some(selector) = &map.item_selector else {
            return Ok(items);
        };
        let mut selected = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let extra = ExtraContext {
                item: Some((index as u64, item)),
                ..ExtraContext::default()
            };
            selected.push(self.with_scope(id, run, state, extra, |scope| {
                let seed = format!("ItemSelector {index}");
                selector
                    .fill(&scope.with_input(input).seeded_for(&seed))
                    .in_field("ItemSelector")
            })?);
        }
        Ok(selected)
    }
}

/// Evaluates the items of a Map without an item reader.
fn evaluate_items(
    state: &State,
    map: &MapState,
    scope: &EvaluationScope<'_>,
) -> Result<Vec<Value>, FieldFault> {
    let input = payload::effective_input(state, scope)?;
    let inner = scope.with_input(&input);
    let by_expression = state.query_language == QueryLanguage::Jsonata;
    let (found, field) = match &map.items {
        ItemsSource::Input => (input.clone().into_owned(), "Items"),
        ItemsSource::Path(path) => (path.read(&inner).in_field("ItemsPath")?, "ItemsPath"),
        ItemsSource::List(template) => (
            template
                .fill(&inner.seeded_for("Items"))
                .in_field("Items")?,
            "Items",
        ),
        ItemsSource::Expression(expression) => (
            expression
                .evaluate(&inner.seeded_for("Items"))
                .in_field("Items")?,
            "Items",
        ),
    };
    match found {
        Value::Array(items) => Ok(items),
        // A distributed Map also iterates over the fields of an object.
        Value::Object(fields) if children::is_distributed(map) && !by_expression => {
            Ok(to_key_value_pairs(fields))
        }
        other => Err(unexpected_value("a list of items", &other, by_expression)).in_field(field),
    }
}

fn to_key_value_pairs(fields: Fields<String, Value>) -> Vec<Value> {
    let pair = |(key, value)| json!({"Key": key, "Value": value});
    fields.into_iter().map(pair).collect()
}

/// Evaluates `MaxConcurrency`.
fn evaluate_concurrency(
    state: &State,
    map: &MapState,
    most: u64,
    scope: &EvaluationScope<'_>,
) -> Result<u64, FieldFault> {
    let Some(given) = &map.concurrency_max else {
        return Ok(most.max(1));
    };
    let input = payload::effective_input(state, scope)?;
    let wanted =
        payload::resolve_whole(given, 0, &scope.with_input(&input)).in_field("MaxConcurrency")?;
    Ok(match wanted {
        0 => most.max(1),
        wanted => wanted.min(most.max(1)),
    })
}

/// Evaluates how many iterations may fail: the stricter of count and percentage.
/// Without either, none may.
fn evaluate_failures_max(
    state: &State,
    map: &MapState,
    count: usize,
    scope: &EvaluationScope<'_>,
) -> Result<u64, FieldFault> {
    let input = payload::effective_input(state, scope)?;
    let inner = scope.with_input(&input);
    let by_count = match &map.distributed.failures_max {
        None => None,
        Some(given) => {
            Some(payload::resolve_whole(given, 0, &inner).in_field("ToleratedFailureCount")?)
        }
    };
    let by_share = match &map.distributed.failures_percent_max {
        None => None,
        Some(given) => {
            let percent = payload::resolve_number(given, (0.0, 100.0), &inner)
                .in_field("ToleratedFailurePercentage")?;
            Some((count as f64 * percent / 100.0).floor() as u64)
        }
    };
    Ok(match (by_count, by_share) {
        (Some(count), Some(share)) => count.min(share),
        (one, other) => one.or(other).unwrap_or(0),
    })
}

/// The limits of `ItemBatcher`.
struct BatchLimits {
    items_max: Option<u64>,
    bytes_max: Option<u64>,
    input: Option<Value>,
}

fn evaluate_batch_limits(
    state: &State,
    batcher: &ItemBatcher,
    scope: &EvaluationScope<'_>,
) -> Result<BatchLimits, FieldFault> {
    let input = payload::effective_input(state, scope)?;
    let inner = scope.with_input(&input);
    let most = |given: &Option<FieldValue<u64>>| -> Result<Option<u64>, EvaluationFault> {
        given
            .as_ref()
            .map(|given| payload::resolve_whole(given, 1, &inner))
            .transpose()
    };
    let terms = BatchLimits {
        items_max: most(&batcher.items_max).in_field("MaxItemsPerBatch")?,
        bytes_max: most(&batcher.bytes_max).in_field("MaxInputBytesPerBatch")?,
        input: match &batcher.input {
            None => None,
            Some(template) => Some(payload::fill_field(state, template, "BatchInput", scope)?),
        },
    };
    if terms.items_max.is_none() && terms.bytes_max.is_none() {
        let fault = EvaluationFault::new(
            RUNTIME,
            "ItemBatcher needs MaxItemsPerBatch or MaxInputBytesPerBatch",
        );
        return Err(fault).in_field("ItemBatcher");
    }
    Ok(terms)
}

/// Splits items into batches and builds the input of each.
fn make_batches(items: Vec<Value>, terms: &BatchLimits) -> Vec<Value> {
    let mut batches: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0u64;
    for item in items {
        let size = item.to_string().len() as u64 + 1;
        let fits = batches.last().is_some_and(|batch| {
            terms
                .items_max
                .is_none_or(|most| (batch.len() as u64) < most)
                && terms.bytes_max.is_none_or(|most| bytes + size <= most)
        });
        match batches.last_mut() {
            Some(batch) if fits => {
                bytes += size;
                batch.push(item);
            }
            _ => {
                bytes = size;
                batches.push(vec![item]);
            }
        }
    }
    let whole = |items| {
        let mut fields = Fields::new();
        if let Some(input) = &terms.input {
            fields.insert("BatchInput".to_owned(), input.clone());
        }
        fields.insert("Items".to_owned(), Value::Array(items));
        Value::Object(fields)
    };
    batches.into_iter().map(whole).collect()
}
