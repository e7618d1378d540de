//! Reads load records line by line and reports which line is invalid, and why.

use std::collections::BTreeSet;

use ballast_domain::KeyId;
use ballast_domain::tenant::SliceId;
use serde_json::Value;

use super::line::{Header, KINDS, RecordLine};
use super::{FORMAT, VERSION};
use crate::load::sample::{Interval, ItemName, LoadSample, ShardSample};
use crate::rules::did_you_mean;

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The longest interval: a day.
const INTERVAL_MS_MAX: u64 = 86_400_000;
/// The most lanes of an item.
const LANES_MAX: usize = 4_096;
/// Fields and kinds with this prefix are extensions and ignored.
const EXTENSION_PREFIX: &str = "x-";

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Why it is invalid.
    pub why: String,
}

/// Reads line by line; a sample is complete when the next one begins.
#[derive(Debug, Clone, Default)]
pub struct RecordReader {
    line: u64,
    has_header: bool,
    sample: Option<LoadSample>,
    /// The names in the current shard's lines, to reject duplicates.
    names: NamesInInterval,
}

#[derive(Debug, Clone, Default)]
struct NamesInInterval {
    slices: BTreeSet<SliceId>,
    keys: BTreeSet<KeyId>,
    items: BTreeSet<ItemName>,
}

/// Reads a whole record.
pub fn read(text: &str) -> Result<Vec<LoadSample>, BadLine> {
    let mut reader = RecordReader::default();
    let mut samples = Vec::new();
    for line in text.lines() {
        samples.extend(reader.line(line)?);
    }
    samples.extend(reader.finish()?);
    Ok(samples)
}

impl RecordReader {
    /// Reads the next line, without its line break. Returns the previous sample if this line
    /// begins another one.
    pub fn line(&mut self, text: &str) -> Result<Option<LoadSample>, BadLine> {
        self.line += 1;
        let line = self.line;
        let bad = |why: String| BadLine { line, why };
        if text.len() > LINE_BYTES_MAX {
            return Err(bad(format!("longer than {LINE_BYTES_MAX} bytes")));
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
    pub fn finish(&mut self) -> Result<Option<LoadSample>, BadLine> {
        if !self.has_header {
            let why = "missing header line".to_owned();
            return Err(BadLine { line: 1, why });
        }
        Ok(self.sample.take())
    }

    fn take(&mut self, line: RecordLine) -> Result<Option<LoadSample>, String> {
        check(&line)?;
        match line {
            RecordLine::Shard(shard) => {
                let interval = Interval {
                    start: shard.at,
                    ms: shard.ms,
                };
                let shard = shard.into_sample()?;
                self.names = NamesInInterval::default();
                self.shard(interval, shard)
            }
            RecordLine::Slice(slice) => {
                let at = slice.at;
                let shard = self.current(&slice.shard, at)?;
                let slice = slice.into_sample();
                let name = slice.slice.clone();
                shard.slices.push(slice);
                reject_repeated(self.names.slices.insert(name.clone()), &name, at)
            }
            RecordLine::Key(key) => {
                let at = key.at;
                let shard = self.current(&key.shard, at)?;
                let key = key.into_sample();
                let name = key.key.clone();
                shard.keys.push(key);
                reject_repeated(self.names.keys.insert(name.clone()), &name, at)
            }
            RecordLine::Item(item) => {
                let at = item.at;
                let shard = self.current(&item.shard, at)?;
                let item = item.into_sample();
                let name = item.name.clone();
                shard.items.push(item);
                reject_repeated(self.names.items.insert(name.clone()), &name.item, at)
            }
        }
    }

    fn shard(
        &mut self,
        interval: Interval,
        shard: ShardSample,
    ) -> Result<Option<LoadSample>, String> {
        match &mut self.sample {
            Some(sample) if sample.interval == interval => {
                if sample.shards.iter().any(|have| have.shard == shard.shard) {
                    let at = interval.start;
                    return Err(format!("duplicate entry of {} for {at}", shard.shard));
                }
                sample.shards.push(shard);
                Ok(None)
            }
            Some(sample) if interval.start < sample.interval.end() => Err(format!(
                "begins at {}, before the previous interval ended ({})",
                interval.start,
                sample.interval.end()
            )),
            _ => Ok(self.sample.replace(LoadSample {
                interval,
                shards: vec![shard],
            })),
        }
    }

    /// The shard that a line belongs to, which must be the last one.
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
            .ok_or_else(|| format!("does not follow the shard line of {shard} at {at}"))
    }
}

/// Rejects duplicates in one interval: their load would be counted twice.
fn reject_repeated(
    is_new: bool,
    name: &dyn std::fmt::Display,
    at: ballast_domain::Timestamp,
) -> Result<Option<LoadSample>, String> {
    match is_new {
        true => Ok(None),
        false => Err(format!("duplicate entry of {name} for {at}")),
    }
}

/// The message of a JSON error without its line number, which would always be 1.
fn describe_json_error(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match said.strip_suffix(&place) {
        Some(what) if error.column() > 0 => format!("{what}, at column {}", error.column()),
        Some(what) => what.to_owned(),
        None => said,
    }
}

fn check_header(text: &str) -> Result<(), String> {
    let header: Header =
        serde_json::from_str(text).or_else(|error| parse_without_extensions(text, error))?;
    if header.format != FORMAT {
        return Err(format!(
            "the format is {:?} instead of {FORMAT:?}",
            header.format
        ));
    }
    if header.version != VERSION {
        return Err(format!(
            "version {} is not supported: this Ballast reads version {VERSION}",
            header.version
        ));
    }
    Ok(())
}

fn parse(text: &str) -> Result<Option<RecordLine>, String> {
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
        Some(kind) if kind.starts_with(EXTENSION_PREFIX) => Ok(None),
        Some(kind) if !KINDS.contains(&kind) => {
            let help = did_you_mean(kind, KINDS);
            let help = help.unwrap_or_else(|| format!("valid kinds are {}", KINDS.join(", ")));
            Err(format!("unknown kind {kind:?}; {help}"))
        }
        _ => parse_without_extensions(text, error).map(Some),
    }
}

/// Parses a line again without extension fields.
fn parse_without_extensions<T: serde::de::DeserializeOwned>(
    text: &str,
    error: serde_json::Error,
) -> Result<T, String> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return Err(describe_json_error(&error));
    };
    let before = fields.len();
    fields.retain(|name, _| !name.starts_with(EXTENSION_PREFIX));
    if fields.len() == before {
        return Err(describe_json_error(&error));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| describe_json_error(&error))
}

/// Checks the ranges of a line's numbers.
fn check(line: &RecordLine) -> Result<(), String> {
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
        RecordLine::Shard(shard) => {
            if shard.ms == 0 || shard.ms > INTERVAL_MS_MAX {
                return Err("ms must be from 1 to 86400000 (a day)".to_owned());
            }
            if shard.measured_ms.is_some_and(|ms| ms == 0 || ms > shard.ms) {
                return Err("measuredMs must be from 1 to ms".to_owned());
            }
            let wait = shard.io_wait.unwrap_or_default();
            let shares = [wait.queue, wait.fsync];
            if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
                return Err("ioWait must have shares of the interval, from 0 to 1".to_owned());
            }
            let of = |value: Option<f64>| value.unwrap_or(0.0);
            let capacity = crate::resources::Dimension::ALL.map(|d| shard.capacity[d]);
            check_not_negative(&capacity)?;
            check_not_negative(&counts(&shard.flow))?;
            check_not_negative(&[of(shard.storage), of(shard.concurrency)])
        }
        RecordLine::Slice(slice) => {
            check_not_negative(&counts(&slice.flow))?;
            check_not_negative(&[slice.storage.unwrap_or(0.0), slice.concurrency])
        }
        RecordLine::Key(key) if key.refused > key.calls => {
            Err("refused must not be more than calls".to_owned())
        }
        RecordLine::Key(key) => check_not_negative(&[key.calls, key.refused]),
        RecordLine::Item(item) if item.lanes.is_empty() || item.lanes.len() > LANES_MAX => {
            Err(format!("an item must have from 1 to {LANES_MAX} lanes"))
        }
        RecordLine::Item(item) => check_not_negative(&[item.votes]),
    }
}

fn check_not_negative(numbers: &[f64]) -> Result<(), String> {
    match numbers
        .iter()
        .find(|number| !number.is_finite() || **number < 0.0)
    {
        Some(number) => Err(format!(
            "invalid number {number}: counts and levels must be 0 or more"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
