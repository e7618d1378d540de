//! Drawings: pure, from figures to shapes.

pub(crate) mod blocks;
pub(crate) mod treemap;
