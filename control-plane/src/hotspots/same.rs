//! Which finding is which hotspot of before: pure.
//!
//! A finding may fall into two, and two may become one, while nothing has changed
//! but what is over which limit at this moment. The hotspot for which something
//! is being done goes on, and of others the oldest.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ballast_domain::Timestamp;

/// A hotspot of before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Before {
    /// Its rules and what they hold for.
    pub(crate) names: Vec<String>,
    /// When it was found.
    pub(crate) found_at: Timestamp,
    /// The cure that is proposed or under way for it.
    pub(crate) cure: Option<String>,
}

/// What is found now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Now {
    /// The rules and what they hold for.
    pub(crate) names: Vec<String>,
    /// What would help.
    pub(crate) cure: String,
}

/// For each finding the hotspot that it is, if it is one of before.
pub(crate) fn same(now: &[Now], before: &[Before]) -> Vec<Option<usize>> {
    let mut pairs = Vec::new();
    for (place, finding) in now.iter().enumerate() {
        for (at, hotspot) in before.iter().enumerate() {
            let names = finding.names.iter();
            let shared = names.filter(|name| hotspot.names.contains(name)).count();
            if shared == 0 {
                continue;
            }
            let is_treated = hotspot.cure.is_some();
            let same_cure = hotspot.cure.as_ref() == Some(&finding.cure);
            let worth = (is_treated, same_cure, shared, Reverse(hotspot.found_at));
            pairs.push((Reverse(worth), place, at));
        }
    }
    pairs.sort_unstable();
    let mut found = vec![None; now.len()];
    let mut taken = BTreeSet::new();
    for (_, place, at) in pairs {
        if found[place].is_none() && taken.insert(at) {
            found[place] = Some(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(names: &[&str], found: i64, cure: Option<&str>) -> Before {
        Before {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            found_at: Timestamp::from_unix_ms(found),
            cure: cure.map(str::to_owned),
        }
    }

    fn now(names: &[&str], cure: &str) -> Now {
        Now {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            cure: cure.to_owned(),
        }
    }

    #[test]
    fn one_that_falls_into_two_and_becomes_one_again_stays_the_same() {
        let one = [before(&["overload", "fairness"], 1, Some("move"))];
        let two = [now(&["fairness"], "nothing"), now(&["overload"], "move")];
        // What is being done is for the finding that asks for it.
        assert_eq!(same(&two, &one), [None, Some(0)]);
        let both = [
            before(&["fairness"], 2, None),
            before(&["overload"], 1, Some("move")),
        ];
        let again = [now(&["overload", "fairness"], "nothing")];
        assert_eq!(same(&again, &both), [Some(1)]);
        let neither = [
            before(&["fairness"], 2, None),
            before(&["overload"], 1, None),
        ];
        assert_eq!(same(&again, &neither), [Some(1)]);
    }

    #[test]
    fn what_shares_nothing_is_new() {
        let known = [before(&["overload on shard-1"], 1, Some("move"))];
        assert_eq!(
            same(&[now(&["overload on shard-2"], "move")], &known),
            [None]
        );
        assert_eq!(same(&[], &known), []);
    }
}
