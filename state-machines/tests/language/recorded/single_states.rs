//! Single states, recorded with TestState on AWS: a state, its input and the result of
//! its task, and the outcome. See the parent module for the files.
//!
//! Skipped are requests that AWS rejects because of the request itself, mocked results
//! for a whole Map or Parallel, and requests with their own context object or variables.

use ballast_state_machines::core::{
    Effect, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart, ExecutionStatus,
    HistoryEvent, RunActivity, TaskId, TimedEvent, apply,
};
use ballast_state_machines::language::Definition;
use serde_json::{Map, Value, json};

#[test]
fn states_match_aws() {
    let Some(text) = cases() else {
        return;
    };
    let json: Value = serde_json::from_str(&text).unwrap();
    let (mut passed, mut left_out, mut failed) = (0, 0, Vec::new());
    for case in json["cases"].as_array().unwrap() {
        match outcome(case) {
            None => left_out += 1,
            Some(Ok(())) => passed += 1,
            Some(Err(why)) => failed.push(format!("{}\n    {why}", case["id"])),
        }
    }
    let all = passed + failed.len();
    eprintln!("test-state: {passed} of {all} pass; {left_out} are skipped");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn outcome(case: &Value) -> Option<Result<(), String>> {
    let request = &case["request"];
    let own = ["context", "variables"];
    if case["is_error"] == true || own.iter().any(|name| request.get(name).is_some()) {
        return None;
    }
    let (name, state, language) = tested_state(case)?;
    let kind = state["Type"].as_str()?;
    let is_mocked = request.get("mock").is_some();
    match kind {
        "Task" if !is_mocked => return None,
        "Map" | "Parallel" => return None,
        _ => {}
    }
    let definition = single_state_machine(&name, &state, language.as_ref());
    let definition = match Definition::parse(&definition.to_string()) {
        Ok(definition) => definition,
        Err(problems) => return Some(Err(format!("the definition is rejected: {problems:?}"))),
    };
    let found = run_state(&definition, &name, request);
    Some(compare(&found, &case["response"]))
}

/// The name of the state, the state, and the query language of its machine.
fn tested_state(case: &Value) -> Option<(String, Value, Option<Value>)> {
    let definition = &case["definition"];
    if definition.get("Type").is_some() {
        return Some(("StateName".to_owned(), definition.clone(), None));
    }
    let name = case["request"]["stateName"].as_str()?;
    let state = find(definition, name)?;
    let language = definition.get("QueryLanguage").cloned();
    Some((name.to_owned(), state, language))
}

fn find(machine: &Value, name: &str) -> Option<Value> {
    let states = machine["States"].as_object()?;
    states.get(name).cloned().or_else(|| {
        states.values().find_map(|state| {
            let branches = state["Branches"].as_array().into_iter().flatten();
            let inner = [&state["ItemProcessor"], &state["Iterator"]];
            branches
                .chain(inner)
                .find_map(|machine| find(machine, name))
        })
    })
}

/// A machine with this state and placeholders for its targets.
fn single_state_machine(name: &str, state: &Value, language: Option<&Value>) -> Value {
    let mut states = Map::new();
    let mut targets = Vec::new();
    collect_targets(state, &mut targets);
    for target in targets {
        states.insert(target, json!({"Type": "Pass", "End": true}));
    }
    states.insert(name.to_owned(), state.clone());
    let mut machine = json!({"StartAt": name, "States": states});
    if let Some(language) = language {
        machine["QueryLanguage"] = language.clone();
    }
    machine
}

fn collect_targets(value: &Value, targets: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("Next" | "Default", Value::String(target)) => targets.push(target.clone()),
                    _ => collect_targets(value, targets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_targets(item, targets)),
        _ => {}
    }
}

/// Runs the state and returns the result in the format of a TestState response.
fn run_state(definition: &Definition, name: &str, request: &Value) -> Value {
    let input = match request["input"].as_str() {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => json!({}),
    };
    let mut execution = Execution::default();
    let mut history = Vec::new();
    let begin = ExecutionStart {
        execution_id: "run".to_owned(),
        name: "run".to_owned(),
        machine: "machine".to_owned(),
        role: String::new(),
        input,
        at_ms: 0,
        seed: 0,
        limits: ExecutionLimits::default(),
        origin: None,
    };
    let mut effects = step(
        definition,
        &mut execution,
        ExecutionEvent::Begun(Box::new(begin)),
        &mut history,
    );
    let retries = request["stateConfiguration"]["retrierRetryCount"].as_u64();
    for _ in 0..=retries.unwrap_or(0) {
        let task = effects.iter().find_map(|effect| match effect {
            Effect::RunTask(order) => Some(order.task),
            _ => None,
        });
        if let Some(task) = task {
            let answer = answer(task, &request["mock"]);
            effects = step(definition, &mut execution, answer, &mut history);
        }
        let timer = effects.iter().find_map(|effect| match effect {
            Effect::SetTimer { timer, .. } => Some(*timer),
            _ => None,
        });
        let is_last = history_failures(&history) > retries.unwrap_or(0) as usize;
        if let Some(timer) = timer.filter(|_| !is_last) {
            effects = step(
                definition,
                &mut execution,
                ExecutionEvent::TimerFired { timer },
                &mut history,
            );
        }
    }
    respond(name, &execution, &history, &effects)
}

fn history_failures(history: &[HistoryEvent]) -> usize {
    let failed = history
        .iter()
        .filter(|event| event.kind.as_str().ends_with("Failed"));
    failed.count()
}

fn step(
    definition: &Definition,
    execution: &mut Execution,
    event: ExecutionEvent,
    history: &mut Vec<HistoryEvent>,
) -> Vec<Effect> {
    let at_ms = execution.changed_at_ms();
    let outcome = apply(definition, execution, TimedEvent::new(event, at_ms));
    history.extend(outcome.history);
    outcome.effects
}

fn answer(task: TaskId, mock: &Value) -> ExecutionEvent {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match mock.get("errorOutput") {
        Some(error) => ExecutionEvent::TaskFailed {
            task,
            error: text(&error["error"]),
            cause: text(&error["cause"]),
        },
        None => ExecutionEvent::TaskSucceeded {
            task,
            output: serde_json::from_str(mock["result"].as_str().unwrap()).unwrap(),
        },
    }
}

fn respond(
    name: &str,
    execution: &Execution,
    history: &[HistoryEvent],
    effects: &[Effect],
) -> Value {
    let mut response = json!({});
    let position = execution.position();
    let is_retried = position
        .iter()
        .any(|at| at.doing == RunActivity::BackingOff);
    let exit = history
        .iter()
        .position(|event| event.kind.as_str().ends_with("Exited") && event.name() == Some(name));
    let failed = history
        .iter()
        .rev()
        .find(|event| event.details.contains_key("error"));
    let error_of = |response: &mut Value, event: &HistoryEvent| {
        for field in ["error", "cause"] {
            if let Some(value) = event.details.get(field) {
                response[field] = value.clone();
            }
        }
    };
    if let Some(exit) = exit {
        let output = history[exit].details["output"].as_str().unwrap();
        response["output"] = serde_json::from_str(output).unwrap();
        response["status"] = json!("SUCCEEDED");
        if let Some(failed) = failed {
            error_of(&mut response, failed);
            response["status"] = json!("CAUGHT_ERROR");
        }
        if let Some(next) = history.get(exit + 1).and_then(HistoryEvent::name) {
            response["nextState"] = json!(next);
        }
    } else if let Some(failed) = failed {
        error_of(&mut response, failed);
        response["status"] = json!(if is_retried { "RETRIABLE" } else { "FAILED" });
        assert_eq!(execution.status() == ExecutionStatus::Failed, !is_retried);
    }
    for effect in effects {
        if let Effect::SetTimer { at_ms, .. } = effect {
            response["delay"] = json!((at_ms - execution.changed_at_ms()) / 1_000);
        }
    }
    response
}

fn compare(found: &Value, expected: &Value) -> Result<(), String> {
    for field in ["status", "output", "error", "nextState"] {
        let (found, expected) = (&found[field], &expected[field]);
        let is_text_of = |text: &str| {
            serde_json::from_str::<Value>(text).is_ok_and(|value| alike(found, &value))
        };
        let is_same = alike(found, expected) || expected.as_str().is_some_and(is_text_of);
        if !is_same {
            return Err(format!("{field} is {found} instead of {expected}"));
        }
    }
    let delay = &expected["inspectionData"]["errorDetails"]["retryBackoffIntervalSeconds"];
    if delay.is_number() && *delay != found["delay"] {
        return Err(format!(
            "the delay is {} instead of {delay}",
            found["delay"]
        ));
    }
    Ok(())
}

/// Equal as JSON, except that all context objects are equal and `<…>` matches any string.
fn alike(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let is_context = |fields: &Map<String, Value>| fields.contains_key("StateMachine");
            (is_context(found) && is_context(expected))
                || (found.len() == expected.len()
                    && found.iter().all(|(name, value)| {
                        expected.get(name).is_some_and(|other| alike(value, other))
                    }))
        }
        (Value::Array(found), Value::Array(expected)) => {
            let pairs = found.iter().zip(expected);
            found.len() == expected.len() && pairs.into_iter().all(|(l, r)| alike(l, r))
        }
        (Value::String(_), Value::String(token)) if token.starts_with('<') => true,
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        _ => found == expected,
    }
}

fn cases() -> Option<String> {
    std::fs::read_to_string(super::directory()?.join("test-state.json")).ok()
}
