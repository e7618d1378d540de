//! What an operator may set about hotspots.

use std::sync::Arc;

use ballast_hotspot_detector::diagnose;
use ballast_hotspot_detector::load::Spans;
use ballast_hotspot_detector::plan::{GOAL_DEFAULT, LIMIT_DEFAULT};
use ballast_hotspot_detector::rules::{Ruleset, defaults};
use serde::{Deserialize, Serialize};

/// What is done about hotspots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Nothing: nobody looks.
    Off,
    /// They are found and told, and nothing is proposed.
    Observe,
    /// What would help is written down as a plan, and somebody approves it.
    #[default]
    Propose,
    /// What helps is done.
    Auto,
}

impl Mode {
    /// Its name, as in its JSON.
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

/// What an operator may set about hotspots.
#[derive(Debug, Clone, PartialEq)]
pub struct HotspotSettings {
    /// What is done about them.
    pub mode: Mode,
    /// When something is a hotspot, and the windows that are looked at.
    pub rules: Arc<Ruleset>,
    /// What a diagnosis goes by.
    pub diagnose: diagnose::Settings,
    /// The share of its capacity above which a shard is in trouble.
    pub limit: f64,
    /// The share to which it is relieved, and others are filled.
    pub goal: f64,
    /// A slice that was placed or moved less than this ago is left alone, in
    /// milliseconds.
    pub settle_ms: u64,
    /// A plan that nobody approves is void after so long, in milliseconds.
    pub expire_ms: u64,
    /// Moves of one plan, at the most.
    pub moves_max: usize,
    /// A key that floods its shard is let through only so often for so long, in
    /// seconds.
    pub throttle_seconds: i64,
}

impl Default for HotspotSettings {
    fn default() -> Self {
        let rules = defaults().unwrap_or_else(|_| Ruleset {
            // A test reads the default rules; they are never wrong.
            spans: Spans::default(),
            rules: Vec::new(),
        });
        Self {
            mode: Mode::default(),
            rules: Arc::new(rules),
            diagnose: diagnose::Settings::default(),
            limit: LIMIT_DEFAULT,
            goal: GOAL_DEFAULT,
            settle_ms: 6 * 3_600_000,
            expire_ms: 24 * 3_600_000,
            moves_max: 100,
            throttle_seconds: 3_600,
        }
    }
}
