//! A Map: where its items come from, and how they are run.

use serde_json::{Map as Fields, Value, json};

use super::history::{Details, HistoryType};
use super::look::Beside;
use super::payload::{self, InField, Trouble, unexpected};
use super::resource::Resource;
use super::run::{Failure, Family, FamilyKind, Phase, Run};
use super::walk::{Fate, Walk};
use super::{RunId, RunTask, TaskId, errors, family};
use crate::data::errors::RUNTIME;
use crate::data::{Fault, Scope};
use crate::language::State;
use crate::language::model::{Given, ItemBatcher, ItemReader, Items, Map, QueryLanguage};

impl<'a> Walk<'a> {
    pub(super) fn try_map(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        map: &'a Map,
    ) -> Fate {
        if let Some(writer) = &map.distributed.writer
            && let Some(resource) = &writer.resource
        {
            let cause = format!("results are written nowhere: {resource:?} is not supported");
            let failure = Failure::new(errors::RESULT_WRITER_FAILED, cause);
            return self.fail(id, run, state, failure);
        }
        if let Some(reader) = &map.distributed.reader {
            return self.read_items(id, run, state, reader);
        }
        let items = self.look(id, run, state, Beside::default(), |scope| {
            items(state, map, scope)
        });
        match items {
            Ok(items) => self.gather_map(id, run, state, map, items, false),
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    /// Has a reader bring the items.
    fn read_items(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        reader: &'a ItemReader,
    ) -> Fate {
        let input = self.look(id, run, state, Beside::default(), |scope| {
            payload::arguments(state, reader.arguments.as_ref(), scope)
        });
        let input = match input {
            Ok(input) => input,
            Err(trouble) => return self.trouble(id, run, state, trouble),
        };
        self.start_map(run, state, 0);
        if let Err(trouble) = self.items_max(id, run, state, reader) {
            self.is_out_of_time |= trouble.fault.is_out_of_time;
            return self.reader_failed(id, run, state, &trouble.fault.cause);
        }
        let order = RunTask {
            task: TaskId(0),
            resource: reader.resource.clone(),
            input,
            token: self.next_token(),
            attempt: run.attempts,
            state: state.name.clone(),
            iterations: self.execution.iterations(run),
            timeout_ms: None,
            heartbeat_ms: None,
            credentials: None,
            waits_for_callback: Resource::of(&reader.resource).waits_for_callback(),
        };
        run.phase = Phase::Reading(self.order(id, order));
        Fate::Stays
    }

    /// A reader brought what should be the items.
    pub(super) fn map_items_read(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        read: Value,
    ) -> Fate {
        let crate::language::model::Kind::Map(map) = &state.kind else {
            return Fate::Stays;
        };
        let Value::Array(mut items) = read else {
            return self.reader_failed(id, run, state, "the reader brought no list of items");
        };
        if let Some(reader) = &map.distributed.reader {
            match self.items_max(id, run, state, reader) {
                Ok(most) => items.truncate(most),
                Err(trouble) => {
                    self.is_out_of_time |= trouble.fault.is_out_of_time;
                    return self.reader_failed(id, run, state, &trouble.fault.cause);
                }
            }
        }
        self.gather_map(id, run, state, map, items, true)
    }

    /// How many items are taken at most; 0 stands for all.
    fn items_max(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        reader: &ItemReader,
    ) -> Result<usize, Trouble> {
        let Some(most) = &reader.items_max else {
            return Ok(usize::MAX);
        };
        let most = self.look(id, run, state, Beside::default(), |scope| {
            let input = payload::effective(state, scope)?;
            payload::whole(most, 0, &scope.with_input(&input)).in_field("MaxItems")
        })?;
        Ok(match most {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        })
    }

    fn reader_failed(&mut self, id: RunId, run: &mut Run, state: &'a State, cause: &str) -> Fate {
        let failure = Failure::new(errors::ITEM_READER_FAILED, cause);
        self.write(
            run,
            HistoryType::MapRunFailed,
            failure.details(Details::none()),
        );
        self.fail(id, run, state, failure)
    }

    fn start_map(&mut self, run: &mut Run, state: &State, length: usize) {
        let details = Details::none().with("length", length);
        self.write(run, HistoryType::MapStateStarted, details);
        if let crate::language::model::Kind::Map(map) = &state.kind
            && family::is_distributed(map)
        {
            self.start_map_run(run, state, map);
        }
    }

    fn start_map_run(&mut self, run: &mut Run, state: &State, map: &Map) {
        let label = map.distributed.label.as_deref().unwrap_or(&state.name);
        let name = format!("{}/{label}:{}", self.execution.id, run.entered_event);
        let details = Details::none().with("mapRunArn", name);
        self.write(run, HistoryType::MapRunStarted, details);
    }

    /// Runs the machine of a Map over items; `is_started` tells whether the
    /// history has it.
    fn gather_map(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        map: &'a Map,
        items: Vec<Value>,
        is_started: bool,
    ) -> Fate {
        let limits = self.execution.limits;
        let is_distributed = family::is_distributed(map);
        let most = match is_distributed {
            true => limits.distributed_at_once_max,
            false => limits.iterations_at_once_max,
        };
        let at_once = self.look(id, run, state, Beside::default(), |scope| {
            at_once(state, map, most, scope)
        });
        let at_once = match at_once {
            Ok(at_once) => at_once,
            Err(trouble) => return self.trouble(id, run, state, trouble),
        };
        if !is_started {
            let details = Details::none().with("length", items.len());
            self.write(run, HistoryType::MapStateStarted, details);
        }
        let count = items.len();
        let planned = self.look(id, run, state, Beside::default(), |scope| {
            let failed_max = failed_max(state, map, count, scope)?;
            let input = payload::effective(state, scope)?.into_owned();
            let batches = match &map.distributed.batcher {
                None => None,
                Some(batcher) => Some(batch_terms(state, batcher, scope)?),
            };
            Ok((failed_max, input, batches))
        });
        let (failed_max, input, batches) = match planned {
            Ok(planned) => planned,
            Err(trouble) => return self.trouble(id, run, state, trouble),
        };
        if is_distributed && !is_started {
            self.start_map_run(run, state, map);
        }
        let (items, is_batched) = match batches {
            None => (items, false),
            Some(terms) => match self.selected(id, run, state, map, &input, items) {
                Ok(items) => (batched(items, &terms), true),
                Err(trouble) => return self.trouble(id, run, state, trouble),
            },
        };
        let kind = match is_distributed {
            true => FamilyKind::Distributed,
            false => FamilyKind::Inline,
        };
        let mut family = Family::new(kind, input, items.len() as u64);
        family.items = items;
        family.is_batched = is_batched;
        family.at_once = at_once;
        family.failed_max = failed_max;
        self.gather(id, run, state, family)
    }

    /// `ItemSelector` over all items, as batches are made of what it gives.
    fn selected(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        map: &Map,
        input: &Value,
        items: Vec<Value>,
    ) -> Result<Vec<Value>, Trouble> {
        let Some(selector) = &map.item_selector else {
            return Ok(items);
        };
        let mut selected = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let beside = Beside {
                item: Some((index as u64, item)),
                ..Beside::default()
            };
            selected.push(self.look(id, run, state, beside, |scope| {
                let seed = format!("ItemSelector {index}");
                selector
                    .fill(&scope.with_input(input).seeded_for(&seed))
                    .in_field("ItemSelector")
            })?);
        }
        Ok(selected)
    }
}

/// The items of a Map that no reader brings.
fn items(state: &State, map: &Map, scope: &Scope<'_>) -> Result<Vec<Value>, Trouble> {
    let input = payload::effective(state, scope)?;
    let inner = scope.with_input(&input);
    let by_expression = state.query_language == QueryLanguage::Jsonata;
    let (found, field) = match &map.items {
        Items::Input => (input.clone().into_owned(), "Items"),
        Items::Path(path) => (path.read(&inner).in_field("ItemsPath")?, "ItemsPath"),
        Items::List(template) => (
            template
                .fill(&inner.seeded_for("Items"))
                .in_field("Items")?,
            "Items",
        ),
        Items::Expression(expression) => (
            expression
                .evaluate(&inner.seeded_for("Items"))
                .in_field("Items")?,
            "Items",
        ),
    };
    match found {
        Value::Array(items) => Ok(items),
        // A distributed Map goes over the fields of an object as well.
        Value::Object(fields) if family::is_distributed(map) && !by_expression => Ok(pairs(fields)),
        other => Err(unexpected("a list of items", &other, by_expression)).in_field(field),
    }
}

fn pairs(fields: Fields<String, Value>) -> Vec<Value> {
    let pair = |(key, value)| json!({"Key": key, "Value": value});
    fields.into_iter().map(pair).collect()
}

/// How many iterations may run at once.
fn at_once(state: &State, map: &Map, most: u64, scope: &Scope<'_>) -> Result<u64, Trouble> {
    let Some(given) = &map.concurrency_max else {
        return Ok(most.max(1));
    };
    let input = payload::effective(state, scope)?;
    let wanted = payload::whole(given, 0, &scope.with_input(&input)).in_field("MaxConcurrency")?;
    Ok(match wanted {
        0 => most.max(1),
        wanted => wanted.min(most.max(1)),
    })
}

/// How many iterations may fail: the stricter of count and share. Without
/// either none may.
fn failed_max(state: &State, map: &Map, count: usize, scope: &Scope<'_>) -> Result<u64, Trouble> {
    let input = payload::effective(state, scope)?;
    let inner = scope.with_input(&input);
    let by_count = match &map.distributed.failures_max {
        None => None,
        Some(given) => Some(payload::whole(given, 0, &inner).in_field("ToleratedFailureCount")?),
    };
    let by_share = match &map.distributed.failures_percent_max {
        None => None,
        Some(given) => {
            let percent = payload::number(given, (0.0, 100.0), &inner)
                .in_field("ToleratedFailurePercentage")?;
            Some((count as f64 * percent / 100.0).floor() as u64)
        }
    };
    Ok(match (by_count, by_share) {
        (Some(count), Some(share)) => count.min(share),
        (one, other) => one.or(other).unwrap_or(0),
    })
}

/// How items are made into batches.
struct BatchTerms {
    items_max: Option<u64>,
    bytes_max: Option<u64>,
    input: Option<Value>,
}

fn batch_terms(
    state: &State,
    batcher: &ItemBatcher,
    scope: &Scope<'_>,
) -> Result<BatchTerms, Trouble> {
    let input = payload::effective(state, scope)?;
    let inner = scope.with_input(&input);
    let most = |given: &Option<Given<u64>>| -> Result<Option<u64>, Fault> {
        given
            .as_ref()
            .map(|given| payload::whole(given, 1, &inner))
            .transpose()
    };
    let terms = BatchTerms {
        items_max: most(&batcher.items_max).in_field("MaxItemsPerBatch")?,
        bytes_max: most(&batcher.bytes_max).in_field("MaxInputBytesPerBatch")?,
        input: match &batcher.input {
            None => None,
            Some(template) => Some(payload::filled(state, template, "BatchInput", scope)?),
        },
    };
    if terms.items_max.is_none() && terms.bytes_max.is_none() {
        let fault = Fault::new(RUNTIME, "a batch has neither a number nor a size");
        return Err(fault).in_field("ItemBatcher");
    }
    Ok(terms)
}

/// The inputs of the batches.
fn batched(items: Vec<Value>, terms: &BatchTerms) -> Vec<Value> {
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
