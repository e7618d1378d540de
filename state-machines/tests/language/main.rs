//! Tests of the language, of its evaluation, and of the interpreter. None of
//! them needs a store or a running engine.
//!
//! `any_text` and `properties` generate random machines, which takes the
//! feature `testing`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the tests report how many cases pass, and what they skip"
)]

#[cfg(feature = "testing")]
mod any_text;
mod cases;
mod drawings;
mod interpreter;
mod model;
#[cfg(feature = "testing")]
mod properties;
mod recorded;
mod rules;
mod trial;
