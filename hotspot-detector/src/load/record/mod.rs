//! Recorded load.
