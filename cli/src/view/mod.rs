//! Renders API bodies as text for people; nothing else. One file per noun.

pub(crate) mod certificate;
pub(crate) mod chart;
pub(crate) mod drains;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod explain;
pub(crate) mod finish;
pub(crate) mod history;
pub(crate) mod hotspots;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod migrations;
pub(crate) mod moving;
pub(crate) mod placements;
pub(crate) mod polls;
pub(crate) mod preview;
pub(crate) mod shard_files;
pub(crate) mod shards;
pub(crate) mod simulated;
pub(crate) mod slicing;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod watch;
pub(crate) mod workflows;

use serde::de::DeserializeOwned;

use super::args::JsonFields;
use super::body::Page;
use super::client::Reply;
use super::failure::CliError;
use super::output::Screen;

/// Shows a response: the body itself with `--json`, otherwise its text.
pub(crate) fn show<T: DeserializeOwned>(
    screen: &Screen,
    reply: &Reply,
    text: impl FnOnce(&Screen, &T) -> String,
) -> Result<(), CliError> {
    if screen.json {
        screen.data(&reply.bytes)
    } else {
        screen.data(text(screen, &reply.read()?).as_bytes())
    }
}

/// Shows a list; an empty one suggests the next step.
pub(crate) fn list<T: DeserializeOwned>(
    screen: &Screen,
    reply: &Reply,
    text: impl FnOnce(&Screen, &[T]) -> String,
    empty: &str,
) -> Result<(), CliError> {
    if screen.json {
        return screen.data(&reply.bytes);
    }
    let page: Page<T> = reply.read()?;
    if page.items.is_empty() {
        screen.note(empty);
        return Ok(());
    }
    screen.data(text(screen, &page.items).as_bytes())?;
    if let Some(cursor) = page.next_cursor {
        let more = format!("more items: --all, or --cursor {cursor} for the next page");
        screen.note(&screen.dim(&more));
    }
    Ok(())
}

/// Refuses a change without fields.
pub(crate) fn require_change(fields: &JsonFields) -> Result<(), CliError> {
    if fields.is_empty() {
        return Err(CliError::usage(
            "no change was given",
            "--help lists what can be changed",
        ));
    }
    Ok(())
}
