//! The allowed fields per type of state and query language.
//!
//! Like AWS, this rejects unknown fields: otherwise a misspelt `Catch` would go
//! unnoticed until it is needed.

use super::object::JsonObject;
use super::{DefinitionReader, suggest};
use crate::language::model::QueryLanguage;
use crate::language::problem::ProblemCode;

/// The top level of a definition.
pub(super) const DEFINITION: &[&str] = &[
    "Comment",
    "StartAt",
    "States",
    "Version",
    "TimeoutSeconds",
    "QueryLanguage",
];
/// A branch of a Parallel.
pub(super) const BRANCH: &[&str] = &["Comment", "StartAt", "States"];
/// The processor of a Map.
pub(super) const PROCESSOR: &[&str] = &["Comment", "StartAt", "States", "ProcessorConfig"];
/// `ProcessorConfig`.
pub(super) const PROCESSOR_CONFIG: &[&str] = &["Mode", "ExecutionType"];

/// The fields of an object that differ by query language.
pub(super) struct AllowedFields {
    /// The name in messages.
    pub(super) what: &'static str,
    /// Fields in both languages.
    pub(super) both: &'static [&'static str],
    /// Fields in JSONPath only.
    pub(super) json_path: &'static [&'static str],
    /// Fields in JSONata only.
    pub(super) jsonata: &'static [&'static str],
}

const COMMON: &[&str] = &["Type", "Comment", "QueryLanguage"];

/// The fields of the eight types of state.
pub(super) const STATES: &[(&str, AllowedFields)] = &[
    (
        "Task",
        AllowedFields {
            what: "a Task",
            both: &[
                "Resource",
                "TimeoutSeconds",
                "HeartbeatSeconds",
                "Credentials",
                "Retry",
                "Catch",
                "Assign",
                "Next",
                "End",
            ],
            json_path: &[
                "InputPath",
                "OutputPath",
                "Parameters",
                "ResultSelector",
                "ResultPath",
                "TimeoutSecondsPath",
                "HeartbeatSecondsPath",
            ],
            jsonata: &["Arguments", "Output"],
        },
    ),
    (
        "Parallel",
        AllowedFields {
            what: "a Parallel",
            both: &["Branches", "Retry", "Catch", "Assign", "Next", "End"],
            json_path: &[
                "InputPath",
                "OutputPath",
                "Parameters",
                "ResultSelector",
                "ResultPath",
            ],
            jsonata: &["Arguments", "Output"],
        },
    ),
    (
        "Map",
        AllowedFields {
            what: "a Map",
            both: &[
                "ItemProcessor",
                "Iterator",
                "ItemSelector",
                "ItemReader",
                "ItemBatcher",
                "ResultWriter",
                "MaxConcurrency",
                "ToleratedFailureCount",
                "ToleratedFailurePercentage",
                "Label",
                "Retry",
                "Catch",
                "Assign",
                "Next",
                "End",
            ],
            json_path: &[
                "InputPath",
                "OutputPath",
                "ItemsPath",
                "Parameters",
                "ResultSelector",
                "ResultPath",
                "MaxConcurrencyPath",
                "ToleratedFailureCountPath",
                "ToleratedFailurePercentagePath",
            ],
            jsonata: &["Items", "Output"],
        },
    ),
    (
        "Choice",
        AllowedFields {
            what: "a Choice",
            both: &["Choices", "Default", "Assign"],
            json_path: &["InputPath", "OutputPath"],
            jsonata: &["Output"],
        },
    ),
    (
        "Wait",
        AllowedFields {
            what: "a Wait",
            both: &["Seconds", "Timestamp", "Assign", "Next", "End"],
            json_path: &["InputPath", "OutputPath", "SecondsPath", "TimestampPath"],
            jsonata: &["Output"],
        },
    ),
    (
        "Pass",
        AllowedFields {
            what: "a Pass",
            both: &["Assign", "Next", "End"],
            json_path: &[
                "InputPath",
                "OutputPath",
                "Parameters",
                "Result",
                "ResultPath",
            ],
            jsonata: &["Output"],
        },
    ),
    (
        "Succeed",
        AllowedFields {
            what: "a Succeed",
            both: &[],
            json_path: &["InputPath", "OutputPath"],
            jsonata: &["Output"],
        },
    ),
    (
        "Fail",
        AllowedFields {
            what: "a Fail",
            both: &["Error", "Cause"],
            json_path: &["ErrorPath", "CausePath"],
            jsonata: &[],
        },
    ),
];

/// A rule of a Choice in JSONata; in JSONPath its fields are comparisons.
pub(super) const RULE: AllowedFields = AllowedFields {
    what: "a rule",
    both: &["Next", "Comment", "Assign"],
    json_path: &["Variable", "And", "Or", "Not"],
    jsonata: &["Condition", "Output"],
};
/// An element of `Retry`.
pub(super) const RETRIER: &[&str] = &[
    "ErrorEquals",
    "IntervalSeconds",
    "MaxAttempts",
    "BackoffRate",
    "MaxDelaySeconds",
    "JitterStrategy",
    "Comment",
];
/// An element of `Catch`.
pub(super) const CATCHER: AllowedFields = AllowedFields {
    what: "a catcher",
    both: &["ErrorEquals", "Next", "Assign", "Comment"],
    json_path: &["ResultPath"],
    jsonata: &["Output"],
};
/// `ItemReader`.
pub(super) const ITEM_READER: AllowedFields = AllowedFields {
    what: "an ItemReader",
    both: &["Resource", "ReaderConfig"],
    json_path: &["Parameters"],
    jsonata: &["Arguments"],
};
/// `ReaderConfig`.
pub(super) const READER_CONFIG: AllowedFields = AllowedFields {
    what: "a ReaderConfig",
    both: &[
        "InputType",
        "Transformation",
        "ManifestType",
        "ItemsPointer",
        "CSVHeaderLocation",
        "CSVHeaders",
        "CSVDelimiter",
        "MaxItems",
    ],
    json_path: &["MaxItemsPath"],
    jsonata: &[],
};
/// `ItemBatcher`.
pub(super) const ITEM_BATCHER: AllowedFields = AllowedFields {
    what: "an ItemBatcher",
    both: &["BatchInput", "MaxItemsPerBatch", "MaxInputBytesPerBatch"],
    json_path: &["MaxItemsPerBatchPath", "MaxInputBytesPerBatchPath"],
    jsonata: &[],
};
/// `ResultWriter`.
pub(super) const RESULT_WRITER: AllowedFields = AllowedFields {
    what: "a ResultWriter",
    both: &["Resource", "WriterConfig"],
    json_path: &["Parameters"],
    jsonata: &["Arguments"],
};
/// `WriterConfig`.
pub(super) const WRITER_CONFIG: &[&str] = &["OutputType", "Transformation"];

impl DefinitionReader {
    /// Reports fields that are not in the list.
    pub(super) fn check_field_names(
        &mut self,
        object: &JsonObject<'_>,
        allowed: &[&str],
        what: &str,
    ) {
        for name in object.fields.keys() {
            if !allowed.contains(&name.as_str()) {
                let hint = suggest::suggest_name(name, allowed.iter().copied());
                self.report(
                    &object.pointer_to(name),
                    ProblemCode::UnknownField,
                    format!("{what} has no field {name:?}{hint}"),
                );
            }
        }
    }

    /// Reports fields that the object may not have in this query language.
    pub(super) fn check_fields(
        &mut self,
        object: &JsonObject<'_>,
        fields: &AllowedFields,
        language: QueryLanguage,
    ) {
        for name in object.fields.keys() {
            self.check_field(object, name, fields, language);
        }
    }

    fn check_field(
        &mut self,
        object: &JsonObject<'_>,
        name: &str,
        fields: &AllowedFields,
        language: QueryLanguage,
    ) {
        let (own, other, other_language) = match language {
            QueryLanguage::JsonPath => (fields.json_path, fields.jsonata, QueryLanguage::Jsonata),
            QueryLanguage::Jsonata => (fields.jsonata, fields.json_path, QueryLanguage::JsonPath),
        };
        let is_state = STATES.iter().any(|(_, state)| state.what == fields.what);
        let common = if is_state { COMMON } else { &[] };
        if [common, fields.both, own]
            .iter()
            .any(|list| list.contains(&name))
        {
            return;
        }
        let what = fields.what;
        let at = object.pointer_to(name);
        if other.contains(&name) {
            self.report(
                &at,
                ProblemCode::OtherLanguage,
                format!(
                    "{name:?} is a field of {}, and this is {}; {}",
                    other_language.as_str(),
                    language.as_str(),
                    suggest_replacement(name)
                ),
            );
            return;
        }
        let owners: Vec<&str> = STATES
            .iter()
            .filter(|(_, s)| s.contains(name))
            .map(|(n, _)| *n)
            .collect();
        if is_state && !owners.is_empty() {
            let owners = owners.join(", ");
            self.report(
                &at,
                ProblemCode::MisplacedField,
                format!("{what} has no field {name:?}; only these have: {owners}"),
            );
            return;
        }
        let known = common.iter().chain(fields.both).chain(own).copied();
        let hint = suggest::suggest_name(name, known);
        self.report(
            &at,
            ProblemCode::UnknownField,
            format!("{what} has no field {name:?}{hint}"),
        );
    }
}

impl AllowedFields {
    fn contains(&self, name: &str) -> bool {
        [self.both, self.json_path, self.jsonata]
            .iter()
            .any(|list| list.contains(&name))
    }
}

/// The replacement for a field of the other query language.
fn suggest_replacement(name: &str) -> &'static str {
    match name {
        "Parameters" => "use \"Arguments\" or \"Output\"",
        "Arguments" => "use \"Parameters\"",
        "InputPath" => "use \"$states.input\" where the value is needed",
        "OutputPath" | "ResultPath" | "ResultSelector" | "Result" => "use \"Output\"",
        "Output" => "use \"ResultSelector\", \"ResultPath\" and \"OutputPath\"",
        "ItemsPath" => "use \"Items\"",
        "Items" => "use \"ItemsPath\"",
        "Condition" => "use \"Variable\" and a comparison",
        "Variable" | "And" | "Or" | "Not" => "use \"Condition\"",
        _ => "write the value as an expression between {% and %}, without \"Path\" in the name",
    }
}
