//! The rules and terms for judging load and planning here, so that
//! `ballast simulate` can do the same elsewhere.

use std::collections::BTreeMap;

use ballast_domain::TenantId;
use ballast_hotspot_detector::diagnose;
use ballast_hotspot_detector::plan::{MigrationPace, PlanTerms, TimeSpan};
use ballast_hotspot_detector::rules::{Ruleset, read};
use serde::{Deserialize, Serialize};

use super::fleet;
use crate::plane::ControlPlane;

/// Rules and terms for judging load and planning.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TermsBody {
    /// The rules and windows, in the format of the rules file.
    #[schema(value_type = Object)]
    pub rules: serde_json::Value,
    /// Settings of the diagnosis.
    #[schema(value_type = Object)]
    pub diagnose: diagnose::DiagnosisSettings,
    /// The share of its capacity above which a shard is overloaded.
    pub limit: f64,
    /// The share down to which it is relieved.
    pub goal: f64,
    /// Slices placed or moved less than this long ago are not moved.
    pub settle_seconds: i64,
    /// Maximum number of moves per plan.
    pub moves_max: usize,
    /// How fast slices move, and how many at a time.
    #[schema(value_type = Object)]
    pub pace: MigrationPace,
    /// When migrations may begin; at any time when empty.
    pub maintenance: Vec<String>,
    /// Move freezes of tenants, around their polls.
    #[schema(value_type = Object)]
    pub freezes: BTreeMap<TenantId, Vec<TimeSpan>>,
}

/// The rules and terms of this control plane.
pub fn show(plane: &ControlPlane) -> TermsBody {
    let settings = plane.settings();
    let hotspots = &settings.hotspots;
    let terms = fleet::create_plan_terms(plane);
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
    /// Parses the rules and the terms of a plan.
    ///
    /// # Errors
    ///
    /// When the other side has rules or windows that this version does not know.
    pub fn read(&self) -> Result<(Ruleset, PlanTerms), String> {
        let rules = read(&self.rules).map_err(|problems| problems.to_string())?;
        let windows = self.maintenance.iter().map(|text| text.parse());
        let windows = windows.collect::<Result<Vec<_>, _>>();
        let terms = PlanTerms {
            settle_seconds: self.settle_seconds,
            moves_max: self.moves_max,
            pace: self.pace,
            windows: windows
                .map_err(|bad: ballast_domain::maintenance::BadWindow| bad.to_string())?,
            freezes: self.freezes.clone(),
            ..PlanTerms::default()
        };
        Ok((rules, terms))
    }
}
