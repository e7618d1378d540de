//! Counters: too hot for their lanes, too cool for so many, or uneven.

use ballast_domain::poll::lanes::{Cause as Uneven, Verdict};

use super::cure::{Cause, Cure};
use super::facts::{Fleet, ShardFacts};
use super::finding::Rejected;
use super::settings::Settings;
use crate::load::{ItemName, ItemView, Window};
use crate::words::{percent, rounded};

/// What is to be said of a counter.
pub(super) struct Counter {
    pub(super) name: ItemName,
    pub(super) cause: Cause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    pub(super) otherwise: String,
    pub(super) rejected: Vec<Rejected>,
    /// How much of what one takes a lane gets, before and after.
    pub(super) lane: Option<(f64, f64)>,
}

impl Counter {
    /// Whether the fewest lanes there may be are enough for it.
    pub(super) fn is_idle(&self, settings: &Settings) -> bool {
        matches!(self.cure, Cure::Lanes { to, .. } if to <= settings.lanes_min)
    }
}

/// The counters of a shard that take as many votes as their lanes can. The
/// short window is enough: lanes cost nothing, and waiting does.
pub(super) fn hot(fleet: &Fleet<'_>, shard: &ShardFacts<'_>, settings: &Settings) -> Vec<Counter> {
    let items = fleet.book.items(shard.book, Window::Short, &shard.short);
    let limit = settings.lane_votes_max * settings.lane_hot;
    let hot = items.iter().filter(|item| item.lane_votes() > limit);
    hot.map(|item| {
        let slice = &item.name.slice;
        let slice = fleet
            .book
            .slice(shard.book, slice, Window::Short, &shard.short);
        too_hot(item, slice.map_or(0.0, |slice| slice.throttles), settings)
    })
    .collect()
}

/// `turned_away`: the tenant's calls that were too many, per second. They come
/// back as votes when there are lanes for them.
fn too_hot(item: &ItemView, turned_away: f64, settings: &Settings) -> Counter {
    let from = lanes_of(item);
    let demand = item.votes + turned_away;
    let wanted = (demand / (settings.lane_votes_max * settings.lane_level)).ceil();
    let to = (wanted as u16).clamp(from, settings.lanes_max.max(from));
    let mut evidence = vec![
        format!(
            "{} of {} gets {} votes/s",
            item.name.item,
            item.name.poll,
            rounded(item.votes)
        ),
        format!(
            "on {from} lanes that is {} of the {} votes/s that one lane takes",
            percent(item.lane_votes() / settings.lane_votes_max),
            rounded(settings.lane_votes_max)
        ),
    ];
    if turned_away >= 1.0 {
        let many = rounded(turned_away);
        evidence.push(format!("{many} calls/s of its tenant are turned away"));
    }
    let (name, votes, lanes) = (item.name.clone(), item.votes, from);
    let cause = Cause::HotCounter {
        item: name.clone(),
        votes,
        lanes,
    };
    let moving = Rejected {
        cure: "move",
        because: "moving will not help, because the counter would be as hot on any shard"
            .to_owned(),
    };
    if to > from {
        let share = |lanes: u16| demand / f64::from(lanes.max(1)) / settings.lane_votes_max;
        let now = item.lane_votes() / settings.lane_votes_max;
        return Counter {
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
                "If votes still wait, the shard's disk is the limit: look at its fsync time, \
                        and move the tenant to a faster shard."
                    .to_owned(),
            rejected: vec![moving],
        };
    }
    let lanes = Rejected {
        cure: "more lanes",
        because: format!("{from} lanes are the most there may be"),
    };
    Counter {
        lane: None,
        name,
        cause,
        cure: Cure::Nothing,
        evidence,
        otherwise: "Votes on this item wait their turn and none is lost. Limit the tenant's votes \
                    per second, or spread the question over more items."
            .to_owned(),
        rejected: vec![lanes, moving],
    }
}

/// Whether a counter has more lanes than it needs, by both windows. Lanes are
/// the poll's: its busiest item says how many it needs.
pub(super) fn cool(
    fleet: &Fleet<'_>,
    shard: &ShardFacts<'_>,
    name: &ItemName,
    settings: &Settings,
) -> Option<Counter> {
    let find = |window, measured| {
        let items = fleet.book.items(shard.book, window, measured);
        // The busiest comes first.
        let mut items = items.into_iter();
        items.find(|item| item.name.is_of_same_poll(name))
    };
    let short = find(Window::Short, &shard.short)?;
    let long = find(Window::Long, shard.long.as_ref()?)?;
    let votes = short.votes.max(long.votes);
    let from = lanes_of(&short);
    // Half as busy as a lane may be: it must not be hot again at once.
    let wanted = votes / (settings.lane_votes_max * settings.lane_level / 2.0);
    let to = (wanted.ceil() as u16).max(settings.lanes_min);
    if to > from / 2 {
        return None;
    }
    let share = |lanes: u16| votes / f64::from(lanes.max(1)) / settings.lane_votes_max;
    Some(Counter {
        lane: Some((share(from), share(to))),
        name: name.clone(),
        cause: Cause::CoolCounter {
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
            "{} has {from} lanes, and its busiest item {} votes/s in the short and {} in the long \
             window",
            name.poll,
            rounded(short.votes),
            rounded(long.votes)
        )],
        otherwise:
            "Many lanes only make reading the total a little slower. A poll that is to keep \
                    them says how many voters it expects."
                .to_owned(),
        rejected: Vec::new(),
    })
}

/// Whether a counter's lanes are uneven beyond chance.
pub(super) fn skewed(
    fleet: &Fleet<'_>,
    shard: &ShardFacts<'_>,
    name: &ItemName,
) -> Option<Counter> {
    let items = fleet.book.items(shard.book, Window::Short, &shard.short);
    let item = items.into_iter().find(|item| item.name == *name)?;
    let spread = item.spread();
    // Lanes that were added later are uneven for a good reason.
    if spread.verdict != Verdict::Skewed || spread.cause != Some(Uneven::Unknown) {
        return None;
    }
    let skew = spread.deviation_percent / 100.0;
    Some(Counter {
        lane: None,
        name: name.clone(),
        cause: Cause::SkewedLanes {
            item: name.clone(),
            skew,
        },
        cure: Cure::Nothing,
        evidence: vec![
            format!(
                "the farthest of {} lanes is {} from the mean",
                spread.lanes.len(),
                percent(skew)
            ),
            "there are too many votes for this to be chance, and no lanes were added lately"
                .to_owned(),
        ],
        otherwise: "The total is right all the same. Look at the voter ids that the tenant's \
                    application sends: lanes are drawn from them, and few different ones fall \
                    unevenly."
            .to_owned(),
        rejected: vec![Rejected {
            cure: "more lanes",
            because: "more lanes would be filled as unevenly".to_owned(),
        }],
    })
}

fn lanes_of(item: &ItemView) -> u16 {
    u16::try_from(item.lanes.len().max(1)).unwrap_or(u16::MAX)
}
