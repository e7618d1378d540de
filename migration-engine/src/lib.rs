//! The move of a slice to another shard. Not yet: this room is empty.
//!
//! It will hold one file per step, with what the step does and how it is
//! undone side by side, and the cutover protocol as one pure transition
//! function: the one that runs will be the one that is model-checked.
