//! Parallel and Map, and their nested machines.

use serde_json::Value;

use super::fields::{
    BRANCH, ITEM_BATCHER, ITEM_READER, PROCESSOR, PROCESSOR_CONFIG, READER_CONFIG, RESULT_WRITER,
    WRITER_CONFIG,
};
use super::machine::MachineFlow;
use super::object::JsonObject;
use super::state::StateSite;
use super::tokens::is_unfilled;
use super::values::is_expression;
use super::{DefinitionReader, Durability};
use crate::data::Template;
use crate::language::model::{
    DistributedOptions, ExecutionType, ItemBatcher, ItemProcessor, ItemReader, ItemsSource,
    Machine, MapState, ParallelState, ProcessorMode, QueryLanguage, ResultWriter,
};
use crate::language::problem::ProblemCode;

/// The maximum of `MaxItems`.
const ITEMS_MAX: u64 = 100_000_000;
/// The maximum of `MaxInputBytesPerBatch`.
const BATCH_BYTES_MAX: u64 = 262_144;

impl DefinitionReader {
    pub(super) fn read_parallel(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<ParallelState> {
        let (object, language) = (site.object, site.language);
        self.require_field(object, "Branches");
        let at = object.pointer_to("Branches");
        let list = self
            .read_non_empty_list(object, "Branches")
            .map_or(&[][..], Vec::as_slice);
        let branches: Vec<Option<Machine>> = list
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let branch = self.as_object(at.item(index), value)?;
                self.check_field_names(&branch, BRANCH, "a branch");
                self.read_text(&branch, "Comment");
                self.read_scoped_machine(&branch, false)
            })
            .collect();
        Some(ParallelState {
            arguments: self.read_arguments(object, language),
            result_selector: self.read_result_selector(object, language),
            result: self.read_result_path(object, language),
            retry: self.read_retry(site),
            catch: self.read_catch(site, flow),
            next: self.read_next(site, flow)?,
            branches: branches.into_iter().collect::<Option<Vec<Machine>>>()?,
        })
    }

    pub(super) fn read_map(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<MapState> {
        let (object, language) = (site.object, site.language);
        let processor = self.read_processor(object);
        let mode = processor.as_ref().map(|processor| processor.mode);
        let any = (0, u64::MAX);
        let items = self.read_items(site);
        let map = (
            self.read_item_selector(site),
            self.read_integer_value(object, "MaxConcurrency", language, any),
            self.read_distributed(site, mode),
            self.read_result_selector(object, language),
            self.read_result_path(object, language),
            self.read_retry(site),
            self.read_catch(site, flow),
        );
        let next = self.read_next(site, flow);
        let (item_selector, concurrency_max, distributed, result_selector, result, retry, catch) =
            map;
        Some(MapState {
            processor: processor?,
            items: items?,
            item_selector,
            concurrency_max,
            distributed,
            result_selector,
            result,
            retry,
            catch,
            next: next?,
        })
    }

    /// `ItemProcessor`, formerly `Iterator`.
    fn read_processor(&mut self, map: &JsonObject<'_>) -> Option<ItemProcessor> {
        self.check_only_one(map, &["ItemProcessor", "Iterator"]);
        if map.has("Iterator") {
            self.report(
                &map.pointer_to("Iterator"),
                ProblemCode::Deprecated,
                "\"Iterator\" is now called \"ItemProcessor\"",
            );
        }
        let name = if map.has("Iterator") {
            "Iterator"
        } else {
            "ItemProcessor"
        };
        self.require_field(map, name);
        let object = self.read_object(map, name)?;
        self.check_field_names(&object, PROCESSOR, "the processor of a Map");
        self.read_text(&object, "Comment");
        let mode = self.read_mode(&object);
        let around = self.durability;
        if let Some(ProcessorMode::Distributed(kind)) = mode {
            self.durability = match kind {
                ExecutionType::Standard => Durability::Standard,
                ExecutionType::Express => Durability::Express,
            };
        }
        let is_alone = matches!(mode, Some(ProcessorMode::Distributed(_)));
        let machine = self.read_scoped_machine(&object, is_alone);
        self.durability = around;
        Some(ItemProcessor {
            mode: mode?,
            machine: machine?,
        })
    }

    fn read_mode(&mut self, processor: &JsonObject<'_>) -> Option<ProcessorMode> {
        if !processor.has("ProcessorConfig") {
            return Some(ProcessorMode::Inline);
        }
        let config = self.read_object(processor, "ProcessorConfig")?;
        self.check_field_names(&config, PROCESSOR_CONFIG, "a ProcessorConfig");
        let kind = self.read_one_of(&config, "ExecutionType", &["STANDARD", "EXPRESS"]);
        let mode = self.read_one_of(&config, "Mode", &["INLINE", "DISTRIBUTED"]);
        if mode != Some("DISTRIBUTED") {
            return Some(ProcessorMode::Inline);
        }
        self.require_field(&config, "ExecutionType");
        if is_unfilled(config.get("ExecutionType")) {
            return Some(ProcessorMode::Distributed(ExecutionType::Standard));
        }
        Some(ProcessorMode::Distributed(match kind? {
            "EXPRESS" => ExecutionType::Express,
            _ => ExecutionType::Standard,
        }))
    }

    fn read_items(&mut self, site: &StateSite<'_, '_>) -> Option<ItemsSource> {
        let object = site.object;
        let (name, read) = match site.language {
            QueryLanguage::JsonPath if object.has("ItemsPath") => (
                "ItemsPath",
                self.read_path(object, "ItemsPath").map(ItemsSource::Path),
            ),
            QueryLanguage::Jsonata if object.has("Items") => {
                ("Items", self.read_items_field(object))
            }
            _ => return Some(ItemsSource::Input),
        };
        let unfilled = is_unfilled(object.get(name));
        read.or_else(|| unfilled.then_some(ItemsSource::Input))
    }

    fn read_items_field(&mut self, object: &JsonObject<'_>) -> Option<ItemsSource> {
        let at = object.pointer_to("Items");
        match object.get("Items")? {
            Value::Array(_) => self
                .read_template(object, "Items", QueryLanguage::Jsonata)
                .map(ItemsSource::List),
            Value::String(text) if is_expression(text) => {
                self.read_expression(&at, text).map(ItemsSource::Expression)
            }
            other => {
                self.report_wrong_type(&at, "a list, or an expression between {% and %}", other);
                None
            }
        }
    }

    /// `ItemSelector`, formerly `Parameters`.
    fn read_item_selector(&mut self, site: &StateSite<'_, '_>) -> Option<Template> {
        let (object, language) = (site.object, site.language);
        if language == QueryLanguage::Jsonata {
            self.check_object_or_expression(object, "ItemSelector");
            return self.read_template(object, "ItemSelector", language);
        }
        self.check_only_one(object, &["ItemSelector", "Parameters"]);
        if object.has("Parameters") {
            self.report(
                &object.pointer_to("Parameters"),
                ProblemCode::Deprecated,
                "\"Parameters\" of a Map is now called \"ItemSelector\"",
            );
            return self.read_template(object, "Parameters", language);
        }
        self.read_template(object, "ItemSelector", language)
    }

    fn read_distributed(
        &mut self,
        site: &StateSite<'_, '_>,
        mode: Option<ProcessorMode>,
    ) -> DistributedOptions {
        let (object, language) = (site.object, site.language);
        if mode == Some(ProcessorMode::Inline) {
            for name in ["ItemReader", "ItemBatcher", "ResultWriter", "Label"] {
                if object.has(name) {
                    let message = format!(
                        "{name:?} is for a distributed Map; set \"Mode\": \"DISTRIBUTED\" in its ProcessorConfig"
                    );
                    self.report(
                        &object.pointer_to(name),
                        ProblemCode::NotDistributed,
                        message,
                    );
                }
            }
        }
        let any = (0, u64::MAX);
        DistributedOptions {
            label: self.read_label(object).map(str::to_owned),
            failures_max: self.read_integer_value(object, "ToleratedFailureCount", language, any),
            failures_percent_max: self.read_number_value(
                object,
                "ToleratedFailurePercentage",
                language,
                (0.0, 100.0),
            ),
            reader: self.read_item_reader(site),
            batcher: self.read_item_batcher(site),
            writer: self.read_result_writer(site),
        }
    }

    fn read_item_reader(&mut self, site: &StateSite<'_, '_>) -> Option<ItemReader> {
        let language = site.language;
        let reader = self.read_object(site.object, "ItemReader")?;
        self.check_fields(&reader, &ITEM_READER, language);
        self.require_field(&reader, "Resource");
        let resource = self.read_resource(&reader);
        let arguments = self.read_arguments(&reader, language);
        let config = self.read_object(&reader, "ReaderConfig");
        let items_max = config
            .as_ref()
            .and_then(|config| self.read_reader_config(config, language));
        Some(ItemReader {
            resource: resource?.to_owned(),
            arguments,
            items_max,
            config: config.map_or(Value::Null, |config| Value::Object(config.fields.clone())),
        })
    }

    fn read_reader_config(
        &mut self,
        config: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> Option<crate::language::model::FieldValue<u64>> {
        self.check_fields(config, &READER_CONFIG, language);
        let types = ["CSV", "JSON", "JSONL", "MANIFEST", "PARQUET"];
        self.read_one_of(config, "InputType", &types);
        self.read_one_of(config, "Transformation", &["NONE", "LOAD_AND_FLATTEN"]);
        self.read_one_of(config, "ManifestType", &["ATHENA_DATA", "S3_INVENTORY"]);
        let delimiters = ["COMMA", "PIPE", "SEMICOLON", "SPACE", "TAB"];
        self.read_one_of(config, "CSVDelimiter", &delimiters);
        self.read_text(config, "ItemsPointer");
        let headers = self.read_one_of(config, "CSVHeaderLocation", &["FIRST_ROW", "GIVEN"]);
        if headers == Some("GIVEN") {
            self.require_field(config, "CSVHeaders");
        }
        let at = config.pointer_to("CSVHeaders");
        let names = self.read_list(config, "CSVHeaders");
        for (index, name) in names.into_iter().flatten().enumerate() {
            if !name.is_string() {
                self.report_wrong_type(&at.item(index), "the name of a column", name);
            }
        }
        self.read_integer_value(config, "MaxItems", language, (0, ITEMS_MAX))
    }

    fn read_item_batcher(&mut self, site: &StateSite<'_, '_>) -> Option<ItemBatcher> {
        let language = site.language;
        let batcher = self.read_object(site.object, "ItemBatcher")?;
        self.check_fields(&batcher, &ITEM_BATCHER, language);
        let bytes = (1, BATCH_BYTES_MAX);
        Some(ItemBatcher {
            input: self.read_template(&batcher, "BatchInput", language),
            items_max: self.read_integer_value(
                &batcher,
                "MaxItemsPerBatch",
                language,
                (1, u64::MAX),
            ),
            bytes_max: self.read_integer_value(&batcher, "MaxInputBytesPerBatch", language, bytes),
        })
    }

    fn read_result_writer(&mut self, site: &StateSite<'_, '_>) -> Option<ResultWriter> {
        let language = site.language;
        let writer = self.read_object(site.object, "ResultWriter")?;
        self.check_fields(&writer, &RESULT_WRITER, language);
        if !writer.has("WriterConfig") {
            self.require_field(&writer, "Resource");
        }
        let config = self.read_object(&writer, "WriterConfig");
        if let Some(config) = &config {
            self.check_field_names(config, WRITER_CONFIG, "a WriterConfig");
            self.read_one_of(config, "OutputType", &["JSON", "JSONL"]);
            self.read_one_of(config, "Transformation", &["NONE", "COMPACT", "FLATTEN"]);
        }
        Some(ResultWriter {
            resource: self.read_resource(&writer).map(str::to_owned),
            arguments: self.read_arguments(&writer, language),
            config: config.map_or(Value::Null, |config| Value::Object(config.fields.clone())),
        })
    }
}
