//! From open polls' counts to figures: pure.

use std::collections::{BTreeMap, HashMap};

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, TenantId, Timestamp};
use ballast_vote_shard::{Tally, Usage};

/// Tenants of a shard that are named; the others are added up.
const TENANTS_NAMED: usize = 80;
/// Polls of the fleet that are named.
const POLLS_NAMED: usize = 50;

/// The fleet as it was at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fleet {
    /// When it was looked at.
    pub(crate) at: Option<Timestamp>,
    /// What is on each shard.
    pub(crate) shards: BTreeMap<ShardId, ShardFigures>,
    /// The polls with the most votes coming in, then with the most votes.
    pub(crate) polls: Vec<PollFigure>,
}

/// What is on a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardFigures {
    /// Why it cannot be looked at; `None` when it can.
    pub(crate) trouble: Option<String>,
    /// How full it is.
    pub(crate) usage: Usage,
    /// Votes in open polls.
    pub(crate) votes: u64,
    /// Votes that come in per second.
    pub(crate) rate: u64,
    /// The tenants with the most votes coming in, then with the most votes.
    pub(crate) tenants: Vec<TenantFigure>,
    /// How many others have open polls.
    pub(crate) others: u64,
    /// Their votes.
    pub(crate) others_votes: u64,
    /// Their votes per second.
    pub(crate) others_rate: u64,
    /// How hot it is, by the load that was measured; `None` where it was not.
    pub(crate) heat: Option<Heat>,
}

/// How hot a shard is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heat {
    /// How much of what it can do is done, in percent.
    pub(crate) percent: u64,
    /// Of what it does most, beside what it can.
    pub(crate) fullest: Option<&'static str>,
    /// Votes a second that it can take; 0 is no limit.
    pub(crate) votes_max: u64,
}

/// A tenant on a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantFigure {
    pub(crate) tenant: TenantId,
    /// Votes in its open polls here.
    pub(crate) votes: u64,
    /// Those that come in per second.
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

/// What one shard told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    pub(crate) trouble: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) tallies: Vec<Tally>,
}

/// What the look before is compared with.
#[derive(Debug, Default)]
pub(crate) struct Before {
    at: Option<Timestamp>,
    votes: HashMap<(ShardId, PollId), u64>,
}

/// Adds up what was seen. `owner` says who owns a slice that is on more than
/// one shard: a copy is not counted.
pub(crate) fn count(
    before: &mut Before,
    at: Timestamp,
    looked: BTreeMap<ShardId, Looked>,
    owner: &HashMap<SliceId, ShardId>,
) -> Fleet {
    let ms = before.at.map_or(0, |then| at.unix_ms() - then.unix_ms());
    let ms = u64::try_from(ms).unwrap_or(0);
    let mut votes_now = HashMap::new();
    let mut polls = Vec::new();
    let mut shards = BTreeMap::new();
    for (shard, looked) in looked {
        let mut tenants: HashMap<TenantId, TenantFigure> = HashMap::new();
        for tally in looked.tallies {
            if owner.get(&tally.slice).is_some_and(|owner| *owner != shard) {
                continue;
            }
            let votes = tally.total();
            let key = (shard.clone(), tally.poll);
            // One that was not there before has come from elsewhere, or is new:
            // its votes did not come in just now.
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
            looked.trouble,
            looked.usage,
            tenants.into_values().collect(),
        );
        shards.insert(shard, figures);
    }
    before.at = Some(at);
    before.votes = votes_now;
    Fleet {
        at: Some(at),
        shards,
        polls,
    }
}

/// Keeps the polls that are named, so that no list grows with the fleet.
fn shrink(polls: &mut Vec<PollFigure>) {
    polls.sort_by(|one, two| {
        let rank = |poll: &PollFigure| (poll.rate, poll.votes);
        rank(two).cmp(&rank(one)).then(one.poll.cmp(&two.poll))
    });
    polls.truncate(POLLS_NAMED);
}

fn figures(trouble: Option<String>, usage: Usage, mut all: Vec<TenantFigure>) -> ShardFigures {
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

    fn looked(shard: &str, tallies: Vec<Tally>) -> BTreeMap<ShardId, Looked> {
        let looked = Looked {
            tallies,
            ..Looked::default()
        };
        [(shard.parse().unwrap(), looked)].into()
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn votes_between_two_looks_are_a_rate() {
        let mut before = Before::default();
        let owners = HashMap::new();
        let first = looked("s", vec![tally("a", 1, 100), tally("b", 2, 5)]);
        let fleet = count(&mut before, at(0), first, &owners);
        let shard = &fleet.shards["s"];
        assert_eq!((shard.votes, shard.rate), (105, 0));
        let second = looked(
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
        let mut before = Before::default();
        let slice = tally("a", 1, 0).slice;
        let owners = [(slice, "other".parse().unwrap())].into();
        let seen = looked("s", vec![tally("a", 1, 100)]);
        let fleet = count(&mut before, at(0), seen, &owners);
        assert_eq!(fleet.shards["s"].votes, 0);
    }

    #[test]
    fn many_tenants_are_added_up() {
        let mut before = Before::default();
        let tallies = (0..5_000).map(|n| tally(&format!("t{n}"), n, 1)).collect();
        let fleet = count(&mut before, at(0), looked("s", tallies), &HashMap::new());
        let shard = &fleet.shards["s"];
        assert_eq!(shard.tenants.len(), TENANTS_NAMED);
        assert_eq!(shard.others, 5_000 - TENANTS_NAMED as u64);
        assert_eq!(shard.votes, 5_000);
        assert_eq!(fleet.polls.len(), POLLS_NAMED);
    }
}
