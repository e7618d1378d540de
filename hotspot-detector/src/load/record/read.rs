//! Reads a record line by line and says which line is wrong, and why.

use std::collections::BTreeSet;

use ballast_domain::KeyId;
use ballast_domain::tenant::SliceId;
use serde_json::Value;

use super::line::{Header, KINDS, Line};
use super::{FORMAT, VERSION};
use crate::load::sample::{Interval, ItemName, Sample, ShardSample};
use crate::rules::did_you_mean;

/// A longer line is refused.
const LINE_BYTES_MAX: usize = 1 << 20;
/// A longer interval is refused: a day.
const INTERVAL_MS_MAX: u64 = 86_400_000;
/// More lanes than any counter has.
const LANES_MAX: usize = 4_096;
/// What begins with this is the writer's own and is passed over.
const OWN: &str = "x-";

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Reads line after line; a sample is complete when the next one begins.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    line: u64,
    has_header: bool,
    sample: Option<Sample>,
    /// What was told of the shard that was told last.
    told: Told,
}

#[derive(Debug, Clone, Default)]
struct Told {
    slices: BTreeSet<SliceId>,
    keys: BTreeSet<KeyId>,
    items: BTreeSet<ItemName>,
}

/// Reads a whole record.
pub fn read(text: &str) -> Result<Vec<Sample>, BadLine> {
    let mut reader = Reader::default();
    let mut samples = Vec::new();
    for line in text.lines() {
        samples.extend(reader.line(line)?);
    }
    samples.extend(reader.finish()?);
    Ok(samples)
}

impl Reader {
    /// Takes the next line, without its end. Gives the sample before it, if this
    /// line begins another.
    pub fn line(&mut self, text: &str) -> Result<Option<Sample>, BadLine> {
        self.line += 1;
        let line = self.line;
        let bad = |why: String| BadLine { line, why };
        if text.len() > LINE_BYTES_MAX {
            return Err(bad(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        if !self.has_header {
            check_header(text).map_err(bad)?;
            self.has_header = true;
            return Ok(None);
        }
        match parse(text).map_err(bad)? {
            Some(parsed) => self.take(parsed).map_err(bad),
            None => Ok(None),
        }
    }

    /// The last sample.
    pub fn finish(&mut self) -> Result<Option<Sample>, BadLine> {
        if !self.has_header {
            let why = "there is no header line".to_owned();
            return Err(BadLine { line: 1, why });
        }
        Ok(self.sample.take())
    }

    fn take(&mut self, line: Line) -> Result<Option<Sample>, String> {
        check(&line)?;
        match line {
            Line::Shard(shard) => {
                let interval = Interval {
                    start: shard.at,
                    ms: shard.ms,
                };
                let shard = shard.sample()?;
                self.told = Told::default();
                self.shard(interval, shard)
            }
            Line::Slice(slice) => {
                let at = slice.at;
                let shard = self.current(&slice.shard, at)?;
                let slice = slice.sample();
                let name = slice.slice.clone();
                shard.slices.push(slice);
                once(self.told.slices.insert(name.clone()), &name, at)
            }
            Line::Key(key) => {
                let at = key.at;
                let shard = self.current(&key.shard, at)?;
                let key = key.sample();
                let name = key.key.clone();
                shard.keys.push(key);
                once(self.told.keys.insert(name.clone()), &name, at)
            }
            Line::Item(item) => {
                let at = item.at;
                let shard = self.current(&item.shard, at)?;
                let item = item.sample();
                let name = item.name.clone();
                shard.items.push(item);
                once(self.told.items.insert(name.clone()), &name.item, at)
            }
        }
    }

    fn shard(&mut self, interval: Interval, shard: ShardSample) -> Result<Option<Sample>, String> {
        match &mut self.sample {
            Some(sample) if sample.interval == interval => {
                if sample.shards.iter().any(|have| have.shard == shard.shard) {
                    let at = interval.start;
                    return Err(format!("{} was told for {at} before", shard.shard));
                }
                sample.shards.push(shard);
                Ok(None)
            }
            Some(sample) if interval.start < sample.interval.end() => Err(format!(
                "it begins at {}, before the interval before it ended ({})",
                interval.start,
                sample.interval.end()
            )),
            _ => Ok(self.sample.replace(Sample {
                interval,
                shards: vec![shard],
            })),
        }
    }

    /// The shard that a line is about: the one that was told last.
    fn current(
        &mut self,
        shard: &ballast_domain::ShardId,
        at: ballast_domain::Timestamp,
    ) -> Result<&mut ShardSample, String> {
        let sample = self
            .sample
            .as_mut()
            .filter(|sample| sample.interval.start == at);
        let current = sample.and_then(|sample| sample.shards.last_mut());
        current
            .filter(|current| current.shard == *shard)
            .ok_or_else(|| format!("it does not follow the shard line of {shard} at {at}"))
    }
}

/// Nothing is told twice of one interval: twice as much would be counted.
fn once(
    is_new: bool,
    name: &dyn std::fmt::Display,
    at: ballast_domain::Timestamp,
) -> Result<Option<Sample>, String> {
    match is_new {
        true => Ok(None),
        false => Err(format!("{name} was told for {at} before")),
    }
}

/// What is wrong with the JSON of a line. It is a line of its own there, whose
/// number would only mislead.
fn wrong(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match said.strip_suffix(&place) {
        Some(what) if error.column() > 0 => format!("{what}, at column {}", error.column()),
        Some(what) => what.to_owned(),
        None => said,
    }
}

fn check_header(text: &str) -> Result<(), String> {
    let header: Header = serde_json::from_str(text).or_else(|error| without_own(text, error))?;
    if header.format != FORMAT {
        return Err(format!("the format is {:?}, not {FORMAT:?}", header.format));
    }
    if header.version != VERSION {
        return Err(format!(
            "the version is {}, and this Ballast reads version {VERSION}",
            header.version
        ));
    }
    Ok(())
}

fn parse(text: &str) -> Result<Option<Line>, String> {
    let parsed = serde_json::from_str(text);
    let error = match parsed {
        Ok(line) => return Ok(Some(line)),
        Err(error) => error,
    };
    let value: Option<Value> = serde_json::from_str(text).ok();
    let kind = value
        .as_ref()
        .and_then(|value| value.get("kind"))
        .and_then(Value::as_str);
    match kind {
        Some(kind) if kind.starts_with(OWN) => Ok(None),
        Some(kind) if !KINDS.contains(&kind) => {
            let help = did_you_mean(kind, KINDS);
            let help = help.unwrap_or_else(|| format!("there are {}", KINDS.join(", ")));
            Err(format!("there is no kind {kind:?}; {help}"))
        }
        _ => without_own(text, error).map(Some),
    }
}

/// Reads a line once more without the fields that are the writer's own.
fn without_own<T: serde::de::DeserializeOwned>(
    text: &str,
    error: serde_json::Error,
) -> Result<T, String> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return Err(wrong(&error));
    };
    let before = fields.len();
    fields.retain(|name, _| !name.starts_with(OWN));
    if fields.len() == before {
        return Err(wrong(&error));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| wrong(&error))
}

/// Numbers that cannot be.
fn check(line: &Line) -> Result<(), String> {
    let counts = |flow: &crate::load::Flow| {
        [
            flow.votes,
            flow.queries,
            flow.bytes,
            flow.errors,
            flow.throttles,
        ]
    };
    match line {
        Line::Shard(shard) => {
            if shard.ms == 0 || shard.ms > INTERVAL_MS_MAX {
                return Err("ms is from 1 to a day".to_owned());
            }
            if shard.measured_ms.is_some_and(|ms| ms == 0 || ms > shard.ms) {
                return Err("measuredMs is from 1 to ms".to_owned());
            }
            let wait = shard.io_wait.unwrap_or_default();
            let shares = [wait.queue, wait.fsync];
            if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
                return Err("ioWait has shares of the interval, 0 to 1".to_owned());
            }
            let of = |value: Option<f64>| value.unwrap_or(0.0);
            let capacity = crate::resources::Dimension::ALL.map(|d| shard.capacity[d]);
            not_negative(&capacity)?;
            not_negative(&counts(&shard.flow))?;
            not_negative(&[of(shard.storage), of(shard.concurrency)])
        }
        Line::Slice(slice) => {
            not_negative(&counts(&slice.flow))?;
            not_negative(&[slice.storage.unwrap_or(0.0), slice.concurrency])
        }
        Line::Key(key) if key.refused > key.calls => {
            Err("more calls were refused than made".to_owned())
        }
        Line::Key(key) => not_negative(&[key.calls, key.refused]),
        Line::Item(item) if item.lanes.is_empty() || item.lanes.len() > LANES_MAX => {
            Err(format!("an item has from 1 to {LANES_MAX} lanes"))
        }
        Line::Item(item) => not_negative(&[item.votes]),
    }
}

fn not_negative(numbers: &[f64]) -> Result<(), String> {
    match numbers
        .iter()
        .find(|number| !number.is_finite() || **number < 0.0)
    {
        Some(number) => Err(format!(
            "{number} cannot be: counts and levels are from 0 on"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
