//! Writes load records.

use serde::Serialize;

use super::line::{Header, ItemLine, KeyLine, RecordLine, ShardLine, SliceLine};
use super::{FORMAT, VERSION};
use crate::load::sample::LoadSample;

/// The first line of a record, with its line break.
#[must_use]
pub fn header(source: &str) -> String {
    line(&Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        source: source.to_owned(),
    })
}

/// The lines of a sample, each with its line break.
#[must_use]
pub fn lines(sample: &LoadSample) -> String {
    let at = sample.interval.start;
    let mut text = String::new();
    for shard in &sample.shards {
        let name = &shard.shard;
        let mut add = |added: RecordLine| text.push_str(&line(&added));
        add(RecordLine::Shard(Box::new(ShardLine::new(
            sample.interval,
            shard,
        ))));
        let slices = shard.slices.iter();
        slices.for_each(|slice| add(RecordLine::Slice(SliceLine::new(at, name, slice))));
        let keys = shard.keys.iter();
        keys.for_each(|key| add(RecordLine::Key(KeyLine::new(at, name, key))));
        let items = shard.items.iter();
        items.for_each(|item| add(RecordLine::Item(ItemLine::new(at, name, item))));
    }
    text
}

fn line(value: &impl Serialize) -> String {
    // Plain structs with text keys cannot fail to serialize; NaN becomes null.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}
