//! Reconciles hotspots: after every sample, evaluates the rules, diagnoses
//! hotspots, creates plans and advances open ones.
//!
//! ```text
//!   sample ──► rules ──► diagnosis ──► hotspot's record ──► plan ──► workflow
//!     ▲                                                      │
//!     └────────── judged: did it help? ◄── slices moved ◄────┘
//! ```
//! It reads only measured load and the registry. An error with one hotspot or plan
//! does not hold up the others.

use std::sync::Arc;

use ballast_domain::{Result, Timestamp};
use ballast_hotspot_detector::load::Window;
use tokio::sync::watch;

use super::findings::OpenHotspots;
use super::plan_progress;
use super::records::PlanRecord;
use super::settings::HotspotMode;
use super::state::HotspotState;
use crate::calendar::prepare::PreparedPolls;
use crate::load::{LoadMonitor, load_monitor, window_start};
use crate::plane::ControlPlane;
use crate::registry::typed;

/// How much recorded load the rules are replayed over, at most.
const REPLAY_MS: i64 = 2 * 3_600_000;
/// Number of past plans to remember.
const PAST_MAX: u32 = 500;

/// Reconciles after every sample until the sender of `taken` is dropped.
pub async fn run(
    plane: ControlPlane,
    state: Arc<HotspotState>,
    mut taken: watch::Receiver<Option<Timestamp>>,
) {
    let mut reconciler = HotspotReconciler::default();
    while taken.changed().await.is_ok() {
        if let Err(error) = reconciler.reconcile(&plane, &state).await {
            tracing::warn!(%error, "failed to reconcile hotspots; will retry");
        }
    }
}

/// Reconciles hotspots with their records and plans.
#[derive(Default)]
pub struct HotspotReconciler {
    hotspots: OpenHotspots,
    prepared: PreparedPolls,
    /// Whether the state from before this process was restored.
    is_ready: bool,
}

impl HotspotReconciler {
    /// Runs one round.
    pub async fn reconcile(&mut self, plane: &ControlPlane, state: &HotspotState) -> Result<()> {
        let load = load_monitor(plane)?;
        self.restore(plane, state).await?;
        plan_progress::advance_plans(plane, state, load).await?;
        let settings = plane.settings();
        let set = &settings.hotspots;
        if set.mode == HotspotMode::Off {
            state.reset();
            return self.hotspots.record_findings(plane, Vec::new()).await;
        }
        if !state.uses_rules(&set.rules) {
            replay_rules(plane, state, load, self.hotspots.oldest_since()).await?;
        }
        let hot = load.with_book(|book| state.evaluate_rules(&set.rules, book));
        let limits = plan_progress::busy_tenant_limits(plane, load, !hot.is_empty()).await?;
        let found = load.with_book(|book| state.diagnose(book, &hot, &limits, &set.diagnose));
        self.hotspots.record_findings(plane, found).await?;
        self.prepared.plan_due_polls(plane).await
    }

    /// Restores the findings and past cures recorded before this process started.
    async fn restore(&mut self, plane: &ControlPlane, state: &HotspotState) -> Result<()> {
        if self.is_ready {
            return Ok(());
        }
        self.hotspots = OpenHotspots::load_open(plane).await?;
        let query = ballast_domain::registry::RecordQuery {
            descending: true,
            ..ballast_domain::registry::RecordQuery::all(
                ballast_domain::registry::RecordKind::Plan,
                PAST_MAX,
            )
        };
        let plans = typed::list::<PlanRecord>(plane.registry(), &query).await?;
        // Oldest first.
        for plan in plans.into_iter().rev() {
            self.prepared.remember(&plan.value);
            plan.value
                .past
                .into_iter()
                .for_each(|past| state.restore_cure(past));
        }
        self.is_ready = true;
        Ok(())
    }
}

/// Rebuilds the state of the rules from recorded load.
async fn replay_rules(
    plane: &ControlPlane,
    state: &HotspotState,
    load: &Arc<LoadMonitor>,
    open: Option<Timestamp>,
) -> Result<()> {
    let rules = plane.settings().hotspots.rules.clone();
    let now = plane.now();
    let longest = rules
        .rules
        .iter()
        .map(|rule| rule.for_ms + rule.cooldown_ms);
    let longest = i64::try_from(longest.max().unwrap_or(0)).unwrap_or(i64::MAX);
    let window = window_start(&rules.spans, Window::Long, now).unix_ms();
    // An open hotspot may have fallen below its limit since.
    let became_hot = open.map_or(i64::MAX, Timestamp::unix_ms);
    let from = window
        .min(became_hot.saturating_sub(now.unix_ms() - window))
        .saturating_sub(longest)
        .max(now.unix_ms() - REPLAY_MS);
    // Exclude the newest sample: the caller evaluates it next.
    let until = load
        .with_book(|book| book.newest())
        .unwrap_or(now)
        .unix_ms()
        - 1;
    let from = Timestamp::from_unix_ms(from);
    let samples = load
        .read_samples(from, Timestamp::from_unix_ms(until))
        .await?;
    state.replay(&rules, samples);
    Ok(())
}
