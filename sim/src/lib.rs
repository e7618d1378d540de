//! The deterministic simulation and the model checker. Not yet: this room is
//! empty.
//!
//! It will run the production code under one seed, with faults in network,
//! store and process, and an oracle that knows what must be true: one seed,
//! one trace. It is for development only; the product never depends on it.
