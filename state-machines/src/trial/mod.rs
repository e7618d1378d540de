//! Runs test cases of definitions without a cloud: a case mocks the results of tasks,
//! the clock is simulated, and the result is compared with the expected outcome.
//!
//! ```
//! use ballast_state_machines::trial::{CaseFile, differences, run};
//!
//! let file = CaseFile::parse(r#"{
//!     "definition": {"StartAt": "Ask", "States": {
//!         "Ask": {"Type": "Task", "Resource": "any:thing", "Next": "Rest"},
//!         "Rest": {"Type": "Wait", "Seconds": 3600, "End": true}}},
//!     "input": {"question": 6},
//!     "tasks": [{"state": "Ask", "parameters": {"question": 6}, "result": 42}],
//!     "expected": {"status": "SUCCEEDED", "output": 42}
//! }"#).expect("it is a case");
//! let CaseFile::One(case) = file else { panic!("it is one case") };
//! let trial = run(&case).expect("the definition is valid");
//! assert_eq!(trial.took_ms, 3_600_000);
//! assert!(differences(&case, &trial).is_empty());
//! ```

mod case;
mod compare;
mod run;
mod unused;

pub use case::{CaseError, CaseFile, EventSummary, ExpectedOutcome, TaskMock, TestCase};
pub use compare::differences;
pub use run::{CLOCK_START_MS, TrialResult, run};
