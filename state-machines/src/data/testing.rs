//! A scope for the tests of this module.

use serde_json::{Map, Value, json};

use super::EvaluationScope;

/// Runs `check` with a scope of this input, a context object and two variables.
pub(super) fn with_scope<R>(input: &Value, check: impl FnOnce(&EvaluationScope<'_>) -> R) -> R {
    let context = json!({"Execution": {"Id": "run-1", "Input": {"deep": true}}});
    let variables: Map<String, Value> = [
        ("x".to_owned(), json!(42)),
        (
            "order".to_owned(),
            json!({"id": "o-1", "lines": [{"sku": "a"}, {"sku": "b"}]}),
        ),
    ]
    .into_iter()
    .collect();
    check(&EvaluationScope::new(input, &context, &variables))
}
