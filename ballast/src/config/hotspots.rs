//! `[hotspots]`: when a shard is a hotspot, and what may be done about it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast_cli::read_rules;
use ballast_control_plane::hotspots::{self, HotspotSettings};
use ballast_domain::bounds::LANES_MAX;
use ballast_hotspot_detector::diagnose;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HumanDuration, Moves};

/// When a shard is a hotspot, and what may be done about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Hotspots {
    /// What to do about hotspots: `off`, `observe` (report them), `propose` (plan a cure that an
    /// operator approves) or `auto` (run the cure).
    pub(crate) mode: Mode,
    /// A file with rules and windows (`docs/hotspots.md` has the reference); the built-in rules
    /// when absent. It is reloaded with the configuration.
    pub(crate) rules: Option<PathBuf>,
    /// A shard above this share of its capacity is relieved.
    #[schemars(range(min = 0.05, max = 1.0))]
    pub(crate) limit: f64,
    /// The share down to which it is relieved, and up to which other shards are filled.
    #[schemars(range(min = 0.05, max = 1.0))]
    pub(crate) goal: f64,
    /// A shard above this share of its capacity counts as too full in a diagnosis.
    #[schemars(range(min = 0.05, max = 1.0))]
    pub(crate) level: f64,
    /// The utilisation over the long window that is required before data is moved.
    #[schemars(range(min = 0.05, max = 1.0))]
    pub(crate) sure: f64,
    /// The share of a shard that a tenant may use.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) fair_share: f64,
    /// Votes per second that one lane of a poll's counter can take; a counter whose lanes come
    /// close to it gets more lanes.
    #[schemars(range(min = 1.0))]
    pub(crate) lane_votes_max: f64,
    /// The minimum number of lanes of a counter that has cooled.
    #[schemars(range(min = 1, max = 256))]
    pub(crate) lanes_min: u16,
    /// The maximum number of lanes of a hot counter.
    #[schemars(range(min = 1, max = 256))]
    pub(crate) lanes_max: u16,
    /// A tenant with this share of its shard's load is the sole cause.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) dominant_share: f64,
    /// A key with less than this share of its shard's calls does not overload it.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) key_share: f64,
    /// A key overloads its shard if this share of its calls is refused.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) key_refused: f64,
    /// A key overloads its shard if it makes this many times the calls that its tenant may make.
    #[schemars(range(min = 1.0))]
    pub(crate) key_over_limit: f64,
    /// How long a key that overloads its shard is throttled.
    pub(crate) throttle: HumanDuration,
    /// A shard whose writes wait although its utilisation is below this is sick; nothing is moved
    /// because of it.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) sick_below: f64,
    /// A slice that was placed or moved more recently than this is not moved.
    pub(crate) settle: HumanDuration,
    /// How long after a cure its slice is not moved and its tenant not split again, and how long
    /// a cure that did not help and a plan that was rejected are not repeated.
    pub(crate) rest: HumanDuration,
    /// How long the effect of a cure is measured before it is judged and the next one starts.
    pub(crate) judge: HumanDuration,
    /// A cure that has not ended after this time no longer blocks others.
    pub(crate) give_up: HumanDuration,
    /// A plan expires after this time without approval.
    pub(crate) expire: HumanDuration,
    /// Maximum number of moves in one plan.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) moves_max: usize,
}

/// What to do about hotspots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// No detection.
    Off,
    /// Report them.
    Observe,
    /// Plan a cure that an operator approves.
    Propose,
    /// Run the cure.
    Auto,
}

impl Default for Hotspots {
    fn default() -> Self {
        let set = HotspotSettings::default();
        let human = |ms| HumanDuration(Duration::from_millis(ms));
        Self {
            mode: Mode::Propose,
            rules: None,
            limit: set.limit,
            goal: set.goal,
            level: set.diagnose.level,
            sure: set.diagnose.sure,
            fair_share: set.diagnose.fair_share,
            lane_votes_max: set.diagnose.lane_votes_max,
            lanes_min: set.diagnose.lanes_min,
            lanes_max: set.diagnose.lanes_max,
            dominant_share: set.diagnose.dominant_share,
            key_share: set.diagnose.key_share,
            key_refused: set.diagnose.refused_share,
            key_over_limit: set.diagnose.over_limit,
            throttle: human(set.throttle_seconds.unsigned_abs() * 1_000),
            sick_below: set.diagnose.sick_fill,
            settle: human(set.settle_ms),
            rest: human(set.diagnose.rest_ms),
            judge: human(set.diagnose.judge_ms),
            give_up: human(set.diagnose.give_up_ms),
            expire: human(set.expire_ms),
            moves_max: set.moves_max,
        }
    }
}

/// The target utilisation of a relieved shard: far enough below the level that the next peak does
/// not make it a hotspot again.
fn aim(level: f64) -> f64 {
    (level - 0.10).max(level / 2.0)
}

fn ms(human: HumanDuration) -> u64 {
    u64::try_from(human.0.as_millis()).unwrap_or(u64::MAX)
}

impl Hotspots {
    /// Converts to the control plane's settings. `moves` limits the speed of migrations.
    pub(crate) fn settings(&self, moves: &Moves) -> anyhow::Result<HotspotSettings> {
        let usual = HotspotSettings::default();
        let rules = match &self.rules {
            Some(file) => Arc::new(read_rules(file)?),
            None => usual.rules,
        };
        Ok(HotspotSettings {
            mode: match self.mode {
                Mode::Off => hotspots::HotspotMode::Off,
                Mode::Observe => hotspots::HotspotMode::Observe,
                Mode::Propose => hotspots::HotspotMode::Propose,
                Mode::Auto => hotspots::HotspotMode::Auto,
            },
            rules,
            diagnose: diagnose::DiagnosisSettings {
                level: self.level,
                sure: self.sure,
                fair_share: self.fair_share,
                lane_votes_max: self.lane_votes_max,
                lanes_min: self.lanes_min,
                lanes_max: self.lanes_max,
                dominant_share: self.dominant_share,
                key_share: self.key_share,
                refused_share: self.key_refused,
                over_limit: self.key_over_limit,
                sick_fill: self.sick_below,
                aim: aim(self.level),
                move_bytes_per_second: moves
                    .bytes_per_second
                    .map_or(usual.diagnose.move_bytes_per_second, |bytes| bytes as f64),
                rest_ms: ms(self.rest),
                judge_ms: ms(self.judge),
                give_up_ms: ms(self.give_up),
                ..usual.diagnose
            },
            limit: self.limit,
            goal: self.goal,
            settle_ms: ms(self.settle),
            expire_ms: ms(self.expire),
            moves_max: self.moves_max,
            throttle_seconds: i64::try_from(self.throttle.0.as_secs()).unwrap_or(i64::MAX),
        })
    }

    /// The first invalid value, with its key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, share) in [
            ("hotspots.limit", self.limit),
            ("hotspots.goal", self.goal),
            ("hotspots.level", self.level),
            ("hotspots.sure", self.sure),
            ("hotspots.fair_share", self.fair_share),
            ("hotspots.dominant_share", self.dominant_share),
            ("hotspots.key_share", self.key_share),
            ("hotspots.key_refused", self.key_refused),
            ("hotspots.sick_below", self.sick_below),
        ] {
            if !(0.01..=1.0).contains(&share) {
                let message = "must be a share, from 0.01 to 1".to_owned();
                return Err((key, message));
            }
        }
        if self.goal > self.limit {
            let message = format!("must be at most hotspots.limit ({})", self.limit);
            return Err(("hotspots.goal", message));
        }
        if self.sure < self.level {
            let message = format!("must be at least hotspots.level ({})", self.level);
            return Err(("hotspots.sure", message));
        }
        if !(1..=self.lanes_max).contains(&self.lanes_min) {
            let message = format!("must be from 1 to hotspots.lanes_max ({})", self.lanes_max);
            return Err(("hotspots.lanes_min", message));
        }
        if self.lanes_max > LANES_MAX {
            let message = format!("must be at most {LANES_MAX}");
            return Err(("hotspots.lanes_max", message));
        }
        if !(1.0..=1e6).contains(&self.key_over_limit) {
            return Err(("hotspots.key_over_limit", "must be at least 1".to_owned()));
        }
        let year = Duration::from_secs(366 * 86_400);
        for (key, time, least) in [
            ("hotspots.throttle", self.throttle, Duration::from_secs(1)),
            ("hotspots.settle", self.settle, Duration::ZERO),
            ("hotspots.rest", self.rest, Duration::ZERO),
            ("hotspots.judge", self.judge, Duration::from_secs(1)),
            ("hotspots.give_up", self.give_up, Duration::from_secs(1)),
            ("hotspots.expire", self.expire, Duration::from_secs(1)),
        ] {
            if !(least..=year).contains(&time.0) {
                let least = humantime::format_duration(least);
                return Err((key, format!("must be from {least} to a year")));
            }
        }
        if !(1.0..=1e9).contains(&self.lane_votes_max) {
            return Err(("hotspots.lane_votes_max", "must be at least 1".to_owned()));
        }
        if !(1..=1_000).contains(&self.moves_max) {
            return Err(("hotspots.moves_max", "must be from 1 to 1000".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that is complained of when a text is set.
    fn wrong(text: &str) -> Option<&'static str> {
        let set: Hotspots = toml::from_str(text).unwrap();
        set.check().err().map(|(key, _)| key)
    }

    #[test]
    fn what_cannot_be_is_named_by_its_key() {
        assert_eq!(wrong(""), None);
        assert_eq!(wrong("lanes_min = 4\nlanes_max = 4\nsure = 0.75"), None);
        for (text, key) in [
            ("sure = 0.7", "hotspots.sure"),
            ("lanes_min = 20\nlanes_max = 10", "hotspots.lanes_min"),
            ("lanes_min = 0", "hotspots.lanes_min"),
            ("lanes_max = 257", "hotspots.lanes_max"),
            ("key_share = 1.5", "hotspots.key_share"),
            ("key_refused = 0.0", "hotspots.key_refused"),
            ("key_over_limit = 0.5", "hotspots.key_over_limit"),
            ("dominant_share = nan", "hotspots.dominant_share"),
            ("sick_below = -1.0", "hotspots.sick_below"),
            ("throttle = \"0s\"", "hotspots.throttle"),
        ] {
            assert_eq!(wrong(text), Some(key), "{text}");
        }
    }

    #[test]
    fn a_relieved_shard_is_well_below_the_level() {
        let usual = Hotspots::default().settings(&Moves::default()).unwrap();
        let known = HotspotSettings::default();
        assert!((usual.diagnose.aim - known.diagnose.aim).abs() < 1e-9);
        let with_its = diagnose::DiagnosisSettings {
            aim: known.diagnose.aim,
            ..usual.diagnose.clone()
        };
        assert_eq!(with_its, known.diagnose);
        for level in [0.05, 0.5, 1.0] {
            assert!(aim(level) < level);
        }
    }
}
