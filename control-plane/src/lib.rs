//! x

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod registry;
#[cfg(test)]
mod testing;
