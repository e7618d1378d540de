//! The names of the errors that states raise and handle, besides those of
//! [data](crate::data::errors).

/// Matches every error except `States.Runtime`.
pub const ALL: &str = "States.ALL";
/// A task failed. In a handler it matches every error except `States.Timeout`.
pub const TASK_FAILED: &str = "States.TaskFailed";
/// A task or an execution exceeded its timeout.
pub const TIMEOUT: &str = "States.Timeout";
/// In a handler: a task exceeded its heartbeat timeout. The error itself is
/// `States.Timeout`.
pub const HEARTBEAT_TIMEOUT: &str = "States.HeartbeatTimeout";
/// No rule of a Choice matches, and it has no default.
pub const NO_CHOICE_MATCHED: &str = "States.NoChoiceMatched";
/// More iterations of a Map failed than are tolerated.
pub const EXCEED_TOLERATED_FAILURE_THRESHOLD: &str = "States.ExceedToleratedFailureThreshold";
/// The items of a Map could not be read.
pub const ITEM_READER_FAILED: &str = "States.ItemReaderFailed";
/// The results of a Map could not be written.
pub const RESULT_WRITER_FAILED: &str = "States.ResultWriterFailed";
