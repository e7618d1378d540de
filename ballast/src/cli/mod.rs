//! The operator's commands.

pub(crate) mod failure;
pub(crate) mod globals;
pub(crate) mod now;
pub(crate) mod output;
