//! From load to a plan. Not yet: this room is empty.
//!
//! It will turn measurements into windows, windows into hotspots, and a
//! hotspot into a diagnosis, a cure and a plan. Its core will be pure: load
//! and time arrive as data, a decision leaves with its evidence. Where the
//! measurements come from will be decided at its edge.
