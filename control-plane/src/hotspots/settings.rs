//! Settings of hotspot detection and cures.

use std::sync::Arc;

use ballast_hotspot_detector::diagnose;
use ballast_hotspot_detector::load::Spans;
use ballast_hotspot_detector::plan::{GOAL_DEFAULT, LIMIT_DEFAULT};
use ballast_hotspot_detector::rules::{Ruleset, defaults};
use serde::{Deserialize, Serialize};

/// What is done about hotspots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Mode)]
pub enum HotspotMode {
    /// Detection is off.
    Off,
    /// Hotspots are detected and shown, and nothing is proposed.
    Observe,
    /// Cures are recorded as plans that wait for approval.
    #[default]
    Propose,
    /// Cures are applied automatically.
    Auto,
}

impl HotspotMode {
    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Observe => "observe",
            Self::Propose => "propose",
            Self::Auto => "auto",
        }
    }
}

/// Settings of hotspot detection and cures.
#[derive(Debug, Clone, PartialEq)]
pub struct HotspotSettings {
    /// What is done about hotspots.
    pub mode: HotspotMode,
    /// The rules, and the windows that they use.
    pub rules: Arc<Ruleset>,
    /// Settings of the diagnosis.
    pub diagnose: diagnose::DiagnosisSettings,
    /// The share of its capacity above which a shard is overloaded.
    pub limit: f64,
    /// The share down to which overloaded shards are relieved, and up to which others
    /// are filled.
    pub goal: f64,
    /// Slices placed or moved less than this long ago are not moved, in milliseconds.
    pub settle_ms: u64,
    /// Proposed plans expire after this long, in milliseconds.
    pub expire_ms: u64,
    /// Maximum number of moves per plan.
    pub moves_max: usize,
    /// How long an abusive key stays throttled, in seconds.
    pub throttle_seconds: i64,
}

impl Default for HotspotSettings {
    fn default() -> Self {
        let rules = defaults().unwrap_or_else(|_| Ruleset {
            // A test parses the default rules, so this cannot fail.
            spans: Spans::default(),
            rules: Vec::new(),
        });
        Self {
            mode: HotspotMode::default(),
            rules: Arc::new(rules),
            diagnose: diagnose::DiagnosisSettings::default(),
            limit: LIMIT_DEFAULT,
            goal: GOAL_DEFAULT,
            settle_ms: 6 * 3_600_000,
            expire_ms: 24 * 3_600_000,
            moves_max: 100,
            throttle_seconds: 3_600,
        }
    }
}
