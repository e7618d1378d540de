//! x
pub mod registry;
#[cfg(test)]
mod testing;
