//! Tests of conditions and their error messages.

use super::*;
use crate::rules::vars::Metric;

fn evaluate(text: &str) -> Truth {
    let known = |var: Variable| match var.what {
        Metric::Storage => Some(0.85),
        Metric::QueryP95 => Some(2_100.0),
        Metric::Votes => Some(100.0),
        Metric::Queries => Some(0.0),
        _ => None,
    };
    RuleCondition::new(text, SubjectKind::Tenant)
        .unwrap()
        .evaluate(&known)
}

#[test]
fn conditions_are_evaluated() {
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
        assert_eq!(evaluate(yes), Truth::True, "{yes}");
    }
    for no in [
        "shard.storage > 0.9",
        "shard.votes != 100",
        "1 > 2",
        "shard.storage < 0.8 && true",
    ] {
        assert_eq!(evaluate(no), Truth::False, "{no}");
    }
}

#[test]
fn missing_values_are_unknown_unless_they_do_not_matter() {
    for unknown in [
        "shard.io_wait > 0.5",
        "!(shard.io_wait > 0.5)",
        "shard.storage > 0.8 && shard.io_wait > 0.5",
        "shard.io_wait > 0.5 || shard.storage > 0.9",
        "shard.queries / shard.queries > 0.5",
    ] {
        assert_eq!(evaluate(unknown), Truth::Unknown, "{unknown}");
    }
    assert_eq!(
        evaluate("shard.io_wait > 0.5 && shard.storage > 0.9"),
        Truth::False
    );
    assert_eq!(
        evaluate("shard.io_wait > 0.5 || shard.storage > 0.8"),
        Truth::True
    );
    assert_eq!(
        evaluate("has(shard.io_wait) && shard.io_wait > 0.5"),
        Truth::False
    );
}

#[test]
fn the_variables_are_listed_once_in_order() {
    let text = "long.shard.votes > 1 && shard.votes > 1 && long.shard.votes < 9";
    let condition = RuleCondition::new(text, SubjectKind::Shard).unwrap();
    let names: Vec<_> = condition.vars().iter().map(|var| var.name()).collect();
    assert_eq!(names, ["long.shard.votes", "shard.votes"]);
    assert_eq!(condition.text(), text);
}

#[test]
fn errors_name_their_column() {
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
        let problem = RuleCondition::new(text, SubjectKind::Tenant).unwrap_err();
        said.push_str(&format!("{text}\n    {problem}\n"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn nesting_and_length_are_bounded() {
    let deep = format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(RuleCondition::new(&deep, SubjectKind::Shard).is_err());
    let deep = format!("{}true{}", "(".repeat(500), ")".repeat(500));
    let said = RuleCondition::new(&deep, SubjectKind::Shard).unwrap_err();
    assert!(said.message.contains("too deeply"));
    let nots = format!("{}true", "!".repeat(1_500));
    assert!(RuleCondition::new(&nots, SubjectKind::Shard).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[-a-z0-9_.()&|!<>=+*/\"' %é]{0,40}") {
        let _ = RuleCondition::new(&text, SubjectKind::Item);
    }
}

#[test]
fn a_share_written_in_percent_is_rejected() {
    for wrong in ["shard.pressure > 80", "80.0 <= long.shard.storage"] {
        let problem = RuleCondition::new(wrong, SubjectKind::Shard).unwrap_err();
        let said = problem.to_string();
        assert!(
            said.contains("is a share") && said.contains("write 0.8"),
            "{said}"
        );
    }
    for right in ["shard.pressure > 1.2", "shard.votes > 80"] {
        assert!(
            RuleCondition::new(right, SubjectKind::Shard).is_ok(),
            "{right}"
        );
    }
}
