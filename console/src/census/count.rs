//! From open polls' counts to figures. Pure.

use std::collections::{BTreeMap, HashMap};

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, TenantId, Timestamp};
use ballast_vote_shard::{ShardUsage, Tally};

/// Tenants listed per shard; the others are summed.
const TENANTS_NAMED: usize = 80;
/// Polls listed for the fleet.
const POLLS_NAMED: usize = 50;

/// The fleet's figures at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetFigures {
    /// When they were taken.
    pub(crate) at: Option<Timestamp>,
    /// The figures of each shard.
    pub(crate) shards: BTreeMap<ShardId, ShardFigures>,
    /// The polls with the highest vote rate, then with the most votes.
    pub(crate) polls: Vec<PollFigure>,
}

/// A shard's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardFigures {
    /// Why the shard cannot be read; `None` if it can.
    pub(crate) trouble: Option<String>,
    /// Its storage and memory usage.
    pub(crate) usage: ShardUsage,
    /// Votes in open polls.
    pub(crate) votes: u64,
    /// Votes per second.
    pub(crate) rate: u64,
    /// The tenants with the highest vote rate, then with the most votes.
    pub(crate) tenants: Vec<TenantFigure>,
    /// Number of other tenants with open polls.
    pub(crate) others: u64,
    /// Their votes.
    pub(crate) others_votes: u64,
    /// Their votes per second.
    pub(crate) others_rate: u64,
    /// Its measured heat; `None` if load is not measured.
    pub(crate) heat: Option<Heat>,
}

/// A shard's heat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heat {
    /// Load in percent of capacity.
    pub(crate) percent: u64,
    /// The dimension with the highest share of its capacity.
    pub(crate) fullest: Option<&'static str>,
    /// Votes per second that it is rated at; 0 for no limit.
    pub(crate) votes_max: u64,
}

/// A tenant on a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantFigure {
    pub(crate) tenant: TenantId,
    /// Votes in its open polls here.
    pub(crate) votes: u64,
    /// Votes per second.
    pub(crate) rate: u64,
}

/// An open poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PollFigure {
    pub(crate) slice: SliceId,
    pub(crate) poll: PollId,
    pub(crate) shard: ShardId,
    pub(crate) votes: u64,
    pub(crate) rate: u64,
}

/// One shard's answer in a round.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardReading {
    pub(crate) trouble: Option<String>,
    pub(crate) usage: ShardUsage,
    pub(crate) tallies: Vec<Tally>,
}

/// The previous round, to compute rates.
#[derive(Debug, Default)]
pub(crate) struct PreviousRound {
    at: Option<Timestamp>,
    votes: HashMap<(ShardId, PollId), u64>,
}

/// Sums the readings. `owner` has the owner of each slice that is on more than one
/// shard; copies are not counted.
pub(crate) fn count(
    before: &mut PreviousRound,
    at: Timestamp,
    readings: BTreeMap<ShardId, ShardReading>,
    owner: &HashMap<SliceId, ShardId>,
) -> FleetFigures {
    let ms = before.at.map_or(0, |then| at.unix_ms() - then.unix_ms());
    let ms = u64::try_from(ms).unwrap_or(0);
    let mut votes_now = HashMap::new();
    let mut polls = Vec::new();
    let mut shards = BTreeMap::new();
    for (shard, readings) in readings {
        let mut tenants: HashMap<TenantId, TenantFigure> = HashMap::new();
        for tally in readings.tallies {
            if owner.get(&tally.slice).is_some_and(|owner| *owner != shard) {
                continue;
            }
            let votes = tally.total();
            let key = (shard.clone(), tally.poll);
            // A poll that is new on this shard was created or moved here; its votes
            // are not counted as a rate.
            let then = before.votes.get(&key).copied().unwrap_or(votes);
            let rate = (votes.saturating_sub(then) * 1_000)
                .checked_div(ms)
                .unwrap_or(0);
            votes_now.insert(key, votes);
            let id = tally.slice.tenant_id.clone();
            let tenant = tenants.entry(id.clone()).or_insert(TenantFigure {
                tenant: id,
                votes: 0,
                rate: 0,
            });
            tenant.votes += votes;
            tenant.rate += rate;
            polls.push(PollFigure {
                slice: tally.slice,
                poll: tally.poll,
                shard: shard.clone(),
                votes,
                rate,
            });
        }
        shrink(&mut polls);
        let figures = figures(
            readings.trouble,
            readings.usage,
            tenants.into_values().collect(),
        );
        shards.insert(shard, figures);
    }
    before.at = Some(at);
    before.votes = votes_now;
    FleetFigures {
        at: Some(at),
        shards,
        polls,
    }
}

/// Keeps only the listed polls, so that the list does not grow with the fleet.
fn shrink(polls: &mut Vec<PollFigure>) {
    polls.sort_by(|one, two| {
        let rank = |poll: &PollFigure| (poll.rate, poll.votes);
        rank(two).cmp(&rank(one)).then(one.poll.cmp(&two.poll))
    });
    polls.truncate(POLLS_NAMED);
}

fn figures(trouble: Option<String>, usage: ShardUsage, mut all: Vec<TenantFigure>) -> ShardFigures {
    all.sort_by(|one, two| {
        let rank = |tenant: &TenantFigure| (tenant.rate, tenant.votes);
        rank(two).cmp(&rank(one)).then(one.tenant.cmp(&two.tenant))
    });
    let rest = all.split_off(all.len().min(TENANTS_NAMED));
    let votes = |tenants: &[TenantFigure]| tenants.iter().map(|tenant| tenant.votes).sum::<u64>();
    let rate = |tenants: &[TenantFigure]| tenants.iter().map(|tenant| tenant.rate).sum::<u64>();
    ShardFigures {
        trouble,
        usage,
        votes: votes(&all) + votes(&rest),
        rate: rate(&all) + rate(&rest),
        others: rest.len() as u64,
        others_votes: votes(&rest),
        others_rate: rate(&rest),
        tenants: all,
        heat: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(tenant: &str, poll: u128, votes: u64) -> Tally {
        Tally {
            slice: SliceId {
                tenant_id: tenant.parse().unwrap(),
                slice: 0,
            },
            poll: PollId::from_number(poll),
            counts: vec![votes],
            voters: votes,
            closed_at: None,
            mark: 1,
        }
    }

    fn readings(shard: &str, tallies: Vec<Tally>) -> BTreeMap<ShardId, ShardReading> {
        let readings = ShardReading {
            tallies,
            ..ShardReading::default()
        };
        [(shard.parse().unwrap(), readings)].into()
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn votes_between_two_looks_are_a_rate() {
        let mut before = PreviousRound::default();
        let owners = HashMap::new();
        let first = readings("s", vec![tally("a", 1, 100), tally("b", 2, 5)]);
        let fleet = count(&mut before, at(0), first, &owners);
        let shard = &fleet.shards["s"];
        assert_eq!((shard.votes, shard.rate), (105, 0));
        let second = readings(
            "s",
            vec![tally("a", 1, 160), tally("b", 2, 5), tally("c", 3, 9)],
        );
        let fleet = count(&mut before, at(2_000), second, &owners);
        let shard = &fleet.shards["s"];
        assert_eq!(
            (shard.votes, shard.rate),
            (174, 30),
            "a new poll's votes are not news"
        );
        assert_eq!(shard.tenants[0].tenant.as_str(), "a");
        assert_eq!(fleet.polls[0].rate, 30);
    }

    #[test]
    fn a_copy_is_not_counted() {
        let mut before = PreviousRound::default();
        let slice = tally("a", 1, 0).slice;
        let owners = [(slice, "other".parse().unwrap())].into();
        let copied = readings("s", vec![tally("a", 1, 100)]);
        let fleet = count(&mut before, at(0), copied, &owners);
        assert_eq!(fleet.shards["s"].votes, 0);
    }

    #[test]
    fn many_tenants_are_added_up() {
        let mut before = PreviousRound::default();
        let tallies = (0..5_000).map(|n| tally(&format!("t{n}"), n, 1)).collect();
        let fleet = count(&mut before, at(0), readings("s", tallies), &HashMap::new());
        let shard = &fleet.shards["s"];
        assert_eq!(shard.tenants.len(), TENANTS_NAMED);
        assert_eq!(shard.others, 5_000 - TENANTS_NAMED as u64);
        assert_eq!(shard.votes, 5_000);
        assert_eq!(fleet.polls.len(), POLLS_NAMED);
    }
}
