//! Conditions: what they say, and what is said of wrong ones.

use super::*;
use crate::rules::vars::What;

fn judged(text: &str) -> Truth {
    let known = |var: Var| match var.what {
        What::Storage => Some(0.85),
        What::QueryP95 => Some(2_100.0),
        What::Votes => Some(100.0),
        What::Queries => Some(0.0),
        _ => None,
    };
    Condition::new(text, SubjectKind::Tenant)
        .unwrap()
        .judge(&known)
}

#[test]
fn conditions_are_judged() {
    let slo = "shard.storage > 0.80 && shard.query_p95 > duration(\"2s\")";
    for yes in [
        slo,
        "true",
        "!(shard.storage < 0.8) && !false",
        "shard.storage * 2.0 - 0.7 >= 1.0",
        "shard.storage > 0.9 || shard.votes == 100",
        "shard.query_p95 - duration('100ms') <= duration('2s')",
        "has(shard.storage) && !has(shard.io_wait)",
        "-shard.votes < -99",
        "shard.votes / (2.0 + 2.0 * 3.0) > 12.4",
    ] {
        assert_eq!(judged(yes), Truth::True, "{yes}");
    }
    for no in [
        "shard.storage > 0.9",
        "shard.votes != 100",
        "1 > 2",
        "shard.storage < 0.8 && true",
    ] {
        assert_eq!(judged(no), Truth::False, "{no}");
    }
}

#[test]
fn what_was_not_measured_is_unknown_unless_it_does_not_matter() {
    for unknown in [
        "shard.io_wait > 0.5",
        "!(shard.io_wait > 0.5)",
        "shard.storage > 0.8 && shard.io_wait > 0.5",
        "shard.io_wait > 0.5 || shard.storage > 0.9",
        "shard.queries / shard.queries > 0.5",
    ] {
        assert_eq!(judged(unknown), Truth::Unknown, "{unknown}");
    }
    assert_eq!(
        judged("shard.io_wait > 0.5 && shard.storage > 0.9"),
        Truth::False
    );
    assert_eq!(
        judged("shard.io_wait > 0.5 || shard.storage > 0.8"),
        Truth::True
    );
    assert_eq!(
        judged("has(shard.io_wait) && shard.io_wait > 0.5"),
        Truth::False
    );
}

#[test]
fn the_variables_are_listed_once_in_order() {
    let text = "long.shard.votes > 1 && shard.votes > 1 && long.shard.votes < 9";
    let condition = Condition::new(text, SubjectKind::Shard).unwrap();
    let names: Vec<_> = condition.vars().iter().map(|var| var.name()).collect();
    assert_eq!(names, ["long.shard.votes", "shard.votes"]);
    assert_eq!(condition.text(), text);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        "",
        "shard.storage",
        "shard.storage > 80%",
        "shard.storag > 0.8",
        "shard.query_p95 > 2",
        "shard.query_p95 > 2s",
        "shard.query_p95 > duration(\"2 seconds\")",
        "shard.query_p95 > duration(2)",
        "shard.storage > 0.8 & true",
        "shard.storage > 0.8 and true",
        "shard.storage > 0.8 && shard.votes",
        "(shard.storage > 0.8",
        "shard.storage >",
        "shard.votes * 2 > 7",
        "shard.votes > 'many'",
        "shard.votes > 'many",
        "max(shard.votes, 2) > 1",
        "durations(\"2s\") > shard.vote_p50",
        "item.votes > 3",
        "temperature > 3",
        "shard.storage > 0.8 ? true : false",
        "!shard.storage > 0.8",
        "1 < 2 < 3",
    ];
    let mut said = String::new();
    for text in cases {
        let problem = Condition::new(text, SubjectKind::Tenant).unwrap_err();
        said.push_str(&format!("{text}\n    {problem}\n"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn nesting_and_length_are_bounded() {
    let deep = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(Condition::new(&deep, SubjectKind::Shard).is_err());
    let deep = format!("{}true{}", "(".repeat(500), ")".repeat(500));
    let said = Condition::new(&deep, SubjectKind::Shard).unwrap_err();
    assert!(said.message.contains("too deeply"));
    let nots = format!("{}true", "!".repeat(1_500));
    assert!(Condition::new(&nots, SubjectKind::Shard).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "[-a-z0-9_.()&|!<>=+*/\"' %é]{0,40}") {
        let _ = Condition::new(&text, SubjectKind::Item);
    }
}

#[test]
fn a_share_that_was_meant_in_percent_is_named() {
    for wrong in ["shard.pressure > 80", "80.0 <= long.shard.storage"] {
        let problem = Condition::new(wrong, SubjectKind::Shard).unwrap_err();
        let said = problem.to_string();
        assert!(
            said.contains("is a share") && said.contains("write 0.8"),
            "{said}"
        );
    }
    for right in ["shard.pressure > 1.2", "shard.votes > 80"] {
        assert!(Condition::new(right, SubjectKind::Shard).is_ok(), "{right}");
    }
}
