//! How evenly an item's votes are spread over its lanes, and the cause of an imbalance.
//!
//! A deviation of up to 10 % of the mean is normal; more than 30 % is a finding. By chance
//! alone a lane deviates by about the square root of its votes, so few votes prove nothing:
//! the report says if the deviation is within chance.

use serde::{Deserialize, Serialize};

/// A deviation up to this is normal.
const NORMAL: f64 = 0.10;
/// A deviation above this is a finding.
const FINDING: f64 = 0.30;
/// Up to this many standard deviations count as chance.
const CHANCE: f64 = 4.0;
/// The most times that lanes may have been added. More steps would explain any sequence of
/// falling counts.
const ADDED_MAX: usize = 3;

/// The verdict on an item's lanes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = Verdict)]
pub enum LaneBalance {
    /// Every lane is within 10 % of the mean, or within chance.
    Even,
    /// A lane deviates from the mean by more than 10 %.
    Uneven,
    /// A lane deviates from the mean by more than 30 %.
    Skewed,
}

/// Why lanes are uneven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Cause)]
pub enum ImbalanceCause {
    /// There are so few votes that chance explains the deviation.
    TooFewVotes,
    /// The last lanes were added later and have fewer votes.
    LanesAdded,
    /// Neither: the voters are not spread evenly.
    Unknown,
}

/// The lanes of one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Spread)]
pub struct LaneSpread {
    /// The votes in each lane.
    pub lanes: Vec<u64>,
    /// The highest deviation of a lane from the mean, in per cent of the mean.
    pub deviation_percent: f64,
    /// The verdict.
    pub verdict: LaneBalance,
    /// The cause, if they are not even.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ImbalanceCause>,
}

impl LaneSpread {
    /// Judges an item's lanes.
    pub fn from_lanes(lanes: Vec<u64>) -> Self {
        let deviation = deviation(&lanes);
        let few = is_chance(&lanes, deviation);
        let verdict = match deviation {
            _ if few => LaneBalance::Even,
            deviation if deviation <= NORMAL => LaneBalance::Even,
            deviation if deviation <= FINDING => LaneBalance::Uneven,
            _ => LaneBalance::Skewed,
        };
        let cause = if deviation <= NORMAL {
            None
        } else if few {
            Some(ImbalanceCause::TooFewVotes)
        } else if added_later(&lanes) {
            Some(ImbalanceCause::LanesAdded)
        } else {
            Some(ImbalanceCause::Unknown)
        };
        Self {
            deviation_percent: (deviation * 1_000.0).round() / 10.0,
            lanes,
            verdict,
            cause,
        }
    }
}

fn mean(lanes: &[u64]) -> f64 {
    lanes.iter().sum::<u64>() as f64 / lanes.len().max(1) as f64
}

/// The highest deviation of a lane from the mean, as a share of the mean.
fn deviation(lanes: &[u64]) -> f64 {
    let mean = mean(lanes);
    if mean == 0.0 {
        return 0.0;
    }
    let distances = lanes.iter().map(|lane| (*lane as f64 - mean).abs() / mean);
    distances.fold(0.0, f64::max)
}

/// Whether chance explains the deviation. With less than one vote per lane, a lane with a few
/// votes is within chance, although the mean is near 0.
fn is_chance(lanes: &[u64], deviation: f64) -> bool {
    let mean = mean(lanes);
    mean == 0.0 || deviation * mean <= CHANCE * mean.max(1.0).sqrt()
}

/// Whether the first lanes are even and the others have fewer votes, because they were added
/// later: all at once, or in a few steps.
fn added_later(lanes: &[u64]) -> bool {
    let (mut rest, mut above) = (lanes, f64::INFINITY);
    for _ in 0..=ADDED_MAX {
        let (level, later) = rest.split_at(even_at_first(rest));
        if mean(level) >= above {
            return false;
        }
        if later.is_empty() {
            return true;
        }
        (rest, above) = (later, mean(level));
    }
    false
}

/// How many of the first lanes are even.
fn even_at_first(lanes: &[u64]) -> usize {
    let is_even = |lanes: &[u64]| {
        let deviation = deviation(lanes);
        deviation <= NORMAL || is_chance(lanes, deviation)
    };
    let uneven = (1..=lanes.len()).find(|many| !is_even(&lanes[..*many]));
    uneven.map_or(lanes.len(), |many| many - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lanes: &[u64]) -> (LaneBalance, Option<ImbalanceCause>) {
        let spread = LaneSpread::from_lanes(lanes.to_vec());
        (spread.verdict, spread.cause)
    }

    #[test]
    fn lanes_are_judged_by_their_distance_from_the_mean() {
        let few = Some(ImbalanceCause::TooFewVotes);
        assert_eq!(judged(&[]), (LaneBalance::Even, None));
        assert_eq!(judged(&[0, 0]), (LaneBalance::Even, None));
        assert_eq!(judged(&[151, 150, 150]), (LaneBalance::Even, None));
        assert_eq!(judged(&[3, 1, 2]), (LaneBalance::Even, few));
        assert_eq!(judged(&[10_500, 10_000, 9_600]), (LaneBalance::Even, None));
        let unknown = Some(ImbalanceCause::Unknown);
        assert_eq!(
            judged(&[8_000, 10_000, 12_000]),
            (LaneBalance::Uneven, unknown)
        );
        assert_eq!(
            judged(&[4_000, 10_000, 16_000]),
            (LaneBalance::Skewed, unknown)
        );
    }

    #[test]
    fn lanes_that_were_added_later_are_a_cause() {
        let added = Some(ImbalanceCause::LanesAdded);
        assert_eq!(
            judged(&[20_000, 20_100, 5_000, 5_050]),
            (LaneBalance::Skewed, added)
        );
        assert_eq!(judged(&[10_000, 10_000, 0]), (LaneBalance::Skewed, added));
        // More than once.
        let thrice = [900, 905, 310, 290, 300, 80, 85, 78, 81];
        assert_eq!(judged(&thrice), (LaneBalance::Skewed, added));
        let rising = [300, 310, 900, 905, 80, 85];
        assert_eq!(
            judged(&rising),
            (LaneBalance::Skewed, Some(ImbalanceCause::Unknown))
        );
    }

    #[test]
    fn new_lanes_with_hardly_a_vote_are_still_new_lanes() {
        let old = [46, 25, 41, 39, 24, 35, 27, 45, 36, 31];
        let mut lanes = [0; 38];
        lanes[..10].copy_from_slice(&old);
        for (lane, votes) in [(13, 1), (16, 2), (17, 1), (20, 1)] {
            lanes[lane] = votes;
        }
        assert_eq!(
            judged(&lanes),
            (LaneBalance::Skewed, Some(ImbalanceCause::LanesAdded))
        );
    }

    #[test]
    fn the_deviation_is_a_percentage() {
        assert_eq!(
            LaneSpread::from_lanes(vec![50, 150]).deviation_percent,
            50.0
        );
    }
}
