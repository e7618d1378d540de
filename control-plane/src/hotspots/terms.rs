//! What load is judged and planned by here, for who does the same elsewhere:
//! `ballast simulate`.

use std::collections::BTreeMap;

use ballast_domain::TenantId;
use ballast_hotspot_detector::diagnose;
use ballast_hotspot_detector::plan::{Pace, Span, Terms};
use ballast_hotspot_detector::rules::{Ruleset, read};
use serde::{Deserialize, Serialize};

use super::fleet;
use crate::plane::ControlPlane;

/// What load is judged and planned by.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TermsBody {
    /// The rules and windows, as their file has them.
    #[schema(value_type = Object)]
    pub rules: serde_json::Value,
    /// What a diagnosis goes by.
    #[schema(value_type = Object)]
    pub diagnose: diagnose::Settings,
    /// The share of its capacity above which a shard is in trouble.
    pub limit: f64,
    /// The share to which it is relieved.
    pub goal: f64,
    /// A slice that was placed or moved less than this ago is left alone.
    pub settle_seconds: i64,
    /// Moves of one plan, at the most.
    pub moves_max: usize,
    /// How fast moves go, and how many at a time.
    #[schema(value_type = Object)]
    pub pace: Pace,
    /// When moves may begin; at any time when there is none.
    pub maintenance: Vec<String>,
    /// When tenants are left alone, around their polls.
    #[schema(value_type = Object)]
    pub freezes: BTreeMap<TenantId, Vec<Span>>,
}

/// What holds here.
pub fn show(plane: &ControlPlane) -> TermsBody {
    let settings = plane.settings();
    let hotspots = &settings.hotspots;
    let terms = fleet::terms(plane);
    TermsBody {
        rules: hotspots.rules.settings(),
        diagnose: hotspots.diagnose.clone(),
        limit: hotspots.limit,
        goal: hotspots.goal,
        settle_seconds: terms.settle_seconds,
        moves_max: terms.moves_max,
        pace: terms.pace,
        maintenance: terms.windows.iter().map(ToString::to_string).collect(),
        freezes: terms.freezes,
    }
}

impl TermsBody {
    /// The rules, and the terms of a plan; or what of them cannot be read here.
    ///
    /// # Errors
    ///
    /// When the other side has rules or windows that this version does not know.
    pub fn read(&self) -> Result<(Ruleset, Terms), String> {
        let rules = read(&self.rules).map_err(|problems| problems.to_string())?;
        let windows = self.maintenance.iter().map(|text| text.parse());
        let windows = windows.collect::<Result<Vec<_>, _>>();
        let terms = Terms {
            settle_seconds: self.settle_seconds,
            moves_max: self.moves_max,
            pace: self.pace,
            windows: windows
                .map_err(|bad: ballast_domain::maintenance::BadWindow| bad.to_string())?,
            freezes: self.freezes.clone(),
            ..Terms::default()
        };
        Ok((rules, terms))
    }
}
