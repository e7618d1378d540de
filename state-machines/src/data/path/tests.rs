//! Parsing and evaluation of paths, and insertion at reference paths.

use serde_json::{Value, json};

use super::{Path, ReferencePath};
use crate::data::errors;
use crate::data::testing::with_scope;

fn store() -> Value {
    json!({
        "a": {"b": {"c": 1}, "d-e": 2, "f g": 3},
        "list": [10, 20, 30, 40],
        "books": [
            {"title": "one", "price": 5, "tags": ["x", "y"], "isbn": "1"},
            {"title": "two", "price": 15.5, "tags": []},
            {"title": "three", "price": "5", "shelf": {"price": 99}},
        ],
        "wanted": "two",
        "empty": [],
        "nothing": null,
        "größe": {"日本": "jp"},
        "o'clock": 12,
        "quo\\\"te": "raw",
    })
}

fn read_path(path: &str) -> Value {
    let path = Path::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    with_scope(&store(), |scope| path.read(scope).unwrap())
}

#[test]
fn definite_paths_find_one_value() {
    let cases = [
        ("$.a.b.c", json!(1)),
        ("$['a']['b'].c", json!(1)),
        ("$[\"a\"].b", json!({"c": 1})),
        ("$.a.d-e", json!(2)),
        ("$.a['f g']", json!(3)),
        ("$.list[0]", json!(10)),
        ("$.list.[1]", json!(20)),
        ("$.list[-1]", json!(40)),
        ("$.list[ 2 ]", json!(30)),
        ("$.list[(@.length-1)]", json!(40)),
        ("$.books[1].title", json!("two")),
        ("$.nothing", json!(null)),
        ("$.größe.日本", json!("jp")),
        ("$['gr\\u00f6\\u00dfe']['日本']", json!("jp")),
        ("$['o\\'clock']", json!(12)),
        // A backslash before another quote is part of the name.
        ("$['quo\\\"te']", json!("raw")),
        ("$.a['b', 'd-e']", json!({"b": {"c": 1}, "d-e": 2})),
        ("$.a['b', 'missing']", json!({"b": {"c": 1}})),
        (" $.a.b.c ", json!(1)),
        ("$$.Execution.Id", json!("run-1")),
        ("$x", json!(42)),
        ("$order.lines[1].sku", json!("b")),
        ("$order['id']", json!("o-1")),
        ("$.list.length()", json!(4)),
        ("$.a.length()", json!(3)),
        ("$.wanted.length()", json!(3)),
        ("$.list.sum()", json!(100)),
        ("$.list.avg()", json!(25)),
        ("$.list.min()", json!(10)),
        ("$.list.max()", json!(40)),
        ("$.list.first()", json!(10)),
        ("$.list.last()", json!(40)),
        ("$.a.b.keys()", json!(["c"])),
        ("$.books[*].title.length()", json!(3)),
    ];
    for (path, expected) in cases {
        assert_eq!(read_path(path), expected, "{path}");
        assert!(Path::parse(path).unwrap().is_definite(), "{path}");
    }
    assert_eq!(read_path("$"), store());
    assert!(read_path("$$")["Execution"].is_object());
}

#[test]
fn other_paths_find_arrays() {
    let cases = [
        ("$.list[*]", json!([10, 20, 30, 40])),
        ("$.list.*", json!([10, 20, 30, 40])),
        ("$.list[1:3]", json!([20, 30])),
        ("$.list[1:]", json!([20, 30, 40])),
        ("$.list[:1]", json!([10])),
        ("$.list[-2:]", json!([30, 40])),
        ("$.list[:-1]", json!([10, 20, 30])),
        ("$.list[0:4:2]", json!([10, 30])),
        ("$.list[3:99]", json!([40])),
        ("$.list[9:]", json!([])),
        ("$.list[3:1]", json!([])),
        ("$.list[0, 2]", json!([10, 30])),
        ("$.list[0, 9]", json!([10])),
        ("$.books[*].title", json!(["one", "two", "three"])),
        (
            "$.books[*]['title', 'isbn']",
            json!([{"title": "one", "isbn": "1"}, {"title": "two"}, {"title": "three"}]),
        ),
        ("$.books[*].tags[0]", json!(["x"])),
        ("$..price", json!([5, 15.5, "5", 99])),
        ("$..books[1].title", json!(["two"])),
        ("$.a..c", json!([1])),
        ("$.a.b.*", json!([1])),
        ("$.a['b', 'missing'].c", json!([1])),
        // A wildcard, slice or filter below a missing field gives an empty
        // array, not a fault.
        ("$.missing[*]", json!([])),
        ("$.missing[*].x", json!([])),
        ("$.missing[1:]", json!([])),
        ("$.missing[?(@.x)]", json!([])),
        ("$.wanted[*]", json!([])),
        ("$.empty[*]", json!([])),
        ("$order.lines[*].sku", json!(["a", "b"])),
    ];
    for (path, expected) in cases {
        assert_eq!(read_path(path), expected, "{path}");
        assert!(!Path::parse(path).unwrap().is_definite(), "{path}");
    }
}

#[test]
fn filters_select_values() {
    let titles = |filter: &str| read_path(&format!("$.books[?({filter})].title"));
    let cases = [
        ("@.isbn", json!(["one"])),
        ("!@.isbn", json!(["two", "three"])),
        ("!(@.isbn)", json!(["two", "three"])),
        ("@.price > 10", json!(["two"])),
        ("@.price >= 5 && @.price < 10", json!(["one"])),
        ("@.price == 5", json!(["one", "three"])),
        ("@.price != 5", json!(["two"])),
        (
            "@.title == 'one' || @.title == \"two\"",
            json!(["one", "two"]),
        ),
        ("@.title == $.wanted", json!(["two"])),
        ("@['title'] == 'three'", json!(["three"])),
        ("@.title in ['one', 'three']", json!(["one", "three"])),
        ("@.title nin ['one', 'three']", json!(["two"])),
        ("@.tags contains 'x'", json!(["one"])),
        ("@.title contains 'hre'", json!(["three"])),
        ("@.tags size 2", json!(["one"])),
        ("@.tags empty true", json!(["two"])),
        ("@.tags anyof ['y', 'z']", json!(["one"])),
        ("@.tags subsetof ['x', 'y', 'z']", json!(["one", "two"])),
        ("@.title =~ /T.*/i", json!(["two", "three"])),
        ("@.title =~ /t/", json!([])),
        ("@.missing == null", json!([])),
        ("@.shelf.price == 99", json!(["three"])),
        ("@.price > $x", json!([])),
        (
            "(@.price > 1 && @.price < 6) || @.title == 'two'",
            json!(["one", "two"]),
        ),
        ("@.tags.length() == 2", json!(["one"])),
        ("true == false", json!([])),
        ("@.title < 'p'", json!(["one"])),
    ];
    for (filter, expected) in cases {
        assert_eq!(titles(filter), expected, "{filter}");
    }
    assert_eq!(read_path("$.list[?(@ > 20)]"), json!([30, 40]));
    assert_eq!(read_path("$.list[?@ > 20]"), json!([30, 40]));
    assert_eq!(read_path("$..[?(@.price == 99)]"), json!([{"price": 99}]));
    assert_eq!(read_path("$.a.b[?(@.c == 1)]"), json!([{"c": 1}]));
    assert_eq!(
        Path::parse("$.a[?(@.b == $x)].c").unwrap().variables(),
        ["x"]
    );
}

#[test]
fn missing_values_are_faults() {
    let cases = [
        "$.missing",
        "$.a.b.c.d",
        "$.list[4]",
        "$.list[-5]",
        "$.list.name",
        "$.a[0]",
        "$.nothing.more",
        "$$.Nowhere",
        "$unset",
        "$x.y",
        "$.missing.length()",
        "$.empty.min()",
        "$.wanted.sum()",
        "$.list.keys()",
    ];
    for path in cases {
        let fault = with_scope(&store(), |scope| Path::parse(path).unwrap().read(scope));
        assert_eq!(fault.unwrap_err().error, errors::RUNTIME, "{path}");
    }
    with_scope(&store(), |scope| {
        let present = |path: &str| {
            let found = Path::parse(path).unwrap().find_if_present(scope);
            found.unwrap().is_some()
        };
        assert!(present("$.nothing"));
        assert!(!present("$.missing"));
        assert!(!present("$unset.a"));
    });
}

#[test]
fn invalid_paths_are_refused() {
    let cases = [
        "",
        "a",
        ".a",
        "$.",
        "$..",
        "$.a.",
        "$.a b",
        "$.a[",
        "$.a[]",
        "$.a['b'",
        "$.a['b]",
        "$.a[b]",
        "$.a[1",
        "$.a[1:2",
        "$.a[1:2:0]",
        "$.a[1:2:-1]",
        "$.a[(@.length-0)]",
        "$.a[(1)]",
        "$.a[?]",
        "$.a[?()]",
        "$.a[?(1)]",
        "$.a[?(@.b ==)]",
        "$.a[?(@.b == 'x]",
        "$.a[?(@.b ~ 1)]",
        "$.a[?(@.b == 1]",
        "$.a.foo()",
        "$.a.length().b",
        "@.a",
        "$.a[1,]",
        "$.a['b',]",
        "$.a[99999999999999999999]",
        "$.a=b",
        "$['\\ud800']",
        "$.a[?(@.b =~ /(/)]",
        "States.UUID()",
        "$.a[?(@.b in [$.c])]",
    ];
    for path in cases {
        assert!(Path::parse(path).is_err(), "{path:?} was taken");
    }
    let deep = format!("$.a[?{}@.b{}]", "(".repeat(500), ")".repeat(500));
    assert!(Path::parse(&deep).is_err());
    let nested = format!("$.a{}", "[?(@.b".repeat(500));
    assert!(Path::parse(&nested).is_err());
}

#[test]
fn syntax_errors_have_a_position() {
    let error = Path::parse("$.a[b]").unwrap_err();
    assert_eq!(
        error.reason,
        "cannot parse '$.a[b]': expected an index, a slice, '*', a filter or a name in quotes at character 5, found 'b'"
    );
}

#[test]
fn paths_with_too_many_results_fail() {
    let deep = (0..100).fold(json!(0), |value, _| json!([value]));
    let path = Path::parse(&format!("${}", "..*".repeat(12))).unwrap();
    assert!(with_scope(&deep, |scope| path.read(scope)).is_err());
}

#[test]
fn paths_are_classified() {
    for (path, reference) in [
        ("$.a[0].b", true),
        ("$", true),
        ("$$.a", true),
        ("$x.y", true),
        ("$.a[-1]", false),
        ("$.a[*]", false),
        ("$..a", false),
        ("$.a.length()", false),
    ] {
        assert_eq!(
            Path::parse(path).unwrap().is_reference(),
            reference,
            "{path}"
        );
    }
    assert!(Path::parse("$$.a").unwrap().is_context());
    assert!(Path::parse_or_call("States.UUID()").unwrap().is_call());
    assert_eq!(
        Path::parse_or_call("States.Format('{}', $x.a)")
            .unwrap()
            .variables(),
        ["x"]
    );
}

#[test]
fn values_are_inserted_at_reference_paths() {
    let cases = [
        ("$", json!({"a": 1}), Some(json!("new"))),
        ("$", json!(null), Some(json!("new"))),
        ("$.b", json!({"a": 1}), Some(json!({"a": 1, "b": "new"}))),
        (
            "$.a",
            json!({"a": 1, "b": 2}),
            Some(json!({"a": "new", "b": 2})),
        ),
        (
            "$.a.b.c",
            json!({}),
            Some(json!({"a": {"b": {"c": "new"}}})),
        ),
        (
            "$.a.b",
            json!({"a": {"x": 1}}),
            Some(json!({"a": {"x": 1, "b": "new"}})),
        ),
        ("$['a b'].c", json!({}), Some(json!({"a b": {"c": "new"}}))),
        (
            "$.a[1]",
            json!({"a": [1, 2]}),
            Some(json!({"a": [1, "new"]})),
        ),
        ("$[0].x", json!([{}]), Some(json!([{"x": "new"}]))),
        // Existing values are not replaced by containers, and arrays do not grow.
        ("$.a.b", json!({"a": 1}), None),
        ("$.a.b", json!({"a": null}), None),
        ("$.a.b", json!({"a": [1]}), None),
        ("$.a[2]", json!({"a": [1, 2]}), None),
        ("$.a[0]", json!({}), None),
        ("$.a[0]", json!({"a": {}}), None),
        ("$.a", json!([]), None),
        ("$.a", json!("text"), None),
        ("$.a", json!(null), None),
    ];
    for (path, document, expected) in cases {
        let reference = ReferencePath::parse(path).unwrap();
        let put = reference.insert(document.clone(), json!("new"));
        match expected {
            Some(expected) => {
                let put = put.unwrap_or_else(|fault| panic!("{path} in {document}: {fault}"));
                assert_eq!(put, expected, "{path} in {document}");
                assert_eq!(reference.get(&put), Some(&json!("new")));
            }
            None => assert_eq!(
                put.unwrap_err().error,
                errors::RESULT_PATH_MATCH_FAILURE,
                "{path} in {document}"
            ),
        }
    }
}

#[test]
fn indefinite_paths_are_not_reference_paths() {
    for path in [
        "$.a[*]",
        "$..a",
        "$.a[1:2]",
        "$.a[0,1]",
        "$.a[-1]",
        "$['a','b']",
        "$.a[?(@.b)]",
        "$.a.length()",
        "$$.a",
        "$x",
        "a",
        "$.",
        "States.UUID()",
    ] {
        assert!(ReferencePath::parse(path).is_err(), "{path} was taken");
    }
}
