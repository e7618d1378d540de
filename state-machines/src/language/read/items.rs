//! Parallel and Map, and what is within them.

use serde_json::Value;

use super::fields::{
    BRANCH, ITEM_BATCHER, ITEM_READER, PROCESSOR, PROCESSOR_CONFIG, READER_CONFIG, RESULT_WRITER,
    WRITER_CONFIG,
};
use super::machine::Flow;
use super::object::Object;
use super::state::Site;
use super::tokens::is_unfilled;
use super::values::is_expression;
use super::{Durability, Reader};
use crate::data::Template;
use crate::language::model::{
    Distributed, ExecutionType, ItemBatcher, ItemReader, Items, Machine, Map, Mode, Parallel,
    Processor, QueryLanguage, ResultWriter,
};
use crate::language::problem::Code;

/// The most items that a reader takes.
const ITEMS_MAX: u64 = 100_000_000;
/// The most bytes that a batch has.
const BATCH_BYTES_MAX: u64 = 262_144;

impl Reader {
    pub(super) fn parallel(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Parallel> {
        let (object, language) = (site.object, site.language);
        self.required(object, "Branches");
        let at = object.at("Branches");
        let list = self
            .filled_list(object, "Branches")
            .map_or(&[][..], Vec::as_slice);
        let branches: Vec<Option<Machine>> = list
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let branch = self.as_object(at.item(index), value)?;
                self.allow_only(&branch, BRANCH, "a branch");
                self.text(&branch, "Comment");
                self.scope(&branch, false)
            })
            .collect();
        Some(Parallel {
            arguments: self.arguments(object, language),
            result_selector: self.result_selector(object, language),
            result: self.place(object, language),
            retry: self.retry(site),
            catch: self.catch(site, flow),
            next: self.next(site, flow)?,
            branches: branches.into_iter().collect::<Option<Vec<Machine>>>()?,
        })
    }

    pub(super) fn map(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Map> {
        let (object, language) = (site.object, site.language);
        let processor = self.processor(object);
        let mode = processor.as_ref().map(|processor| processor.mode);
        let any = (0, u64::MAX);
        let items = self.items(site);
        let map = (
            self.item_selector(site),
            self.given_integer(object, "MaxConcurrency", language, any),
            self.distributed(site, mode),
            self.result_selector(object, language),
            self.place(object, language),
            self.retry(site),
            self.catch(site, flow),
        );
        let next = self.next(site, flow);
        let (item_selector, concurrency_max, distributed, result_selector, result, retry, catch) =
            map;
        Some(Map {
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
    fn processor(&mut self, map: &Object<'_>) -> Option<Processor> {
        self.only_one(map, &["ItemProcessor", "Iterator"]);
        if map.has("Iterator") {
            self.report(
                &map.at("Iterator"),
                Code::Deprecated,
                "\"Iterator\" is now called \"ItemProcessor\"",
            );
        }
        let name = if map.has("Iterator") {
            "Iterator"
        } else {
            "ItemProcessor"
        };
        self.required(map, name);
        let object = self.object(map, name)?;
        self.allow_only(&object, PROCESSOR, "the processor of a Map");
        self.text(&object, "Comment");
        let mode = self.mode(&object);
        let around = self.durability;
        if let Some(Mode::Distributed(kind)) = mode {
            self.durability = match kind {
                ExecutionType::Standard => Durability::Standard,
                ExecutionType::Express => Durability::Express,
            };
        }
        let is_alone = matches!(mode, Some(Mode::Distributed(_)));
        let machine = self.scope(&object, is_alone);
        self.durability = around;
        Some(Processor {
            mode: mode?,
            machine: machine?,
        })
    }

    fn mode(&mut self, processor: &Object<'_>) -> Option<Mode> {
        if !processor.has("ProcessorConfig") {
            return Some(Mode::Inline);
        }
        let config = self.object(processor, "ProcessorConfig")?;
        self.allow_only(&config, PROCESSOR_CONFIG, "a ProcessorConfig");
        let kind = self.one_of(&config, "ExecutionType", &["STANDARD", "EXPRESS"]);
        let mode = self.one_of(&config, "Mode", &["INLINE", "DISTRIBUTED"]);
        if mode != Some("DISTRIBUTED") {
            return Some(Mode::Inline);
        }
        self.required(&config, "ExecutionType");
        if is_unfilled(config.get("ExecutionType")) {
            return Some(Mode::Distributed(ExecutionType::Standard));
        }
        Some(Mode::Distributed(match kind? {
            "EXPRESS" => ExecutionType::Express,
            _ => ExecutionType::Standard,
        }))
    }

    fn items(&mut self, site: &Site<'_, '_>) -> Option<Items> {
        let object = site.object;
        let (name, read) = match site.language {
            QueryLanguage::JsonPath if object.has("ItemsPath") => {
                ("ItemsPath", self.path(object, "ItemsPath").map(Items::Path))
            }
            QueryLanguage::Jsonata if object.has("Items") => ("Items", self.items_field(object)),
            _ => return Some(Items::Input),
        };
        let unfilled = is_unfilled(object.get(name));
        read.or_else(|| unfilled.then_some(Items::Input))
    }

    fn items_field(&mut self, object: &Object<'_>) -> Option<Items> {
        let at = object.at("Items");
        match object.get("Items")? {
            Value::Array(_) => self
                .template(object, "Items", QueryLanguage::Jsonata)
                .map(Items::List),
            Value::String(text) if is_expression(text) => {
                self.expression(&at, text).map(Items::Expression)
            }
            other => {
                self.wrong_type(&at, "a list, or an expression between {% and %}", other);
                None
            }
        }
    }

    /// `ItemSelector`, formerly `Parameters`.
    fn item_selector(&mut self, site: &Site<'_, '_>) -> Option<Template> {
        let (object, language) = (site.object, site.language);
        if language == QueryLanguage::Jsonata {
            self.object_or_expression(object, "ItemSelector");
            return self.template(object, "ItemSelector", language);
        }
        self.only_one(object, &["ItemSelector", "Parameters"]);
        if object.has("Parameters") {
            self.report(
                &object.at("Parameters"),
                Code::Deprecated,
                "\"Parameters\" of a Map is now called \"ItemSelector\"",
            );
            return self.template(object, "Parameters", language);
        }
        self.template(object, "ItemSelector", language)
    }

    fn distributed(&mut self, site: &Site<'_, '_>, mode: Option<Mode>) -> Distributed {
        let (object, language) = (site.object, site.language);
        if mode == Some(Mode::Inline) {
            for name in ["ItemReader", "ItemBatcher", "ResultWriter", "Label"] {
                if object.has(name) {
                    let message = format!(
                        "{name:?} is for a distributed Map; set \"Mode\": \"DISTRIBUTED\" in its ProcessorConfig"
                    );
                    self.report(&object.at(name), Code::NotDistributed, message);
                }
            }
        }
        let any = (0, u64::MAX);
        Distributed {
            label: self.label(object).map(str::to_owned),
            failures_max: self.given_integer(object, "ToleratedFailureCount", language, any),
            failures_percent_max: self.given_number(
                object,
                "ToleratedFailurePercentage",
                language,
                (0.0, 100.0),
            ),
            reader: self.item_reader(site),
            batcher: self.item_batcher(site),
            writer: self.result_writer(site),
        }
    }

    fn item_reader(&mut self, site: &Site<'_, '_>) -> Option<ItemReader> {
        let language = site.language;
        let reader = self.object(site.object, "ItemReader")?;
        self.allow(&reader, &ITEM_READER, language);
        self.required(&reader, "Resource");
        let resource = self.resource(&reader);
        let arguments = self.arguments(&reader, language);
        let config = self.object(&reader, "ReaderConfig");
        let items_max = config
            .as_ref()
            .and_then(|config| self.reader_config(config, language));
        Some(ItemReader {
            resource: resource?.to_owned(),
            arguments,
            items_max,
            config: config.map_or(Value::Null, |config| Value::Object(config.fields.clone())),
        })
    }

    fn reader_config(
        &mut self,
        config: &Object<'_>,
        language: QueryLanguage,
    ) -> Option<crate::language::model::Given<u64>> {
        self.allow(config, &READER_CONFIG, language);
        let types = ["CSV", "JSON", "JSONL", "MANIFEST", "PARQUET"];
        self.one_of(config, "InputType", &types);
        self.one_of(config, "Transformation", &["NONE", "LOAD_AND_FLATTEN"]);
        self.one_of(config, "ManifestType", &["ATHENA_DATA", "S3_INVENTORY"]);
        let delimiters = ["COMMA", "PIPE", "SEMICOLON", "SPACE", "TAB"];
        self.one_of(config, "CSVDelimiter", &delimiters);
        self.text(config, "ItemsPointer");
        let headers = self.one_of(config, "CSVHeaderLocation", &["FIRST_ROW", "GIVEN"]);
        if headers == Some("GIVEN") {
            self.required(config, "CSVHeaders");
        }
        let at = config.at("CSVHeaders");
        let names = self.list(config, "CSVHeaders");
        for (index, name) in names.into_iter().flatten().enumerate() {
            if !name.is_string() {
                self.wrong_type(&at.item(index), "the name of a column", name);
            }
        }
        self.given_integer(config, "MaxItems", language, (0, ITEMS_MAX))
    }

    fn item_batcher(&mut self, site: &Site<'_, '_>) -> Option<ItemBatcher> {
        let language = site.language;
        let batcher = self.object(site.object, "ItemBatcher")?;
        self.allow(&batcher, &ITEM_BATCHER, language);
        let bytes = (1, BATCH_BYTES_MAX);
        Some(ItemBatcher {
            input: self.template(&batcher, "BatchInput", language),
            items_max: self.given_integer(&batcher, "MaxItemsPerBatch", language, (1, u64::MAX)),
            bytes_max: self.given_integer(&batcher, "MaxInputBytesPerBatch", language, bytes),
        })
    }

    fn result_writer(&mut self, site: &Site<'_, '_>) -> Option<ResultWriter> {
        let language = site.language;
        let writer = self.object(site.object, "ResultWriter")?;
        self.allow(&writer, &RESULT_WRITER, language);
        if !writer.has("WriterConfig") {
            self.required(&writer, "Resource");
        }
        let config = self.object(&writer, "WriterConfig");
        if let Some(config) = &config {
            self.allow_only(config, WRITER_CONFIG, "a WriterConfig");
            self.one_of(config, "OutputType", &["JSON", "JSONL"]);
            self.one_of(config, "Transformation", &["NONE", "COMPACT", "FLATTEN"]);
        }
        Some(ResultWriter {
            resource: self.resource(&writer).map(str::to_owned),
            arguments: self.arguments(&writer, language),
            config: config.map_or(Value::Null, |config| Value::Object(config.fields.clone())),
        })
    }
}
