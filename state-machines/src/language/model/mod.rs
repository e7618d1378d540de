//! The types of a definition, which the engine runs and the drawings show.
//!
//! A [`Definition`] exists only if it was checked without errors, and never
//! changes. Its fields hold what was written, with defaults filled in.

mod choice;
mod items;
mod machine;
mod simple;
mod state;
mod task;
mod values;

pub use choice::{ChoiceRule, ChoiceState, RuleTest};
pub use items::{
    DistributedOptions, ExecutionType, ItemBatcher, ItemProcessor, ItemReader, ItemsSource,
    MapState, ParallelState, ProcessorMode, ResultWriter,
};
pub use machine::{Definition, Machine};
pub use simple::{FailState, PassState, WaitState, WaitUntil};
pub use state::{State, StateKind};
pub use task::{Catcher, Jitter, Retrier, TaskState};
pub use values::{FieldValue, NextState, PathSelection, QueryLanguage, ResultTarget, TextValue};
