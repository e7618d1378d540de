//! What a shard is. Not yet: this room is empty.
//!
//! It will hold one trait, the contract of a place that stores many tenants'
//! votes and accepts a write only as the owner of its slice at the very epoch
//! the write carries; one conformance suite for that contract; and the engines
//! that pass it, of which the first is an embedded log in a directory.
