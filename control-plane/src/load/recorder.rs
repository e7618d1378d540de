//! The load recorder: takes a sample every step, appends it to the files and
//! updates the windows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ballast_domain::Timestamp;
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_hotspot_detector::load::{LoadSample, MetricSource, Spans, Window};
use tokio::sync::watch;

use super::{LoadMonitor, window_start};
use crate::plane::ControlPlane;

/// A metric source that also knows latencies by slice. They are only kept in
/// memory, not recorded.
pub trait LoadSource: MetricSource {
    /// Latencies by slice in the last sample, where known.
    fn latencies(&mut self) -> HashMap<SliceId, Sketch>;
}

/// Records samples forever; sends the end of every sample to `taken`.
pub async fn run(
    plane: ControlPlane,
    load: Arc<LoadMonitor>,
    mut source: Box<dyn LoadSource>,
    taken: watch::Sender<Option<Timestamp>>,
) {
    fill_windows(&plane, &load).await;
    loop {
        let end = next_step(plane.now(), load.spans().step_ms);
        wait_until(&plane, end).await;
        follow_window_settings(&plane, &load).await;
        // When on time, end the sample exactly at the end of the step, so that a
        // minute contains whole steps of ten seconds.
        let late = plane.now().unix_ms().saturating_sub(end.unix_ms());
        let on_time = late.unsigned_abs() < load.spans().step_ms / 2;
        let now = if on_time { end } else { plane.now() };
        let Some(sample) = source.sample(now).await else {
            continue;
        };
        if record_sample(&load, sample, source.latencies()).await {
            taken.send_replace(Some(now));
        }
    }
}

/// Adds a sample to the windows and the files; `false` if it was rejected.
pub async fn record_sample(
    load: &Arc<LoadMonitor>,
    sample: LoadSample,
    latencies: HashMap<SliceId, Sketch>,
) -> bool {
    if let Err(error) = load.add_sample(&sample, latencies) {
        // The clock was set back: skip the time that was already recorded.
        tracing::warn!(%error, "skipping a load sample");
        return false;
    }
    let files = Arc::clone(load.files());
    let written = tokio::task::spawn_blocking(move || files.append(&sample)).await;
    match written {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "failed to record a load sample"),
        Err(error) => tracing::warn!(%error, "failed to record a load sample"),
    }
    true
}

/// Fills the windows from recorded load.
async fn fill_windows(plane: &ControlPlane, load: &Arc<LoadMonitor>) {
    rebuild_windows(plane, load, load.spans()).await;
}

/// Rebuilds the windows after their settings changed.
async fn follow_window_settings(plane: &ControlPlane, load: &Arc<LoadMonitor>) {
    let wanted = plane.settings().hotspots.rules.spans;
    if wanted != load.spans() {
        rebuild_windows(plane, load, wanted).await;
    }
}

async fn rebuild_windows(plane: &ControlPlane, load: &Arc<LoadMonitor>, spans: Spans) {
    let now = plane.now();
    let from = window_start(&spans, Window::Long, now);
    match load.read_samples(from, now).await {
        Ok(samples) => load.resize(spans, samples),
        Err(error) => {
            tracing::warn!(%error, "cannot read recorded load: starting with empty windows");
            load.resize(spans, Vec::new());
        }
    }
}

/// The end of the step that contains a moment.
fn next_step(now: Timestamp, step_ms: u64) -> Timestamp {
    let step = i64::try_from(step_ms.max(1)).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms((now.unix_ms().div_euclid(step) + 1).saturating_mul(step))
}

async fn wait_until(plane: &ControlPlane, moment: Timestamp) {
    let left = moment.unix_ms().saturating_sub(plane.now().unix_ms());
    if left > 0 {
        tokio::time::sleep(Duration::from_millis(left.unsigned_abs())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_on_round_moments() {
        let end = |ms| next_step(Timestamp::from_unix_ms(ms), 10_000).unix_ms();
        assert_eq!((end(1), end(9_999), end(10_000)), (10_000, 10_000, 20_000));
    }
}
