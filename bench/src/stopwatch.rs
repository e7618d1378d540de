//! Measuring time: the only module of this crate that reads a clock.

use std::time::{Duration, Instant};

/// A stopwatch that runs from its creation.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    // A benchmark measures real time; nothing it does depends on it.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Many measurements of the same thing.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Adds the samples of another measurement.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the value below which this share of the samples lies.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len() as f64 * share) as usize;
        sorted
            .get(place.min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// This process's resident memory in bytes; 0 where Linux's `/proc` is missing.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// This process's number of threads; 0 where Linux's `/proc` is missing.
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// The processor time of this process, all threads together; 0 where Linux's `/proc` is
/// missing.
pub(crate) fn cpu_time() -> Duration {
    let (own, _) = ticks("self").unwrap_or_default();
    TICK * own
}

/// The processor time of another process and its children.
pub(crate) fn cpu_time_of_family(process: u32) -> Duration {
    let (own, ended) = ticks(&process.to_string()).unwrap_or_default();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = all
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| parent_process(name) == Some(process))
        .filter_map(|name| ticks(&name));
    let living: u32 = children.map(|(own, ended)| own + ended).sum();
    TICK * (own + ended + living)
}

/// The unit of processor time in Linux's `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process, and of its children that have ended.
fn ticks(process: &str) -> Option<(u32, u32)> {
    let after_name = stat(process)?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    let own = next()? + next()?;
    let ended = next()? + next()?;
    Some((own, ended))
}

fn parent_process(process: &str) -> Option<u32> {
    stat(process)?.split_whitespace().nth(1)?.parse().ok()
}

/// The fields after the name in `/proc/…/stat`: the state, the parent, and so on.
fn stat(process: &str) -> Option<String> {
    let told = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    told.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}
