//! A definition as types: what the engine runs and the drawings show.
//!
//! A [`Definition`] exists only if it was checked without errors, and never
//! changes. Its fields hold what is written, with defaults filled in.

mod choice;
mod items;
mod machine;
mod simple;
mod state;
mod task;
mod values;

pub use choice::{Choice, Rule, Test};
pub use items::{
    Distributed, ExecutionType, ItemBatcher, ItemReader, Items, Map, Mode, Parallel, Processor,
    ResultWriter,
};
pub use machine::{Definition, Machine};
pub use simple::{Fail, Pass, Until, Wait};
pub use state::{Kind, State};
pub use task::{Catcher, Jitter, Retrier, Task};
pub use values::{Given, Next, Part, Place, QueryLanguage, Text};
