//! Whether a hotspot is real enough to move data for it.

use super::facts::{ShardFacts, over};
use super::settings::Settings;
use crate::words::{duration, percent};

/// Why data is not moved for a hotspot now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It may be a spike.
    Spike(Spike),
    /// It is real, and swings around what is too full.
    Swings,
}

/// What makes it look like a spike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spike {
    /// The shard has not been known for long.
    Unknown,
    /// It has only begun.
    Young,
    /// The long window does not show it.
    NotInTheLongWindow,
    /// Others like it passed before a cure could end.
    PassesSooner,
}

/// What a doubt goes by.
pub(super) struct Story {
    /// Whether the shard has been known for a long window.
    pub(super) is_known: bool,
    /// The least that the shard was full in any part of the long window.
    pub(super) least: f64,
    /// How long it has lasted.
    pub(super) lasted_ms: u64,
    /// How long a long window is.
    pub(super) long_ms: u64,
    /// How long the cure takes.
    pub(super) price_ms: u64,
    /// How long hotspots of the shard usually last.
    pub(super) usual_ms: Option<u64>,
}

impl Story {
    /// What stands against moving data, if anything does.
    pub(super) fn doubt(&self, facts: &ShardFacts<'_>, settings: &Settings) -> Option<Doubt> {
        let lasted = self.lasted_ms;
        let is_over = |level| {
            let long = facts.long.as_ref();
            long.is_some_and(|long| !over(&long.used, facts.book.capacity(), level).is_empty())
        };
        let passes_sooner = |usual| lasted < usual && usual < lasted + self.price_ms;
        if !self.is_known {
            return Some(Doubt::Spike(Spike::Unknown));
        }
        if !is_over(settings.level) {
            return Some(Doubt::Spike(Spike::NotInTheLongWindow));
        }
        // What swings up and down may fill the long window too.
        if lasted < self.long_ms / 2 {
            return Some(Doubt::Spike(Spike::Young));
        }
        if self.usual_ms.is_some_and(passes_sooner) {
            return Some(Doubt::Spike(Spike::PassesSooner));
        }
        let is_steady = self.least >= settings.aim;
        (!is_over(settings.sure) && !is_steady).then_some(Doubt::Swings)
    }

    /// Why a cure is left, in words.
    pub(super) fn because(&self, spike: Spike) -> String {
        match spike {
            Spike::Unknown => format!(
                "the shard has been measured for less than {}",
                duration(self.long_ms as f64)
            ),
            Spike::Young => format!(
                "it has lasted {}, and data is moved after {}",
                duration(self.lasted_ms as f64),
                duration(self.long_ms as f64 / 2.0)
            ),
            Spike::NotInTheLongWindow => "the long window does not yet say the same".to_owned(),
            Spike::PassesSooner => format!(
                "it takes {}, and this may be over before",
                duration(self.price_ms as f64)
            ),
        }
    }

    /// Why it is not done yet although it is real.
    pub(super) fn swings(&self, settings: &Settings) -> String {
        format!(
            "it swings: in a part of the long window the shard was only {} full, and on the whole \
             not above {} (hotspots.sure)",
            percent(self.least),
            percent(settings.sure)
        )
    }
}
