//! Matches findings to known hotspots. Pure.
//!
//! A finding may split into two, and two may merge into one, only because
//! different limits are exceeded at the moment. The hotspot with a plan in
//! progress continues; among others, the oldest.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ballast_domain::Timestamp;

/// A known, open hotspot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownHotspot {
    /// Its rules and their subjects.
    pub(crate) names: Vec<String>,
    /// When it was detected.
    pub(crate) found_at: Timestamp,
    /// The proposed or running cure.
    pub(crate) cure: Option<String>,
}

/// A current finding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CurrentFinding {
    /// Its rules and their subjects.
    pub(crate) names: Vec<String>,
    /// Its cure.
    pub(crate) cure: String,
}

/// For each finding, the index of the hotspot that it continues, if any.
pub(crate) fn match_findings(
    now: &[CurrentFinding],
    before: &[KnownHotspot],
) -> Vec<Option<usize>> {
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

    fn before(names: &[&str], found: i64, cure: Option<&str>) -> KnownHotspot {
        KnownHotspot {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            found_at: Timestamp::from_unix_ms(found),
            cure: cure.map(str::to_owned),
        }
    }

    fn now(names: &[&str], cure: &str) -> CurrentFinding {
        CurrentFinding {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            cure: cure.to_owned(),
        }
    }

    #[test]
    fn a_hotspot_that_splits_and_merges_again_keeps_its_identity() {
        let one = [before(&["overload", "fairness"], 1, Some("move"))];
        let two = [now(&["fairness"], "nothing"), now(&["overload"], "move")];
        // The running cure belongs to the finding that asks for it.
        assert_eq!(match_findings(&two, &one), [None, Some(0)]);
        let both = [
            before(&["fairness"], 2, None),
            before(&["overload"], 1, Some("move")),
        ];
        let again = [now(&["overload", "fairness"], "nothing")];
        assert_eq!(match_findings(&again, &both), [Some(1)]);
        let neither = [
            before(&["fairness"], 2, None),
            before(&["overload"], 1, None),
        ];
        assert_eq!(match_findings(&again, &neither), [Some(1)]);
    }

    #[test]
    fn a_finding_without_shared_rules_is_a_new_hotspot() {
        let known = [before(&["overload on shard-1"], 1, Some("move"))];
        assert_eq!(
            match_findings(&[now(&["overload on shard-2"], "move")], &known),
            [None]
        );
        assert_eq!(match_findings(&[], &known), []);
    }
}
