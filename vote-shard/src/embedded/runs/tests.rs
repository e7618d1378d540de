//! What must hold of runs.
