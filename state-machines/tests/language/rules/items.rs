//! Parallel and Map.

use serde_json::{Value, json};

use super::case::{RuleCase, jsonata, state, with};

fn machine() -> Value {
    json!({"StartAt": "I", "States": {"I": {"Type": "Pass", "End": true}}})
}

fn map(more: Value) -> Value {
    with(
        json!({"Type": "Map", "ItemProcessor": machine(), "End": true}),
        more,
    )
}

/// A distributed Map.
fn distributed_map(more: Value) -> Value {
    let config = json!({"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}});
    let processor = with(machine(), config);
    with(
        json!({"Type": "Map", "ItemProcessor": processor, "End": true}),
        more,
    )
}

fn config(config: Value) -> Value {
    json!({"Type": "Map", "ItemProcessor": with(machine(), json!({"ProcessorConfig": config})), "End": true})
}

fn reader(config: Value) -> Value {
    distributed_map(json!({"ItemReader": {"Resource": "r", "ReaderConfig": config}}))
}

pub(crate) fn cases() -> Vec<RuleCase> {
    let mut cases = parallel();
    cases.extend(processor());
    cases.extend(numbers());
    cases.extend(reader_and_writer());
    cases
}

fn parallel() -> Vec<RuleCase> {
    let good = json!({"Type": "Parallel", "Branches": [machine()], "End": true});
    vec![
        state(
            "missing-field",
            "/States/S",
            "\"Branches\" is missing",
            json!({"Type": "Parallel", "End": true}),
            good.clone(),
        ),
        state(
            "empty",
            "/States/S/Branches",
            "at least one",
            json!({"Type": "Parallel", "Branches": [], "End": true}),
            good.clone(),
        ),
        state(
            "wrong-type",
            "/States/S/Branches/0",
            "an object",
            json!({"Type": "Parallel", "Branches": ["I"], "End": true}),
            good.clone(),
        ),
        state(
            "unknown-field",
            "/States/S/Branches/0/TimeoutSeconds",
            "a branch has no field",
            json!({"Type": "Parallel", "Branches": [with(machine(), json!({"TimeoutSeconds": 1}))], "End": true}),
            good,
        ),
    ]
}

fn processor() -> Vec<RuleCase> {
    let old = json!({"Type": "Map", "Iterator": machine(), "End": true});
    vec![
        state(
            "missing-field",
            "/States/S",
            "\"ItemProcessor\" is missing",
            json!({"Type": "Map", "End": true}),
            map(json!({})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "ItemProcessor, Iterator",
            map(json!({"Iterator": machine()})),
            map(json!({})),
        ),
        state(
            "deprecated",
            "/States/S/Iterator",
            "\"ItemProcessor\"",
            old.clone(),
            map(json!({})),
        ),
        state(
            "deprecated",
            "/States/S/Parameters",
            "\"ItemSelector\"",
            map(json!({"Parameters": {}})),
            map(json!({"ItemSelector": {}})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "ItemSelector, Parameters",
            map(json!({"Parameters": {}, "ItemSelector": {}})),
            map(json!({"ItemSelector": {}})),
        ),
        state(
            "not-one-of",
            "/States/S/ItemProcessor/ProcessorConfig/Mode",
            "INLINE, DISTRIBUTED",
            config(json!({"Mode": "LOCAL"})),
            config(json!({"Mode": "INLINE"})),
        ),
        state(
            "missing-field",
            "/States/S/ItemProcessor/ProcessorConfig",
            "ExecutionType",
            config(json!({"Mode": "DISTRIBUTED"})),
            distributed_map(json!({})),
        ),
        state(
            "not-one-of",
            "/States/S/ItemProcessor/ProcessorConfig/ExecutionType",
            "STANDARD, EXPRESS",
            config(json!({"Mode": "DISTRIBUTED", "ExecutionType": "FAST"})),
            config(json!({"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"})),
        ),
        state(
            "unknown-field",
            "/States/S/ItemProcessor/ProcessorConfig/Type",
            "a ProcessorConfig has no field",
            config(json!({"Type": 1})),
            config(json!({})),
        ),
        jsonata(
            "wrong-type",
            "/States/S/Items",
            "a list, or an expression",
            map(json!({"Items": {"a": 1}})),
            map(json!({"Items": [1, "{% 2 %}"]})),
        ),
        jsonata(
            "wrong-type",
            "/States/S/Items",
            "a list, or an expression",
            map(json!({"Items": "$.a"})),
            map(json!({"Items": "{% $states.input %}"})),
        ),
        jsonata(
            "expression",
            "/States/S/ItemSelector",
            "between {% and %}",
            map(json!({"ItemSelector": "x"})),
            map(json!({"ItemSelector": "{% 1 %}"})),
        ),
    ]
}

fn numbers() -> Vec<RuleCase> {
    vec![
        state(
            "out-of-range",
            "/States/S/MaxConcurrency",
            "at least 0",
            map(json!({"MaxConcurrency": -1})),
            map(json!({"MaxConcurrency": 0})),
        ),
        state(
            "only-one-of",
            "/States/S",
            "MaxConcurrency, MaxConcurrencyPath",
            map(json!({"MaxConcurrency": 1, "MaxConcurrencyPath": "$.n"})),
            map(json!({"MaxConcurrencyPath": "$.n"})),
        ),
        state(
            "out-of-range",
            "/States/S/ToleratedFailurePercentage",
            "from 0 to 100",
            distributed_map(json!({"ToleratedFailurePercentage": 100.5})),
            distributed_map(json!({"ToleratedFailurePercentage": 99.5})),
        ),
        jsonata(
            "wrong-type",
            "/States/S/ToleratedFailureCount",
            "a whole number",
            distributed_map(json!({"ToleratedFailureCount": "3"})),
            distributed_map(json!({"ToleratedFailureCount": "{% 3 %}"})),
        ),
        state(
            "out-of-range",
            "/States/S/ItemReader/ReaderConfig/MaxItems",
            "100000000",
            reader(json!({"MaxItems": 100_000_001})),
            reader(json!({"MaxItems": 0})),
        ),
        state(
            "only-one-of",
            "/States/S/ItemReader/ReaderConfig",
            "MaxItems, MaxItemsPath",
            reader(json!({"MaxItems": 1, "MaxItemsPath": "$.n"})),
            reader(json!({"MaxItemsPath": "$.n"})),
        ),
        state(
            "out-of-range",
            "/States/S/ItemBatcher/MaxItemsPerBatch",
            "at least 1",
            distributed_map(json!({"ItemBatcher": {"MaxItemsPerBatch": 0}})),
            distributed_map(json!({"ItemBatcher": {"MaxItemsPerBatch": 1}})),
        ),
        state(
            "out-of-range",
            "/States/S/ItemBatcher/MaxInputBytesPerBatch",
            "262144",
            distributed_map(json!({"ItemBatcher": {"MaxInputBytesPerBatch": 262_145}})),
            distributed_map(
                json!({"ItemBatcher": {"MaxInputBytesPerBatch": 262_144, "BatchInput": {}}}),
            ),
        ),
    ]
}

fn reader_and_writer() -> Vec<RuleCase> {
    let csv = json!({"InputType": "CSV", "CSVHeaderLocation": "GIVEN", "CSVHeaders": ["a"], "CSVDelimiter": "TAB"});
    vec![
        state(
            "label",
            "/States/S/Label",
            "1 to 40",
            distributed_map(json!({"Label": "x".repeat(41)})),
            distributed_map(json!({"Label": "x".repeat(40)})),
        ),
        state(
            "label",
            "/States/S/Label",
            "cannot hold ' '",
            distributed_map(json!({"Label": "a b"})),
            distributed_map(json!({"Label": "größe-1"})),
        ),
        state(
            "label",
            "/States/S/Label",
            "cannot hold",
            distributed_map(json!({"Label": "a\u{9f}"})),
            distributed_map(json!({"Label": "a"})),
        ),
        state(
            "not-distributed",
            "/States/S/ItemBatcher",
            "DISTRIBUTED",
            map(json!({"ItemBatcher": {"MaxItemsPerBatch": 1}})),
            distributed_map(json!({"ItemBatcher": {"MaxItemsPerBatch": 1}})),
        ),
        state(
            "missing-field",
            "/States/S/ItemReader",
            "\"Resource\" is missing",
            distributed_map(json!({"ItemReader": {}})),
            reader(json!({})),
        ),
        state(
            "not-one-of",
            "/States/S/ItemReader/ReaderConfig/InputType",
            "CSV, JSON",
            reader(json!({"InputType": "XML"})),
            reader(csv.clone()),
        ),
        state(
            "missing-field",
            "/States/S/ItemReader/ReaderConfig",
            "CSVHeaders",
            reader(json!({"CSVHeaderLocation": "GIVEN"})),
            reader(csv.clone()),
        ),
        state(
            "wrong-type",
            "/States/S/ItemReader/ReaderConfig/CSVHeaders/0",
            "the name of a column",
            reader(json!({"CSVHeaders": [1]})),
            reader(csv),
        ),
        state(
            "missing-field",
            "/States/S/ResultWriter",
            "\"Resource\" is missing",
            distributed_map(json!({"ResultWriter": {}})),
            distributed_map(json!({"ResultWriter": {"WriterConfig": {"OutputType": "JSONL"}}})),
        ),
        state(
            "not-one-of",
            "/States/S/ResultWriter/WriterConfig/Transformation",
            "COMPACT",
            distributed_map(json!({"ResultWriter": {"WriterConfig": {"Transformation": "ALL"}}})),
            distributed_map(
                json!({"ResultWriter": {"Resource": "r", "Parameters": {}, "WriterConfig": {"Transformation": "FLATTEN"}}}),
            ),
        ),
    ]
}
