//! Retry and Catch.

use serde_json::{Value, json};

use super::case::{RuleCase, jsonata, state, task, with};

fn retry(more: Value) -> Value {
    task(json!({"Retry": [with(json!({"ErrorEquals": ["E"]}), more)]}))
}

fn catch(handlers: Value) -> Value {
    task(json!({"Catch": handlers}))
}

pub(crate) fn cases() -> Vec<RuleCase> {
    let full = json!({"IntervalSeconds": 1, "MaxAttempts": 0, "BackoffRate": 1.0, "MaxDelaySeconds": 2, "JitterStrategy": "FULL", "Comment": "c"});
    let good = catch(
        json!([{"ErrorEquals": ["E", "F"], "Next": "T", "ResultPath": null}, {"ErrorEquals": ["States.ALL"], "Next": "T"}]),
    );
    vec![
        state(
            "missing-field",
            "/States/S/Retry/0",
            "ErrorEquals",
            task(json!({"Retry": [{}]})),
            retry(json!({})),
        ),
        state(
            "empty",
            "/States/S/Retry/0/ErrorEquals",
            "at least one",
            task(json!({"Retry": [{"ErrorEquals": []}]})),
            retry(json!({})),
        ),
        state(
            "wrong-type",
            "/States/S/Retry/0/ErrorEquals/0",
            "the name of an error",
            task(json!({"Retry": [{"ErrorEquals": [true]}]})),
            retry(json!({})),
        ),
        state(
            "wrong-type",
            "/States/S/Retry",
            "a list",
            task(json!({"Retry": null})),
            task(json!({"Retry": []})),
        ),
        state(
            "wrong-type",
            "/States/S/Retry/0",
            "an object",
            task(json!({"Retry": ["E"]})),
            retry(json!({})),
        ),
        state(
            "unknown-field",
            "/States/S/Retry/0/Interval",
            "a retrier has no field",
            retry(json!({"Interval": 1})),
            retry(full.clone()),
        ),
        state(
            "out-of-range",
            "/States/S/Retry/0/IntervalSeconds",
            "from 1 to 99999999",
            retry(json!({"IntervalSeconds": 0})),
            retry(full.clone()),
        ),
        state(
            "out-of-range",
            "/States/S/Retry/0/MaxAttempts",
            "from 0 to 99999999",
            retry(json!({"MaxAttempts": -1})),
            retry(full.clone()),
        ),
        state(
            "out-of-range",
            "/States/S/Retry/0/BackoffRate",
            "at least 1",
            retry(json!({"BackoffRate": 0.9})),
            retry(full.clone()),
        ),
        state(
            "out-of-range",
            "/States/S/Retry/0/MaxDelaySeconds",
            "from 1 to 31622400",
            retry(json!({"MaxDelaySeconds": 31_622_401})),
            retry(full.clone()),
        ),
        state(
            "out-of-range",
            "/States/S/Retry/0/MaxDelaySeconds",
            "more than \"IntervalSeconds\", which is 5",
            retry(json!({"IntervalSeconds": 5, "MaxDelaySeconds": 5})),
            retry(json!({"IntervalSeconds": 5, "MaxDelaySeconds": 6})),
        ),
        state(
            "not-one-of",
            "/States/S/Retry/0/JitterStrategy",
            "FULL, NONE",
            retry(json!({"JitterStrategy": "SOME"})),
            retry(full),
        ),
        state(
            "states-all",
            "/States/S/Retry/0/ErrorEquals",
            "put it last",
            task(json!({"Retry": [{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["E"]}]})),
            task(json!({"Retry": [{"ErrorEquals": ["E"]}, {"ErrorEquals": ["States.ALL"]}]})),
        ),
        state(
            "states-all",
            "/States/S/Catch/0/ErrorEquals",
            "remove the others",
            catch(json!([{"ErrorEquals": ["States.ALL", "E"], "Next": "T"}])),
            good.clone(),
        ),
        state(
            "error-name",
            "/States/S/Catch/0/ErrorEquals/0",
            "did you mean \"States.Timeout\"?",
            catch(json!([{"ErrorEquals": ["States.TimeOut"], "Next": "T"}])),
            catch(json!([{"ErrorEquals": ["States.Timeout"], "Next": "T"}])),
        ),
        state(
            "missing-field",
            "/States/S/Catch/0",
            "\"Next\" is missing",
            catch(json!([{"ErrorEquals": ["E"]}])),
            good.clone(),
        ),
        state(
            "other-language",
            "/States/S/Catch/0/Output",
            "a field of JSONata",
            catch(json!([{"ErrorEquals": ["E"], "Next": "T", "Output": {}}])),
            good.clone(),
        ),
        jsonata(
            "other-language",
            "/States/S/Catch/0/ResultPath",
            "use \"Output\"",
            good,
            catch(
                json!([{"ErrorEquals": ["E"], "Next": "T", "Output": {"a": "{% $states.errorOutput %}"}, "Assign": {"e": 1}}]),
            ),
        ),
        state(
            "misplaced-field",
            "/States/S/Catch",
            "Task, Parallel, Map",
            json!({"Type": "Pass", "End": true, "Catch": []}),
            json!({"Type": "Pass", "End": true}),
        ),
    ]
}
