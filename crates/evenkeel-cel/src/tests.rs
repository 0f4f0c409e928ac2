//! Expressions and their values.

use proptest::prelude::*;
use serde_json::json;

use crate::{Environment, EvalError, Type, Value};

fn evaluate(text: &str, object: &serde_json::Value) -> Result<serde_json::Value, String> {
    let environment = Environment::new().with_variable("self", Type::Dyn);
    let program = environment.compile(text).map_err(|error| error.to_string())?.into_program();
    let variables = [("self", Value::from_any_json(object))];
    let evaluation = program.evaluate(&variables[..], 1_000_000);
    let value = evaluation.result.map_err(|error| error.to_string())?;
    value.to_json().ok_or_else(|| "not JSON".to_owned())
}

#[track_caller]
fn holds(text: &str) {
    let object =
        json!({"name": "a", "items": [3, 1, 2], "labels": {"x": "1", "y-z": "2"}, "nested": {"list": [{"k": "v"}]}});
    assert_eq!(evaluate(text, &object), Ok(json!(true)), "{text}");
}

#[track_caller]
fn fails(text: &str, message: &str) {
    assert_eq!(evaluate(text, &json!({"items": [1], "text": "a"})), Err(message.to_owned()), "{text}");
}

#[test]
fn evaluates_operators() {
    for text in [
        "1 + 2 * 3 == 7",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "1.5 + 1.5 == 3.0",
        "dyn(1) == 1.0 && dyn(2u) == 2",
        "1 < 1.5 && 2u > 1",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2] == [1, 2]",
        "self.items[0] == 3",
        "self.labels['x'] == '1' && 'x' in self.labels",
        "2 in self.items && !(4 in self.items)",
        "has(self.name) && !has(self.other)",
        "self.other || true",
        "!(self.other && false)",
        "true ? true : self.other",
        "size('äö') == 2 && 'äö'.size() == 2",
        "type(1) == int && type('') == string && type([]) == list && type(null) == null_type",
        "{'a': 1} == {'a': 1} && {1: 'a'}[1] == 'a'",
        "int('7') == 7 && string(7) == '7' && double('1.5') == 1.5 && uint(7) == 7u && bool('true')",
    ] {
        holds(text);
    }
}

#[test]
fn evaluates_macros() {
    for text in [
        "self.items.all(i, i > 0)",
        "self.items.exists(i, i == 2)",
        "self.items.exists_one(i, i == 2)",
        "self.items.map(i, i * 2) == [6, 2, 4]",
        "self.items.map(i, i > 1, i * 2) == [6, 4]",
        "self.items.filter(i, i > 1) == [3, 2]",
        "self.labels.all(k, k.size() > 0)",
        "self.items.all(i, v, i < 3 && v < 4)",
        "self.items.transformList(i, v, v + i) == [3, 2, 4]",
        "self.labels.transformMap(k, v, v + k) == {'x': '1x', 'y-z': '2y-z'}",
        "self.labels.transformMapEntry(k, v, {v: k}) == {'1': 'x', '2': 'y-z'}",
        // An element that decides absorbs the error of another.
        "[1, 0].exists(i, 1 / i == 1)",
        "![0, 1].all(i, 1 / i > 1)",
        "self.?other.orValue('none') == 'none'",
        "self.nested.?list[?0].?k.orValue('') == 'v'",
        "self.?name.optMap(n, n + '!').orValue('') == 'a!'",
        "optional.none().or(optional.of(1)).value() == 1",
        "[?optional.none(), ?optional.of(1)] == [1] && {?'a': optional.none()} == {}",
        "self.items.sortBy(i, -i) == [3, 2, 1]",
    ] {
        holds(text);
    }
}

#[test]
fn reports_errors_of_evaluation() {
    fails("self.other == 1", "no such key: other");
    fails("self.items[3] == 1", "index out of bounds: 3");
    fails("1 / 0 == 1", "division by zero");
    fails("9223372036854775807 + 1 > 0", "integer overflow");
    fails("self.text + 1 == 2", "no such overload");
    fails("self.items.matches('a')", "no such overload: matches(list, string)");
}

#[test]
fn stops_at_the_limit() {
    let environment = Environment::new().with_variable("self", Type::Dyn);
    let text = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let program = environment.compile(text).unwrap().into_program();
    let object: serde_json::Value = (0..100).collect::<Vec<_>>().into();
    let variables = [("self", Value::from_any_json(&object))];
    let evaluation = program.evaluate(&variables[..], 10_000);
    assert_eq!(evaluation.result.unwrap_err(), EvalError::CostLimit);
    assert!(evaluation.cost < 10_010);
}

proptest! {
    /// Arbitrary input compiles or fails, and evaluates or fails, within its limits.
    #[test]
    fn never_panics(text in "[a-z0-9 .,:?&|=<>!+*/%()\\[\\]{}'\"x-]{0,60}") {
        let _ = evaluate(&text, &json!({"a": [1, "x", {"b": null}]}));
    }

    /// Expressions of plausible parts compile or fail, and evaluate or fail, within their limits.
    #[test]
    fn never_panics_on_plausible_expressions(parts in prop::collection::vec(prop::sample::select(vec![
        "self", ".a", "[0]", "[?1]", ".?b", ".all(x, ", ".map(y, ", ")", "(", " && ", " || ", " ? ", " : ", " == ", " + ",
        "1", "-1", "'x'", "[", "]", "{", "}", ", ", "size(", "has(", ".matches('(')", ".optMap(v, ", "duration('1h')",
        ".split('')", ".replace('', 'zz')", ".format([", "])", "'%s%d%x'", ".substring(1, 3)", "quantity('1Ki')", "ip('::1')",
        ".first()", ".flatten()", "lists.range(3)", ".transformMap(k, v, ", "timestamp('2020-01-01T00:00:00Z')", "x", "y", "v", "true",
    ]), 0..14)) {
        let _ = evaluate(&parts.concat(), &json!({"a": [1, "x", {"b": null}], "b": {"c": "d"}}));
    }
}

/// Values with more parts than could be visited: each step doubles what the one before has made.
#[test]
fn values_that_share_parts_are_compared_and_measured_in_time() {
    let made = format!("[dyn(0)]{}", ".map(a, [a, a])".repeat(60));
    let run = |text: &str| evaluate(text, &json!({}));
    assert_eq!(run(&format!("{made} == {made}")), Ok(json!(true)));
    let other = made.replace("dyn(0)", "dyn(1)");
    assert_eq!(run(&format!("{made} == {other} || {made} in [{other}]")), Ok(json!(false)));
    assert_eq!(
        run(&format!("{made}.indexOf(dyn(1))")),
        Err("operation cancelled: actual cost limit exceeded".to_owned())
    );
    assert!(run(&format!("'%s'.format([{made}])")).is_err());
}
