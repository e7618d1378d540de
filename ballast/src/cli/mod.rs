//! The operator's commands: the same nouns and verbs as the admin API.
//!
//! ```text
//!   <noun>.rs   what can be typed, and what is sent
//!   view/       what an answer looks like to a person: pure, text out
//!   client.rs   the way to the API     output.rs   the way to the terminal
//! ```
//! Data goes to stdout, everything else to stderr. With `--json` the API's own
//! body is the data and its own problem document is the error.

pub(crate) mod args;
pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod confirm;
pub(crate) mod drain;
pub(crate) mod event;
pub(crate) mod execution;
pub(crate) mod failure;
pub(crate) mod generate;
pub(crate) mod globals;
pub(crate) mod help;
mod help_hotspots;
mod help_migration;
pub(crate) mod hotspot;
pub(crate) mod key;
pub(crate) mod listen;
pub(crate) mod load;
pub(crate) mod migration;
pub(crate) mod now;
pub(crate) mod output;
pub(crate) mod paint;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod poll;
pub(crate) mod preview;
pub(crate) mod request;
pub(crate) mod shard;
pub(crate) mod shard_files;
pub(crate) mod simulate;
mod slicing;
pub(crate) mod sse;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod tenant;
pub(crate) mod time;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod usage;
pub(crate) mod view;
pub(crate) mod workflow;

#[cfg(test)]
mod help_tests;

use client::Client;
use failure::Failure;
use globals::Globals;
use output::Screen;

/// A running instance, and the screen to show its answers on.
pub(crate) struct Remote {
    pub(crate) client: Client,
    pub(crate) screen: Screen,
}

impl Remote {
    /// Finds the token and makes ready to connect.
    pub(crate) fn new(globals: &Globals, screen: &Screen) -> Result<Self, Failure> {
        Ok(Self {
            client: Client::new(globals)?,
            screen: screen.clone(),
        })
    }
}
