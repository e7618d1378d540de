//! Counters with too few lanes, too many lanes, or unevenly filled lanes.

use ballast_domain::poll::lanes::{ImbalanceCause as Uneven, LaneBalance};

use super::cure::{Cure, HotspotCause};
use super::facts::{MeasuredFleet, ShardFacts};
use super::finding::Rejected;
use super::settings::DiagnosisSettings;
use crate::format::{percent, rounded};
use crate::load::{ItemName, ItemWindow, Window};

/// The diagnosis of a counter.
pub(super) struct CounterDiagnosis {
    pub(super) name: ItemName,
    pub(super) cause: HotspotCause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    pub(super) otherwise: String,
    pub(super) rejected: Vec<Rejected>,
    /// The load of a lane as a share of its capacity, before and after.
    pub(super) lane: Option<(f64, f64)>,
}

impl CounterDiagnosis {
    /// Whether the minimum number of lanes is enough.
    pub(super) fn is_idle(&self, settings: &DiagnosisSettings) -> bool {
        matches!(self.cure, Cure::Lanes { to, .. } if to <= settings.lanes_min)
    }
}

/// The counters of a shard that are at the limit of their lanes. The short window is
/// enough: adding lanes costs nothing, waiting does.
pub(super) fn hot(
    fleet: &MeasuredFleet<'_>,
    shard: &ShardFacts<'_>,
    settings: &DiagnosisSettings,
) -> Vec<CounterDiagnosis> {
    let items = fleet
        .history
        .items(shard.history, Window::Short, &shard.short);
    let limit = settings.lane_votes_max * settings.lane_hot;
    let hot = items.iter().filter(|item| item.lane_votes() > limit);
    hot.map(|item| {
        let slice = &item.name.slice;
        let slice = fleet
            .history
            .slice(shard.history, slice, Window::Short, &shard.short);
        diagnose_hot_counter(item, slice.map_or(0.0, |slice| slice.throttles), settings)
    })
    .collect()
}

/// `throttled_calls`: the tenant's throttled calls per second. With more lanes they become
/// votes.
fn diagnose_hot_counter(
    item: &ItemWindow,
    throttled_calls: f64,
    settings: &DiagnosisSettings,
) -> CounterDiagnosis {
    let from = lane_count(item);
    let demand = item.votes + throttled_calls;
    let wanted = (demand / (settings.lane_votes_max * settings.lane_level)).ceil();
    let to = (wanted as u16).clamp(from, settings.lanes_max.max(from));
    let evidence = hot_counter_evidence(item, throttled_calls, settings);
    let (name, votes, lanes) = (item.name.clone(), item.votes, from);
    let cause = HotspotCause::HotCounter {
        item: name.clone(),
        votes,
        lanes,
    };
    let moving = Rejected {
        cure: "move",
        because: "moving will not help: the counter would be as hot on any shard".to_owned(),
    };
    if to > from {
        let share = |lanes: u16| demand / f64::from(lanes.max(1)) / settings.lane_votes_max;
        let now = item.lane_votes() / settings.lane_votes_max;
        return CounterDiagnosis {
            lane: Some((now, share(to))),
            cure: Cure::Lanes {
                item: name.clone(),
                from,
                to,
            },
            name,
            cause,
            evidence,
            otherwise:
                "If votes still wait, the shard's disk is the bottleneck: check its fsync time, \
                        and move the tenant to a faster shard."
                    .to_owned(),
            rejected: vec![moving],
        };
    }
    let lanes = Rejected {
        cure: "more lanes",
        because: format!("{from} lanes are the maximum"),
    };
    CounterDiagnosis {
        lane: None,
        name,
        cause,
        cure: Cure::Nothing,
        evidence,
        otherwise: "Votes on this item are queued, and none is lost. Limit the tenant's votes \
                    per second, or spread the question over more items."
            .to_owned(),
        rejected: vec![lanes, moving],
    }
}

/// What shows that a counter is at the limit of its lanes.
fn hot_counter_evidence(
    item: &ItemWindow,
    throttled_calls: f64,
    settings: &DiagnosisSettings,
) -> Vec<String> {
    let from = lane_count(item);
    let mut evidence = vec![
        format!(
            "{} of {} gets {} votes/s",
            item.name.item,
            item.name.poll,
            rounded(item.votes)
        ),
        format!(
            "on {from} lanes that is {} of the {} votes/s that one lane is rated at",
            percent(item.lane_votes() / settings.lane_votes_max),
            rounded(settings.lane_votes_max)
        ),
    ];
    if throttled_calls >= 1.0 {
        let many = rounded(throttled_calls);
        evidence.push(format!("{many} calls/s of its tenant are throttled"));
    }
    evidence
}

/// Whether a counter has more lanes than it needs in both windows. Lanes belong to the
/// poll: its busiest item decides how many it needs.
pub(super) fn cool(
    fleet: &MeasuredFleet<'_>,
    shard: &ShardFacts<'_>,
    name: &ItemName,
    settings: &DiagnosisSettings,
) -> Option<CounterDiagnosis> {
    let find = |window, measured| {
        let items = fleet.history.items(shard.history, window, measured);
        // Busiest first.
        let mut items = items.into_iter();
        items.find(|item| item.name.is_of_same_poll(name))
    };
    let short = find(Window::Short, &shard.short)?;
    let long = find(Window::Long, shard.long.as_ref()?)?;
    let votes = short.votes.max(long.votes);
    let from = lane_count(&short);
    // Half the allowed load per lane, so that the counter is not hot again immediately.
    let wanted = votes / (settings.lane_votes_max * settings.lane_level / 2.0);
    let to = (wanted.ceil() as u16).max(settings.lanes_min);
    if to > from / 2 {
        return None;
    }
    let share = |lanes: u16| votes / f64::from(lanes.max(1)) / settings.lane_votes_max;
    Some(CounterDiagnosis {
        lane: Some((share(from), share(to))),
        name: name.clone(),
        cause: HotspotCause::CoolCounter {
            item: name.clone(),
            votes,
            lanes: from,
        },
        cure: Cure::Lanes {
            item: name.clone(),
            from,
            to,
        },
        evidence: vec![format!(
            "{} has {from} lanes, and its busiest item gets {} votes/s in the short window and {} in \
             the long window",
            name.poll,
            rounded(short.votes),
            rounded(long.votes)
        )],
        otherwise:
            "Extra lanes only make reading the total slightly slower. To keep them, set the \
                    number of voters that the poll expects."
                .to_owned(),
        rejected: Vec::new(),
    })
}

/// Whether a counter's lanes are uneven beyond statistical noise.
pub(super) fn skewed(
    fleet: &MeasuredFleet<'_>,
    shard: &ShardFacts<'_>,
    name: &ItemName,
) -> Option<CounterDiagnosis> {
    let items = fleet
        .history
        .items(shard.history, Window::Short, &shard.short);
    let item = items.into_iter().find(|item| item.name == *name)?;
    let spread = item.spread();
    // Lanes that were added recently are expected to be uneven.
    if spread.verdict != LaneBalance::Skewed || spread.cause != Some(Uneven::Unknown) {
        return None;
    }
    let skew = spread.deviation_percent / 100.0;
    Some(CounterDiagnosis {
        lane: None,
        name: name.clone(),
        cause: HotspotCause::SkewedLanes {
            item: name.clone(),
            skew,
        },
        cure: Cure::Nothing,
        evidence: vec![
            format!(
                "the lane farthest from the mean of {} lanes deviates by {}",
                spread.lanes.len(),
                percent(skew)
            ),
            "there are too many votes for this to be chance, and no lanes were added recently"
                .to_owned(),
        ],
        otherwise: "The total is correct nevertheless. Check the voter IDs that the tenant's \
                    application sends: they select the lanes, and a few distinct IDs spread \
                    unevenly."
            .to_owned(),
        rejected: vec![Rejected {
            cure: "more lanes",
            because: "more lanes would be just as uneven".to_owned(),
        }],
    })
}

fn lane_count(item: &ItemWindow) -> u16 {
    u16::try_from(item.lanes.len().max(1)).unwrap_or(u16::MAX)
}
