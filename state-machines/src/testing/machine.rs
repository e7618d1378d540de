//! Random definitions. States lead only to later ones, so that every machine ends;
//! loops count with a variable.

use serde_json::{Map, Value, json};

use super::ERRORS;
use crate::data::random::{SeededRandom, seed_for};

/// The maximum nesting of machines.
const DEPTH_MAX: u64 = 2;
/// The maximum number of steps per machine.
const STEPS_MAX: u64 = 5;

/// A random valid definition that ends for any results of its tasks.
#[must_use]
pub fn random_machine(seed: u64) -> Value {
    let mut generator = MachineGenerator {
        random: SeededRandom::new(seed_for(seed, "machine")),
        named: 0,
    };
    let mut machine = generator.machine(0);
    if generator.random.next_below(8) == 0 {
        machine["TimeoutSeconds"] = json!(1 + generator.random.next_below(200));
    }
    machine
}

struct MachineGenerator {
    random: SeededRandom,
    /// How many names were generated; names are unique in a definition.
    named: u64,
}

/// A step of a machine: one or more states; the first is the entry.
struct GeneratedStep {
    states: Vec<(String, Value)>,
}

impl MachineGenerator {
    fn below(&self, bound: u64) -> u64 {
        self.random.next_below(bound)
    }

    fn name(&mut self, kind: &str) -> String {
        self.named += 1;
        format!("{kind} {}", self.named)
    }

    fn machine(&mut self, depth: u64) -> Value {
        let count = 1 + self.below(STEPS_MAX);
        let mut steps: Vec<GeneratedStep> = (0..count).map(|_| self.step(depth)).collect();
        steps.push(self.end_step());
        let entries: Vec<String> = steps.iter().map(GeneratedStep::entry_state).collect();
        let mut states = Map::new();
        for (index, step) in steps.into_iter().enumerate() {
            let next = entries.get(index + 1);
            let later = entries.get(index + 1..).unwrap_or_default();
            for (name, mut state) in step.states {
                self.link_states(&mut state, next, later);
                states.insert(name, state);
            }
        }
        json!({"StartAt": entries.first(), "States": states})
    }

    /// Replaces the placeholder targets of a state: `"next"` by the next step, and
    /// `"later"` by a random later one.
    fn link_states(&self, state: &mut Value, next: Option<&String>, later: &[String]) {
        match state {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match (name.as_str(), value.as_str()) {
                        ("Next" | "Default", Some("next")) => *value = json!(next),
                        ("Next" | "Default", Some("later")) => {
                            let index = self.below(later.len() as u64) as usize;
                            *value = json!(later.get(index));
                        }
                        ("Branches" | "ItemProcessor", _) => {}
                        _ => self.link_states(value, next, later),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.link_states(item, next, later);
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, depth: u64) -> GeneratedStep {
        match self.below(if depth < DEPTH_MAX { 12 } else { 8 }) {
            0 | 1 => self.single_state_step("Pass", Self::pass),
            2..=4 => self.single_state_step("Task", Self::task),
            5 => self.single_state_step("Choice", Self::choice),
            6 => self.single_state_step("Wait", Self::wait),
            7 => self.loop_step(),
            8 | 9 => {
                let state = self.parallel(depth);
                self.single_state_step("Parallel", |_| state)
            }
            _ => {
                let state = self.map(depth);
                self.single_state_step("Map", |_| state)
            }
        }
    }

    fn single_state_step(
        &mut self,
        kind: &str,
        make: impl FnOnce(&mut Self) -> Value,
    ) -> GeneratedStep {
        let name = self.name(kind);
        let state = make(self);
        GeneratedStep {
            states: vec![(name, state)],
        }
    }

    /// The last step of a machine.
    fn end_step(&mut self) -> GeneratedStep {
        match self.below(8) {
            0 => self.single_state_step("Fail", |_| json!({"Type": "Fail", "Error": "Test.Ended"})),
            1..=3 => self.single_state_step("Succeed", |_| json!({"Type": "Succeed"})),
            _ => self.single_state_step("End", |generator| {
                let mut state = generator.pass();
                state.as_object_mut().map(|fields| fields.remove("Next"));
                state["End"] = json!(true);
                state
            }),
        }
    }

    fn pass(&mut self) -> Value {
        match self.below(5) {
            0 => json!({"Type": "Pass", "Result": self.value(), "Next": "next"}),
            1 => {
                json!({"Type": "Pass", "Parameters": {"was.$": "$", "x": self.value()}, "Next": "next"})
            }
            2 => {
                json!({"Type": "Pass", "QueryLanguage": "JSONata", "Output": {"was": "{% $states.input %}", "id": "{% $uuid() %}"}, "Next": "next"})
            }
            3 => {
                json!({"Type": "Pass", "Parameters": {"text.$": "States.Format('{}', States.UUID())"}, "Next": "next"})
            }
            _ => json!({"Type": "Pass", "Next": "next"}),
        }
    }

    fn value(&self) -> Value {
        match self.below(5) {
            0 => json!(self.below(100)),
            1 => json!("text"),
            2 => json!({"v": self.below(10)}),
            3 => json!([1, self.below(10)]),
            _ => Value::Null,
        }
    }

    fn task(&mut self) -> Value {
        let mut state = json!({"Type": "Task", "Resource": "test:work", "Next": "next"});
        if self.below(3) == 0 {
            state["Parameters"] = json!({"in.$": "$", "try.$": "$$.State.RetryCount"});
        }
        if self.below(3) == 0 {
            state["ResultPath"] = Value::Null;
        }
        if self.below(2) == 0 {
            state["TimeoutSeconds"] = json!(1 + self.below(60));
        }
        self.add_handlers(&mut state);
        state
    }

    /// Adds Retry and Catch, most of the time.
    fn add_handlers(&mut self, state: &mut Value) {
        if self.below(2) == 0 {
            let errors = [
                "States.ALL",
                "States.TaskFailed",
                "States.Timeout",
                ERRORS[0],
            ];
            let error = errors[self.below(4) as usize];
            state["Retry"] = json!([{
                "ErrorEquals": [error],
                "IntervalSeconds": 1 + self.below(5),
                "MaxAttempts": self.below(4),
                "JitterStrategy": if self.below(2) == 0 { "FULL" } else { "NONE" },
            }]);
        }
        if self.below(3) > 0 {
            let mut catchers = vec![];
            if self.below(2) == 0 {
                catchers.push(json!({"ErrorEquals": [ERRORS[1]], "Next": "later"}));
            }
            catchers.push(json!({"ErrorEquals": ["States.ALL"], "Next": "later"}));
            state["Catch"] = Value::Array(catchers);
        }
    }

    fn choice(&mut self) -> Value {
        let tests = ["IsString", "IsNumeric", "IsNull", "IsBoolean"];
        let test = tests[self.below(4) as usize];
        json!({
            "Type": "Choice",
            "Choices": [
                {"Variable": "$", test: true, "Next": "later"},
                {"And": [
                    {"Variable": "$.v", "IsPresent": true},
                    {"Variable": "$.v", "NumericGreaterThan": self.below(10)},
                ], "Next": "later"},
            ],
            "Default": "next",
        })
    }

    fn wait(&mut self) -> Value {
        json!({"Type": "Wait", "Seconds": self.below(60), "Next": "next"})
    }

    /// A loop with a few iterations.
    fn loop_step(&mut self) -> GeneratedStep {
        let (begin, body) = (self.name("Begin"), self.name("Body"));
        let (count, check) = (self.name("Count"), self.name("Check"));
        let variable = format!("n{}", self.named);
        let mut work = match self.below(3) {
            0 => self.task(),
            1 => self.wait(),
            _ => self.pass(),
        };
        work["Next"] = json!(count);
        let (assign, read) = (format!("{variable}.$"), format!("${variable}"));
        let added = format!("States.MathAdd({read}, 1)");
        GeneratedStep {
            states: vec![
                (
                    begin,
                    json!({"Type": "Pass", "Assign": {variable.as_str(): 0}, "Next": body}),
                ),
                (body.clone(), work),
                (
                    count,
                    json!({"Type": "Pass", "Assign": {assign: added}, "Next": check}),
                ),
                (
                    check,
                    json!({
                        "Type": "Choice",
                        "Choices": [{"Variable": read, "NumericLessThan": 1 + self.below(4), "Next": body}],
                        "Default": "next",
                    }),
                ),
            ],
        }
    }

    fn parallel(&mut self, depth: u64) -> Value {
        let count = 1 + self.below(3);
        let branches: Vec<Value> = (0..count).map(|_| self.machine(depth + 1)).collect();
        let mut state = json!({"Type": "Parallel", "Branches": branches, "Next": "next"});
        self.add_handlers(&mut state);
        state
    }

    fn map(&mut self, depth: u64) -> Value {
        let mut machine = self.machine(depth + 1);
        if self.below(3) == 0 {
            machine["ProcessorConfig"] =
                json!({"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"});
        }
        let items: Vec<u64> = (0..self.below(5)).collect();
        let mut state = json!({
            "Type": "Map",
            "QueryLanguage": "JSONata",
            "Items": items,
            "ItemProcessor": machine,
            "MaxConcurrency": self.below(4),
            "Next": "next",
        });
        if self.below(3) == 0 {
            state["ToleratedFailureCount"] = json!(self.below(3));
        }
        self.add_handlers(&mut state);
        state
    }
}

impl GeneratedStep {
    fn entry_state(&self) -> String {
        let first = self.states.first();
        first.map_or_else(String::new, |(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::check;

    #[test]
    fn every_machine_is_valid() {
        for seed in 0..500 {
            let machine = random_machine(seed);
            let checked = check(&machine.to_string());
            let problems: Vec<String> = checked
                .problems
                .iter()
                .filter(|problem| problem.is_error())
                .map(ToString::to_string)
                .collect();
            assert!(problems.is_empty(), "{seed}: {problems:?}\n{machine:#}");
        }
    }
}
