//! Workflow definitions and the durable engine that runs them. Not yet: this
//! room is empty.
//!
//! It will hold the definitions in the Amazon States Language and an engine
//! that checks them as graphs, journals before it acts, and resumes after a
//! crash in the state it was in. It will know nothing of shards or votes.
