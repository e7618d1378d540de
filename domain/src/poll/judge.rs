//! The rules that decide whether a ballot is counted. Pure.
//!
//! Their order matters. A repeated request gets its first answer, and a vote that is
//! already present gives `already`, at any time: a retry of a counted vote after the poll
//! has closed still gets the right answer. Only then the time is checked.

use crate::clock::Timestamp;
use crate::poll::{BallotRefusal, ItemId, Poll, PollPhase, RequestId, VoteChoice};

/// The current state of a voter's row.
#[derive(Debug, Clone, Copy)]
pub struct VoterState<'a> {
    /// Positions of the chosen items, in ascending order.
    pub items: &'a [u16],
    /// How often the row has changed.
    pub revision: u32,
    /// The last requests that changed it, each with the revision that it made.
    pub requests: &'a [(RequestId, u32)],
}

/// A ballot that the rules are to judge.
#[derive(Debug, Clone, Copy)]
pub struct UnjudgedBallot {
    /// The item's position.
    pub item: u16,
    /// Whether to choose or withdraw it.
    pub choice: VoteChoice,
    /// The request's id.
    pub request: RequestId,
    /// When it arrived, see [`clamp_arrival`].
    pub at: Timestamp,
    /// The revision that it requires.
    pub if_revision: Option<u32>,
}

/// What to do with a ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BallotDecision {
    /// Set the row's items to these.
    Change(ChosenItems),
    /// The same request was answered before, and made this revision.
    Repeated {
        /// The revision.
        revision: u32,
    },
    /// The vote is already present.
    Already,
    /// Refuse it.
    Refuse(BallotRefusal),
}

/// The items of a row after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenItems {
    /// One item: the usual case, which needs no allocation.
    One(u16),
    /// Any number, in ascending order.
    Many(Vec<u16>),
}

impl ChosenItems {
    fn from_items(mut items: Vec<u16>) -> Self {
        items.sort_unstable();
        match items[..] {
            [one] => Self::One(one),
            _ => Self::Many(items),
        }
    }

    /// The items.
    pub fn as_slice(&self) -> &[u16] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(items) => items,
        }
    }
}

/// The time at which a ballot counts as cast: its arrival at the router, but not later than
/// now and not earlier than the allowance for delivery.
pub fn clamp_arrival(arrived_at: Timestamp, now: Timestamp, allowance_ms: i64) -> Timestamp {
    let earliest = now.unix_ms().saturating_sub(allowance_ms);
    Timestamp::from_unix_ms(arrived_at.unix_ms().clamp(earliest, now.unix_ms()))
}

/// Decides about a ballot, given its poll and the voter's row.
pub fn judge(poll: &Poll, row: Option<VoterState<'_>>, asked: &UnjudgedBallot) -> BallotDecision {
    let items = row.map_or(&[][..], |row| row.items);
    let revision = row.map_or(0, |row| row.revision);
    let requests = row.map_or(&[][..], |row| row.requests);
    if let Some((_, made)) = requests.iter().find(|(id, _)| *id == asked.request) {
        return BallotDecision::Repeated { revision: *made };
    }
    if asked
        .if_revision
        .is_some_and(|demanded| demanded != revision)
    {
        return BallotDecision::Refuse(BallotRefusal::Changed { revision });
    }
    let chosen = items.contains(&asked.item);
    if chosen && asked.choice == VoteChoice::For {
        return BallotDecision::Already;
    }
    match poll.phase(asked.at) {
        PollPhase::Closed => return BallotDecision::Refuse(BallotRefusal::Closed),
        PollPhase::Scheduled => {
            let opens = poll.spec.opening_time.unwrap_or(asked.at);
            return BallotDecision::Refuse(BallotRefusal::NotOpen { opens });
        }
        PollPhase::Open => {}
    }
    match asked.choice {
        VoteChoice::For => choose(poll, items, asked.item),
        VoteChoice::Withdraw => withdraw(poll, items, asked.item, chosen),
    }
}

fn choose(poll: &Poll, items: &[u16], item: u16) -> BallotDecision {
    let options = &poll.spec.options;
    if items.is_empty() {
        return BallotDecision::Change(ChosenItems::One(item));
    }
    if items.len() < usize::from(options.choices_max) {
        let more = items.iter().copied().chain([item]).collect();
        return BallotDecision::Change(ChosenItems::from_items(more));
    }
    // With several choices it would not be clear which one to replace.
    if options.vote_changeable && options.choices_max == 1 {
        return BallotDecision::Change(ChosenItems::One(item));
    }
    let items = items
        .iter()
        .map(|place| ItemId::from_position(poll.poll_id, *place));
    BallotDecision::Refuse(BallotRefusal::AlreadyVoted {
        items: items.collect(),
    })
}

fn withdraw(poll: &Poll, items: &[u16], item: u16, chosen: bool) -> BallotDecision {
    if !poll.spec.options.vote_changeable {
        return BallotDecision::Refuse(BallotRefusal::NotChangeable);
    }
    if !chosen {
        return BallotDecision::Refuse(BallotRefusal::NotChosen);
    }
    let rest = items.iter().copied().filter(|other| *other != item);
    BallotDecision::Change(ChosenItems::from_items(rest.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{ItemSpec, PollId, PollOptions, PollSpec};

    fn poll(options: PollOptions) -> Poll {
        let items = ["a", "b", "c"].map(|name| ItemSpec {
            item_name: name.to_owned(),
            description: None,
        });
        Poll {
            poll_id: PollId::from_number(1),
            request: RequestId(0),
            spec: PollSpec {
                title: None,
                items: items.to_vec(),
                opening_time: Some(time(10)),
                expiration_time: time(100),
                expected_voters: None,
                options,
            },
            created_at: time(0),
            closed_at: None,
        }
    }

    fn time(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn ask(item: u16, at: i64) -> UnjudgedBallot {
        UnjudgedBallot {
            item,
            choice: VoteChoice::For,
            request: RequestId(99),
            at: time(at),
            if_revision: None,
        }
    }

    fn row(items: &[u16]) -> Option<VoterState<'_>> {
        Some(VoterState {
            items,
            revision: 1,
            requests: &[(RequestId(7), 1)],
        })
    }

    fn one_choice() -> Poll {
        poll(PollOptions::default())
    }

    fn changeable() -> Poll {
        poll(PollOptions {
            vote_changeable: true,
            ..PollOptions::default()
        })
    }

    fn two_choices() -> Poll {
        poll(PollOptions {
            choices_max: 2,
            ..PollOptions::default()
        })
    }

    #[test]
    fn a_first_vote_is_counted_only_while_the_poll_is_open() {
        let first = BallotDecision::Change(ChosenItems::One(1));
        for (at, decision) in [
            (
                9,
                BallotDecision::Refuse(BallotRefusal::NotOpen { opens: time(10) }),
            ),
            (10, first.clone()),
            (99, first),
            (100, BallotDecision::Refuse(BallotRefusal::Closed)),
        ] {
            assert_eq!(judge(&one_choice(), None, &ask(1, at)), decision, "{at}");
        }
        let mut closed = one_choice();
        closed.closed_at = Some(time(50));
        let refused = BallotDecision::Refuse(BallotRefusal::Closed);
        assert_eq!(judge(&closed, None, &ask(1, 20)), refused);
    }

    #[test]
    fn the_same_vote_again_is_already_there_even_when_the_poll_has_closed() {
        for at in [20, 500] {
            assert_eq!(
                judge(&one_choice(), row(&[1]), &ask(1, at)),
                BallotDecision::Already
            );
        }
    }

    #[test]
    fn another_item_is_refused_or_replaces_or_is_added() {
        let refused = |items: &[u16]| {
            let items = items.iter().map(|place| one_choice().item_id(*place));
            BallotDecision::Refuse(BallotRefusal::AlreadyVoted {
                items: items.collect(),
            })
        };
        let cases = [
            (one_choice(), vec![1], refused(&[1])),
            (
                changeable(),
                vec![1],
                BallotDecision::Change(ChosenItems::One(0)),
            ),
            (
                two_choices(),
                vec![1],
                BallotDecision::Change(ChosenItems::Many(vec![0, 1])),
            ),
            (two_choices(), vec![1, 2], refused(&[1, 2])),
        ];
        for (poll, items, decision) in cases {
            assert_eq!(judge(&poll, row(&items), &ask(0, 20)), decision);
        }
    }

    #[test]
    fn a_repeated_request_gets_its_first_answer() {
        let requests = [(RequestId(7), 1), (RequestId(8), 2)];
        let row = VoterState {
            items: &[2],
            revision: 2,
            requests: &requests,
        };
        let late = UnjudgedBallot {
            request: RequestId(7),
            ..ask(1, 20)
        };
        let first = BallotDecision::Repeated { revision: 1 };
        assert_eq!(judge(&changeable(), Some(row), &late), first);
    }

    #[test]
    fn a_required_revision_must_match_the_row() {
        let demands = |revision| UnjudgedBallot {
            if_revision: Some(revision),
            ..ask(0, 20)
        };
        let stale = BallotDecision::Refuse(BallotRefusal::Changed { revision: 1 });
        assert_eq!(judge(&changeable(), row(&[1]), &demands(2)), stale);
        let changed = BallotDecision::Change(ChosenItems::One(0));
        assert_eq!(judge(&changeable(), row(&[1]), &demands(1)), changed);
        assert_eq!(judge(&changeable(), None, &demands(0)), changed);
    }

    #[test]
    fn a_choice_is_withdrawn_where_votes_may_change() {
        let withdraw = |item| UnjudgedBallot {
            choice: VoteChoice::Withdraw,
            ..ask(item, 20)
        };
        let none = BallotDecision::Change(ChosenItems::Many(Vec::new()));
        assert_eq!(judge(&changeable(), row(&[1]), &withdraw(1)), none);
        let refused = BallotDecision::Refuse(BallotRefusal::NotChosen);
        assert_eq!(judge(&changeable(), row(&[1]), &withdraw(0)), refused);
        let refused = BallotDecision::Refuse(BallotRefusal::NotChangeable);
        assert_eq!(judge(&one_choice(), row(&[1]), &withdraw(1)), refused);
    }

    #[test]
    fn the_arrival_time_is_clamped() {
        for (arrived, judged) in [(1_000, 1_000), (2_000, 1_500), (10, 500)] {
            assert_eq!(
                clamp_arrival(time(arrived), time(1_500), 1_000),
                time(judged)
            );
        }
    }
}
