//! Every function: what it returns and what it refuses.

use serde_json::{Value, json};

use crate::data::testing::with_scope;
use crate::data::{EvaluationFault, Path, errors};

fn input() -> Value {
    json!({
        "name": "Ada", "template": "Hello, {} and {}", "n": 3, "half": 1.5, "list": [1, 2, 2, "a", [1], [1], {"x": 1, "y": 2}, {"y": 2, "x": 1}, null, null],
        "object": {"Arg1": 1, "Arg2": [], "Arg3": {"t": "x"}}, "json": "{\"a\": [1, 2.5]}", "empty": [], "null": null,
        "long": "x".repeat(10_001), "bytes": "/w==",
    })
}

fn call(text: &str) -> Result<Value, EvaluationFault> {
    let path = Path::parse_or_call(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    with_scope(&input(), |scope| path.read(scope))
}

#[test]
fn functions_return_the_expected_values() {
    let cases = [
        ("States.Format('Hi')", json!("Hi")),
        ("States.Format('Hi {}!', $.name)", json!("Hi Ada!")),
        ("States.Format('{}{}', $.n, $.half)", json!("31.5")),
        (
            "States.Format('{} {} {}', null, true, -2)",
            json!("null true -2"),
        ),
        (
            "States.Format($.template, 'x', 'y')",
            json!("Hello, x and y"),
        ),
        (
            "States.Format('{}', $.object)",
            json!("{Arg1=1, Arg2=[], Arg3={t=x}}"),
        ),
        (
            "States.Format('{}', $.list)",
            json!("[1, 2, 2, a, [1], [1], {x=1, y=2}, {y=2, x=1}, null, null]"),
        ),
        (
            r"States.Format('it\'s \{\} {} \\', 1)",
            json!(r"it's {} 1 \"),
        ),
        ("States.Format('{a} {}', 1)", json!("{a} 1")),
        ("States.Format('{}', $x)", json!("42")),
        ("States.Format('{}', $$.Execution.Id)", json!("run-1")),
        ("States.StringToJson($.json)", json!({"a": [1, 2.5]})),
        ("States.StringToJson('')", json!(null)),
        ("States.StringToJson('  ')", json!(null)),
        (
            "States.StringToJson('{\"a\": \"\\{\\}\"}')",
            json!({"a": "{}"}),
        ),
        (
            "States.JsonToString($.object)",
            json!("{\"Arg1\":1,\"Arg2\":[],\"Arg3\":{\"t\":\"x\"}}"),
        ),
        ("States.JsonToString($.null)", json!("null")),
        ("States.JsonToString(1.0)", json!("1.0")),
        ("States.Array()", json!([])),
        (
            "States.Array(1, 'a', null, $.empty, true)",
            json!([1, "a", null, [], true]),
        ),
        (
            "States.ArrayPartition(States.ArrayRange(1, 5, 1), 2)",
            json!([[1, 2], [3, 4], [5]]),
        ),
        ("States.ArrayPartition($.empty, 3)", json!([])),
        (
            "States.ArrayPartition(States.Array(1, 2, 3), 1.5)",
            json!([[1, 2], [3]]),
        ),
        ("States.ArrayContains($.list, 2)", json!(true)),
        ("States.ArrayContains($.list, $.empty)", json!(false)),
        ("States.ArrayContains($.list, null)", json!(true)),
        ("States.ArrayRange(1, 9, 2)", json!([1, 3, 5, 7, 9])),
        ("States.ArrayRange(0, 10, 3)", json!([0, 3, 6, 9])),
        ("States.ArrayRange(3, 1, -1)", json!([3, 2, 1])),
        ("States.ArrayRange(3, 1, 1)", json!([])),
        ("States.ArrayRange(1, 1, 5)", json!([1])),
        ("States.ArrayRange(0.5, 2.4, 1)", json!([1, 2])),
        ("States.ArrayGetItem($.list, 3)", json!("a")),
        ("States.ArrayLength($.list)", json!(10)),
        ("States.ArrayLength($.list[*])", json!(10)),
        (
            "States.ArrayUnique($.list)",
            json!([1, 2, "a", [1], {"x": 1, "y": 2}, null]),
        ),
        (
            "States.Base64Encode('Data to encode')",
            json!("RGF0YSB0byBlbmNvZGU="),
        ),
        ("States.Base64Encode('')", json!("")),
        (
            "States.Base64Decode('RGF0YSB0byBlbmNvZGU=')",
            json!("Data to encode"),
        ),
        (
            "States.Hash('abc', 'MD5')",
            json!("900150983cd24fb0d6963f7d28e17f72"),
        ),
        (
            "States.Hash('abc', 'SHA-1')",
            json!("a9993e364706816aba3e25717850c26c9cd0d89d"),
        ),
        (
            "States.Hash('abc', 'SHA-256')",
            json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ),
        (
            "States.JsonMerge(States.StringToJson('{\"a\":{\"b\":1},\"c\":1}'), States.StringToJson('{\"a\":{\"d\":2}}'), false)",
            json!({"a": {"d": 2}, "c": 1}),
        ),
        ("States.MathAdd(1, 2)", json!(3)),
        ("States.MathAdd($.n, -1)", json!(2)),
        ("States.MathAdd(-1.5, -1.51)", json!(-3)),
        ("States.MathAdd(1.5, 0)", json!(2)),
        ("States.MathAdd(-3.5, 0)", json!(-3)),
        (
            "States.MathAdd(2147483647, 2147483647)",
            json!(4294967294_i64),
        ),
        ("States.StringSplit('1,2,,3,', ',')", json!(["1", "2", "3"])),
        (
            "States.StringSplit('This.is+a,test=string', '.+,=')",
            json!(["This", "is", "a", "test", "string"]),
        ),
        ("States.StringSplit('', ',')", json!([])),
        ("States.StringSplit('abc', '')", json!(["abc"])),
        (
            "States.Array( States.MathAdd( 1 , 1 ) , 'x' )",
            json!([2, "x"]),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(call(text), Ok(expected), "{text}");
    }
    let long = |algorithm: &str| {
        let hash = call(&format!("States.Hash('abc', '{algorithm}')")).unwrap();
        hash.as_str().unwrap().len()
    };
    assert_eq!((long("SHA-384"), long("SHA-512")), (96, 128));
}

#[test]
fn functions_refuse_invalid_arguments() {
    let cases = [
        "States.Format('{} {}', 1)",
        "States.Format('{}', 1, 2)",
        "States.Format($.n, 1)",
        "States.Format('{}', $.missing)",
        "States.StringToJson('{')",
        "States.StringToJson(1)",
        "States.ArrayPartition($.name, 1)",
        "States.ArrayPartition($.list, 0)",
        "States.ArrayPartition($.list, -1)",
        "States.ArrayPartition($.list, 'a')",
        "States.ArrayContains($.name, 1)",
        "States.ArrayRange(1, 1001, 1)",
        "States.ArrayRange(0, 1000, 1)",
        "States.ArrayRange(1, 5, 0)",
        "States.ArrayRange('a', 5, 1)",
        "States.ArrayRange(-9223372036854775808, 9223372036854775807, 1)",
        "States.ArrayGetItem($.list, 10)",
        "States.ArrayGetItem($.list, -1)",
        "States.ArrayGetItem($.name, 0)",
        "States.ArrayLength($.name)",
        "States.ArrayUnique($.object)",
        "States.Base64Encode($.n)",
        "States.Base64Encode($.long)",
        "States.Base64Decode('%')",
        "States.Base64Decode($.bytes)",
        "States.Base64Decode($.long)",
        "States.Hash($.object, 'MD5')",
        "States.Hash($.long, 'MD5')",
        "States.Hash('a', 'md5')",
        "States.Hash('a', 'SHA-224')",
        "States.JsonMerge($.object, $.object, true)",
        "States.JsonMerge($.object, $.list, false)",
        "States.MathAdd('1', 2)",
        "States.MathAdd(2147483648, 0)",
        "States.MathRandom(5, 5)",
        "States.MathRandom(5, 1)",
        "States.MathRandom(1, 5, 'a')",
        "States.StringSplit(1, ',')",
        "States.StringSplit('a', 1)",
    ];
    for text in cases {
        let fault = call(text).unwrap_err();
        assert_eq!(fault.error, errors::INTRINSIC_FAILURE, "{text}");
    }
    assert!(call("States.ArrayRange(1, 1000, 1)").is_ok());
}

#[test]
fn invalid_calls_are_refused() {
    let cases = [
        "States",
        "States.",
        "States.Format",
        "States.Format(",
        "States.Format()",
        "States.format('a')",
        "States.Nope()",
        "States.UUID(1)",
        "States.UUID",
        "States.UUID())",
        "States.MathAdd(1)",
        "States.MathAdd(1, 2, 3)",
        "States.MathAdd(1 2)",
        "States.MathAdd(1,)",
        "States.MathAdd(,1)",
        "States.Array('a)",
        "States.Array(\"a\")",
        "States.Array(a)",
        "States.Array($.)",
        "States.Array(1.2.3)",
        "Format('a')",
        "",
        "1",
        "'a'",
        "States.Array(@.a)",
        "States.StringSplit('a', 'b')[0]",
    ];
    for text in cases {
        assert!(Path::parse_or_call(text).is_err(), "{text:?} was taken");
    }
    let nested = |depth: usize| format!("{}1{}", "States.Array(".repeat(depth), ")".repeat(depth));
    assert!(Path::parse_or_call(&nested(10)).is_ok());
    assert!(Path::parse_or_call(&nested(11)).is_err());
    let hint = Path::parse_or_call("States.StringToJSON($.a)").unwrap_err();
    assert_eq!(
        hint.reason,
        "there is no function States.StringToJSON; did you mean States.StringToJson?"
    );
}

#[test]
fn random_values_depend_only_on_the_seed() {
    let draw = |text: &str, seed: u64| {
        let path = Path::parse_or_call(text).unwrap();
        with_scope(&json!({}), |scope| {
            let mut scope = *scope;
            scope.seed = seed;
            path.read(&scope).unwrap()
        })
    };
    let two = draw("States.Array(States.UUID(), States.UUID())", 1);
    assert_ne!(two[0], two[1]);
    assert_eq!(two, draw("States.Array(States.UUID(), States.UUID())", 1));
    assert_ne!(two, draw("States.Array(States.UUID(), States.UUID())", 2));
    let seen: std::collections::BTreeSet<i64> = (0..200)
        .map(|seed| draw("States.MathRandom(1, 4)", seed).as_i64().unwrap())
        .collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    let seeded = draw("States.MathRandom(0, 1000000, 7)", 1);
    assert_eq!(seeded, draw("States.MathRandom(0, 1000000, 7)", 2));
    assert_ne!(seeded, draw("States.MathRandom(0, 1000000, 8)", 1));
}
