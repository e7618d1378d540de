//! Writes a record.

use serde::Serialize;

use super::line::{Header, ItemLine, KeyLine, Line, ShardLine, SliceLine};
use super::{FORMAT, VERSION};
use crate::load::sample::Sample;

/// The first line of a record, with its end.
#[must_use]
pub fn header(source: &str) -> String {
    line(&Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        source: source.to_owned(),
    })
}

/// The lines of a sample, each with its end.
#[must_use]
pub fn lines(sample: &Sample) -> String {
    let at = sample.interval.start;
    let mut text = String::new();
    for shard in &sample.shards {
        let name = &shard.shard;
        let mut add = |added: Line| text.push_str(&line(&added));
        add(Line::Shard(Box::new(ShardLine::new(
            sample.interval,
            shard,
        ))));
        let slices = shard.slices.iter();
        slices.for_each(|slice| add(Line::Slice(SliceLine::new(at, name, slice))));
        let keys = shard.keys.iter();
        keys.for_each(|key| add(Line::Key(KeyLine::new(at, name, key))));
        let items = shard.items.iter();
        items.for_each(|item| add(Line::Item(ItemLine::new(at, name, item))));
    }
    text
}

fn line(value: &impl Serialize) -> String {
    // These are plain structs with text keys, and a number that is none becomes
    // null: there is nothing that could fail.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}
