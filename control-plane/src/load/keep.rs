//! Takes a sample every step, writes it down, and keeps the windows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ballast_domain::Timestamp;
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_hotspot_detector::load::{MetricSource, Sample, Spans, Window};
use tokio::sync::watch;

use super::{Load, window_start};
use crate::plane::ControlPlane;

/// A source that also knows how long the calls of slices took: for those who
/// look now, it is not recorded.
pub trait LoadSource: MetricSource {
    /// How long calls of slices took in the last sample, where that is known.
    fn latencies(&mut self) -> HashMap<SliceId, Sketch>;
}

/// Measures until it is dropped; `taken` is told the end of every sample.
pub async fn keep(
    plane: ControlPlane,
    load: Arc<Load>,
    mut source: Box<dyn LoadSource>,
    taken: watch::Sender<Option<Timestamp>>,
) {
    replay(&plane, &load).await;
    loop {
        let end = next_step(plane.now(), load.spans().step_ms);
        wait_until(&plane, end).await;
        resize(&plane, &load).await;
        // On time, the sample ends where the step does: steps of a minute then
        // hold whole steps of ten seconds.
        let late = plane.now().unix_ms().saturating_sub(end.unix_ms());
        let on_time = late.unsigned_abs() < load.spans().step_ms / 2;
        let now = if on_time { end } else { plane.now() };
        let Some(sample) = source.sample(now).await else {
            continue;
        };
        if take(&load, sample, source.latencies()).await {
            taken.send_replace(Some(now));
        }
    }
}

/// Takes a sample in and writes it down; whether it was taken.
pub async fn take(load: &Arc<Load>, sample: Sample, latencies: HashMap<SliceId, Sketch>) -> bool {
    if let Err(error) = load.take(&sample, latencies) {
        // The clock was set back: what it says is past is not told twice.
        tracing::warn!(%error, "a sample of the load is left out");
        return false;
    }
    let files = Arc::clone(load.files());
    let written = tokio::task::spawn_blocking(move || files.append(&sample)).await;
    match written {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "load cannot be recorded for now"),
        Err(error) => tracing::warn!(%error, "load was not recorded"),
    }
    true
}

/// Fills the windows with what was recorded before.
async fn replay(plane: &ControlPlane, load: &Arc<Load>) {
    fill(plane, load, load.spans()).await;
}

/// Follows windows that were set anew.
async fn resize(plane: &ControlPlane, load: &Arc<Load>) {
    let wanted = plane.settings().hotspots.rules.spans;
    if wanted != load.spans() {
        fill(plane, load, wanted).await;
    }
}

async fn fill(plane: &ControlPlane, load: &Arc<Load>, spans: Spans) {
    let now = plane.now();
    let from = window_start(&spans, Window::Long, now);
    match load.recorded(from, now).await {
        Ok(samples) => load.resize(spans, samples),
        Err(error) => {
            tracing::warn!(%error, "the windows begin without what was recorded");
            load.resize(spans, Vec::new());
        }
    }
}

/// The end of the step that a moment lies in.
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
