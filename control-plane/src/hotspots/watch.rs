//! The loop: after every sample rules are judged, hotspots diagnosed, plans
//! made, and plans under way followed.
//!
//! ```text
//!   sample ──► rules ──► diagnosis ──► hotspot's record ──► plan ──► workflow
//!     ▲                                                      │
//!     └────────── judged: did it help? ◄── moves cut over ◄──┘
//! ```
//! It takes no orders: what it does it finds in the load and in the registry.
//! What goes wrong with one hotspot or plan keeps no other waiting.

use std::sync::Arc;

use ballast_domain::{Result, Timestamp};
use ballast_hotspot_detector::load::Window;
use tokio::sync::watch;

use super::findings::Findings;
use super::follow;
use super::mind::Mind;
use super::records::PlanRecord;
use super::settings::Mode;
use crate::calendar::prepare::Prepared;
use crate::load::{Load, load, window_start};
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Rules are judged anew over so much of what was recorded, at the most.
const REPLAY_MS: i64 = 2 * 3_600_000;
/// Plans of before that are remembered.
const PAST_MAX: u32 = 500;

/// Looks after hotspots until it is dropped; `taken` says when there is a new
/// sample.
pub async fn watch(
    plane: ControlPlane,
    mind: Arc<Mind>,
    mut taken: watch::Receiver<Option<Timestamp>>,
) {
    let mut watchman = Watchman::default();
    while taken.changed().await.is_ok() {
        if let Err(error) = watchman.round(&plane, &mind).await {
            tracing::warn!(%error, "hotspots cannot be looked after right now");
        }
    }
}

/// Who looks after hotspots.
#[derive(Default)]
pub struct Watchman {
    findings: Findings,
    prepared: Prepared,
    /// Whether what was known before this process is known here.
    is_ready: bool,
}

impl Watchman {
    /// Looks at everything once.
    pub async fn round(&mut self, plane: &ControlPlane, mind: &Mind) -> Result<()> {
        let load = load(plane)?;
        self.get_ready(plane, mind).await?;
        follow::round(plane, mind, load).await?;
        let settings = plane.settings();
        let set = &settings.hotspots;
        if set.mode == Mode::Off {
            mind.rest();
            return self.findings.settle(plane, Vec::new()).await;
        }
        if !mind.has(&set.rules) {
            replay(plane, mind, load, self.findings.oldest()).await?;
        }
        let hot = load.with_book(|book| mind.look(&set.rules, book));
        let limits = follow::limits(plane, load, !hot.is_empty()).await?;
        let found = load.with_book(|book| mind.diagnose(book, &hot, &limits, &set.diagnose));
        self.findings.settle(plane, found).await?;
        self.prepared.round(plane).await
    }

    /// Remembers what was found and done before this process was started.
    async fn get_ready(&mut self, plane: &ControlPlane, mind: &Mind) -> Result<()> {
        if self.is_ready {
            return Ok(());
        }
        self.findings = Findings::read(plane).await?;
        let query = ballast_domain::registry::RecordQuery {
            descending: true,
            ..ballast_domain::registry::RecordQuery::all(
                ballast_domain::registry::Kind::Plan,
                PAST_MAX,
            )
        };
        let plans = typed::list::<PlanRecord>(plane.registry(), &query).await?;
        // The oldest first.
        for plan in plans.into_iter().rev() {
            self.prepared.remember(&plan.value);
            plan.value
                .past
                .into_iter()
                .for_each(|past| mind.restore(past));
        }
        self.is_ready = true;
        Ok(())
    }
}

/// Where rules stand, from what was recorded.
async fn replay(
    plane: &ControlPlane,
    mind: &Mind,
    load: &Arc<Load>,
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
    // What is hot now became so then, and may be below its limit since.
    let became_hot = open.map_or(i64::MAX, Timestamp::unix_ms);
    let from = window
        .min(became_hot.saturating_sub(now.unix_ms() - window))
        .saturating_sub(longest)
        .max(now.unix_ms() - REPLAY_MS);
    // The sample that was just taken is looked at next: it is not told twice.
    let until = load
        .with_book(|book| book.newest())
        .unwrap_or(now)
        .unix_ms()
        - 1;
    let from = Timestamp::from_unix_ms(from);
    let samples = load.recorded(from, Timestamp::from_unix_ms(until)).await?;
    mind.replay(&rules, samples);
    Ok(())
}
