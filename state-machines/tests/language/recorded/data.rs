//! Recorded results of choices and single Pass states on AWS, and the test suite of
//! JSONata. See the parent module for the files.

use std::collections::BTreeMap;

use ballast_state_machines::data::pipeline::{
    self, PathSelect, ResultPlacement, input_path, output_path, parameters, result_path,
};
use ballast_state_machines::data::{ChoiceCondition, EvaluationScope, Expression, Template};
use serde_json::{Map, Value, json};

/// Reads a file of cases, if present.
fn cases_text(file: &str) -> Option<String> {
    std::fs::read_to_string(super::directory()?.join(file)).ok()
}

fn cases(file: &str) -> Option<Vec<Value>> {
    let document: Value = serde_json::from_str(&cases_text(file)?).unwrap();
    Some(document["cases"].as_array().unwrap().clone())
}

/// Compares the outcomes with the known failures.
fn compare_failures(file: &str, outcomes: &BTreeMap<String, Result<(), String>>, left_out: usize) {
    let failed: BTreeMap<String, String> = outcomes
        .iter()
        .filter_map(|(id, outcome)| Some((format!("{file} {id}"), outcome.clone().err()?)))
        .collect();
    println!(
        "{file}: {} of {} pass; {left_out} are skipped",
        outcomes.len() - failed.len(),
        outcomes.len()
    );
    let list = "known_failures_data.txt";
    let mut known = super::parse_known(include_str!("known_failures_data.txt"));
    known.retain(|id| id.split(' ').next() == Some(file));
    super::compare_with_known(list, &known, &failed);
}

/// Equal as JSON, numbers by value.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, l)| right.get(name).is_some_and(|r| same(l, r)))
        }
        _ => left == right,
    }
}

fn equal(found: &Value, expected: &Value) -> Result<(), String> {
    if same(found, expected) {
        return Ok(());
    }
    Err(format!("{found} instead of {expected}"))
}

/// The first state of a case.
fn first_state(case: &Value) -> Option<&Value> {
    let definition = &case["definition"];
    definition["States"].get(definition["StartAt"].as_str()?)
}

/// The `Result` of the state that the first matching rule leads to.
fn choose(case: &Value, state: &Value) -> Result<Value, String> {
    let (context, variables) = (json!({}), Map::new());
    let scope = EvaluationScope::new(&case["input"], &context, &variables);
    let mut next = &state["Default"];
    for rule in state["Choices"].as_array().unwrap() {
        let condition = ChoiceCondition::parse(rule).map_err(|errors| format!("{errors:?}"))?;
        if condition.holds(&scope).map_err(|fault| fault.to_string())? {
            next = &rule["Next"];
            break;
        }
    }
    let state = &case["definition"]["States"][next.as_str().unwrap_or_default()];
    Ok(state["Result"].clone())
}

fn check_choices(file: &str) {
    let Some(cases) = cases(file) else { return };
    let mut left_out = 0;
    let mut outcomes = BTreeMap::new();
    for case in &cases {
        let Some(state) = first_state(case).filter(|state| state["Type"] == "Choice") else {
            left_out += 1;
            continue;
        };
        let outcome = choose(case, state);
        let outcome = outcome.and_then(|found| equal(&found, &case["expected"]["output"]));
        outcomes.insert(case["id"].as_str().unwrap().to_owned(), outcome);
    }
    compare_failures(file, &outcomes, left_out);
}

#[test]
fn choices_match_aws() {
    check_choices("choice-comparators.json");
}

#[test]
fn choices_match_another_engine() {
    check_choices("choice-extra-nibble.json");
}

/// Evaluates a Pass state.
fn pass(state: &Value, jsonata: bool, input: &Value) -> Result<Value, String> {
    let context = json!({"Execution": {"Input": input}});
    let variables = Map::new();
    let mut scope = EvaluationScope::new(input, &context, &variables);
    let all = |errors: Vec<_>| format!("{errors:?}");
    if jsonata {
        let result = state.get("Result").unwrap_or(input);
        scope.result = Some(result);
        return match state.get("Output") {
            Some(output) => {
                let template = Template::jsonata(output).map_err(all)?;
                template
                    .fill(&scope)
                    .map_err(|fault| fault.error.to_owned())
            }
            None => Ok(result.clone()),
        };
    }
    let run = || {
        let before = PathSelect::parse(state.get("InputPath")).map_err(|error| vec![error]);
        let placement =
            ResultPlacement::parse(state.get("ResultPath")).map_err(|error| vec![error]);
        let after = PathSelect::parse(state.get("OutputPath")).map_err(|error| vec![error]);
        let template = state.get("Parameters").map(Template::json_path).transpose();
        Ok((before?, template?, placement?, after?))
    };
    let (before, template, placement, after) = run().map_err(all)?;
    let fault = |fault: ballast_state_machines::data::EvaluationFault| fault.error.to_owned();
    let selected = input_path(&before, &scope).map_err(fault)?;
    let effective = parameters(template.as_ref(), selected, &scope).map_err(fault)?;
    let result = state
        .get("Result")
        .cloned()
        .unwrap_or_else(|| effective.into_owned());
    let placed = result_path(&placement, input.clone(), result).map_err(fault)?;
    let output = output_path(&after, &placed, &scope).map_err(fault)?;
    pipeline::check_size(&output, "the output").map_err(fault)?;
    Ok(output.into_owned())
}

fn check_passes(file: &str) {
    let Some(cases) = cases(file) else { return };
    let mut left_out = 0;
    let mut outcomes = BTreeMap::new();
    for case in &cases {
        let alone = case["definition"]["States"].as_object().unwrap().len() == 1;
        let comparable = case["deterministic_output"] == true
            && case["placeholder_paths"] == json!([])
            && case["input_placeholders"] == json!([]);
        let state = first_state(case).filter(|state| state["Type"] == "Pass");
        let Some(state) = state.filter(|_| alone && comparable) else {
            left_out += 1;
            continue;
        };
        let language = state
            .get("QueryLanguage")
            .or(case["definition"].get("QueryLanguage"));
        let jsonata = language.is_some_and(|language| language == "JSONata");
        let outcome = match (pass(state, jsonata, &case["input"]), &case["expected"]) {
            (Ok(output), expected) if expected["status"] == "SUCCEEDED" => {
                equal(&output, &expected["output"])
            }
            (Err(error), expected) if expected["error"] == error.as_str() => Ok(()),
            (outcome, expected) => Err(format!("{outcome:?} instead of {expected}")),
        };
        outcomes.insert(case["id"].as_str().unwrap().to_owned(), outcome);
    }
    compare_failures(file, &outcomes, left_out);
}

#[test]
fn pass_states_match_aws() {
    check_passes("exec-jsonpath.json");
    check_passes("exec-variables.json");
    check_passes("exec-jsonata.json");
}

/// Replaces unpaired surrogates by a marker: they are not valid text, and no JSON parser
/// in Rust accepts them. Cases with the marker are skipped.
fn without_half_surrogates(text: &str) -> String {
    const MARK: &str = "half-surrogate";
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        // An escaped backslash before the `u` is not a character escape.
        let escaped = rest[..at].bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1;
        let unit = |from: usize| u16::from_str_radix(rest.get(from + 2..from + 6)?, 16).ok();
        let paired = rest.get(at + 6..at + 8) == Some("\\u")
            && unit(at + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        let (kept, mark) = match unit(at).filter(|_| !escaped) {
            Some(0xD800..0xDC00) if paired => (at + 12, ""),
            Some(0xD800..0xE000) => (at, MARK),
            Some(_) => (at + 6, ""),
            None => (at + 2, ""),
        };
        whole.push_str(&rest[..kept]);
        whole.push_str(mark);
        rest = &rest[if mark.is_empty() { kept } else { at + 6 }..];
    }
    whole.push_str(rest);
    whole
}

/// Runs a case of the JSONata suite.
fn jsonata_case(case: &Value, datasets: &Value) -> Result<(), String> {
    let document = match case.get("dataset") {
        Some(Value::String(name)) => datasets.get(name),
        Some(_) => None,
        None => case.get("data"),
    };
    let bindings = case["bindings"].as_object().cloned().unwrap_or_default();
    let outcome = Expression::parse_bare(case["expr"].as_str().unwrap_or_default())
        .map_err(|error| error.reason)
        .and_then(|expression| {
            let outcome = expression.evaluate_on(document, &bindings);
            outcome.map_err(|fault| fault.cause)
        });
    let code = case.get("code").or_else(|| case["error"].get("code"));
    match (outcome, code) {
        (Err(cause), Some(code)) if cause.contains(code.as_str().unwrap_or("?")) => Ok(()),
        (outcome, Some(code)) => Err(format!("{outcome:?} instead of the error {code}")),
        (Ok(None), None) if case["undefinedResult"] == true => Ok(()),
        (Ok(Some(found)), None) if case["unordered"] == true => {
            equal(&sorted(&found), &sorted(&case["result"]))
        }
        (Ok(Some(found)), None) if case.get("result").is_some() => equal(&found, &case["result"]),
        (outcome, None) => Err(format!("{outcome:?} instead of {}", case["result"])),
    }
}

fn sorted(value: &Value) -> Value {
    let mut items = value.as_array().cloned().unwrap_or_default();
    items.sort_by_key(Value::to_string);
    Value::Array(items)
}

#[test]
fn the_jsonata_suite_passes() {
    let file = "jsonata-test-suite.json";
    let Some(text) = cases_text(file) else { return };
    let document: Value = serde_json::from_str(&without_half_surrogates(&text)).unwrap();
    let mut left_out = 0;
    let mut outcomes = BTreeMap::new();
    for case in document["cases"].as_array().unwrap() {
        if case.to_string().contains("half-surrogate") {
            left_out += 1;
            continue;
        }
        let part = |name: &str| case[name].to_string().replace('"', "");
        let id = format!("{}/{}#{}", part("group"), part("file"), part("i"));
        outcomes.insert(id, jsonata_case(case, &document["datasets"]));
    }
    compare_failures(file, &outcomes, left_out);
}
