//! Whether a hotspot is confirmed enough to move data.

use super::facts::{ShardFacts, over};
use super::settings::DiagnosisSettings;
use crate::format::{duration, percent};

/// Why no data is moved for a hotspot yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveDoubt {
    /// It may be a short spike.
    Spike(Spike),
    /// It is real, but the load swings around the limit.
    Swings,
}

/// What makes it look like a spike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spike {
    /// The shard has been measured for too short a time.
    Unknown,
    /// The hotspot is too recent.
    Young,
    /// The long window does not confirm it.
    NotInTheLongWindow,
    /// Earlier hotspots of the shard passed before a cure could have ended.
    PassesSooner,
}

/// The inputs of the decision.
pub(super) struct DoubtInputs {
    /// Whether the shard has been measured for a whole long window.
    pub(super) is_known: bool,
    /// The shard's lowest fill in any part of the long window.
    pub(super) least: f64,
    /// How long the hotspot has lasted.
    pub(super) lasted_ms: u64,
    /// How long a long window is.
    pub(super) long_ms: u64,
    /// How long the cure takes.
    pub(super) price_ms: u64,
    /// How long hotspots of the shard usually last.
    pub(super) usual_ms: Option<u64>,
}

impl DoubtInputs {
    /// The reason not to move data yet, if there is one.
    pub(super) fn doubt(
        &self,
        facts: &ShardFacts<'_>,
        settings: &DiagnosisSettings,
    ) -> Option<MoveDoubt> {
        let lasted = self.lasted_ms;
        let is_over = |level| {
            let long = facts.long.as_ref();
            long.is_some_and(|long| !over(&long.used, facts.history.capacity(), level).is_empty())
        };
        let passes_sooner = |usual| lasted < usual && usual < lasted + self.price_ms;
        if !self.is_known {
            return Some(MoveDoubt::Spike(Spike::Unknown));
        }
        if !is_over(settings.level) {
            return Some(MoveDoubt::Spike(Spike::NotInTheLongWindow));
        }
        // A swinging load may fill the long window too.
        if lasted < self.long_ms / 2 {
            return Some(MoveDoubt::Spike(Spike::Young));
        }
        if self.usual_ms.is_some_and(passes_sooner) {
            return Some(MoveDoubt::Spike(Spike::PassesSooner));
        }
        let is_steady = self.least >= settings.aim;
        (!is_over(settings.sure) && !is_steady).then_some(MoveDoubt::Swings)
    }

    /// The reason as text.
    pub(super) fn describe_spike(&self, spike: Spike) -> String {
        match spike {
            Spike::Unknown => format!(
                "the shard has been measured for less than {}",
                duration(self.long_ms as f64)
            ),
            Spike::Young => format!(
                "it has lasted {}, and data is moved only after {}",
                duration(self.lasted_ms as f64),
                duration(self.long_ms as f64 / 2.0)
            ),
            Spike::NotInTheLongWindow => "the long window does not confirm it yet".to_owned(),
            Spike::PassesSooner => format!(
                "it takes {}, and the hotspot may end before that",
                duration(self.price_ms as f64)
            ),
        }
    }

    /// Why the cure is deferred although the hotspot is real.
    pub(super) fn describe_swings(&self, settings: &DiagnosisSettings) -> String {
        format!(
            "the load swings: in part of the long window the shard was only {} full, and on average \
             not above {} (hotspots.sure)",
            percent(self.least),
            percent(settings.sure)
        )
    }
}
