//! The same templates in Go.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Default, Deserialize)]
#[serde(default)]
struct GoCase {
    document: String,
    template: String,
    allow: bool,
    json: bool,
    output: String,
    error: String,
}

/// Where evenkeel answers differently: the template, its answer, and the line of the contract or the reason.
const DIFFERENCES: &[(&str, Result<&str, &str>, &str)] = &[
    ("{.items[?(@.spec.weight>1.2)].metadata.name}", Ok("web-0 web-1"), "JPA-008"),
    ("{.items[?(@.spec.weight==2)].metadata.name}", Ok("web-1"), "JPA-008"),
    ("{.items[?(@.spec.replicas==5.0)].metadata.name}", Ok("web-1"), "JPA-008"),
    ("{.items[?(@.spec.paused<true)].metadata.name}", Ok(""), "JPA-008"),
    ("{.items[?(@.spec.replicas==\"5\")].metadata.name}", Ok(""), "JPA-008"),
    ("{.items[?(@.status.conditions==\"x\")].metadata.name}", Ok(""), "JPA-008"),
    ("{.items[?(@.spec.note==1)].metadata.name}", Err("note is not found"), "JPA-008: null is compared"),
    ("{.items[*].status.conditions[?(@.age>4)].type}", Ok("Ready Scheduled"), "JPA-008"),
    ("{[?(@>2.5)]}", Ok("3 4 5"), "JPA-008"),
    ("{.items[*].metadata.name.*}", Ok(""), "JPA-011"),
    ("{.kind.*}", Ok(""), "JPA-011"),
    ("{.*}", Ok(""), "JPA-011"),
    ("{.items[?(@.spec.containers[1])].metadata.name}", Ok("web-0"), "an element outside of a list does not exist"),
    ("{.items[?(foo)].metadata.name}", Err("unrecognized identifier foo"), "Go ignores errors of a path alone"),
    ("{.items[?(@.metadata.name=~\"x\")].metadata.name}", Err("unrecognized filter operator ="), "compiled first"),
    ("{.items[?(@.a<>\"b\")].metadata.name}", Err("unrecognized filter operator <>"), "compiled first"),
    ("{.a b}", Err("unrecognized identifier b"), "compiled first"),
    ("{['a b']}", Err("unrecognized identifier b"), "compiled first"),
    ("{range .items[0].spec.empty[*]}x{.a}{end}y", Ok("y"), "JPA-012: Go evaluates the middle of an empty range"),
    ("{range .items[*]}{.metadata.name}", Ok("web-0web-1"), "Go evaluates an open range once more"),
    ("{[*][*]}", Ok("1 2 3 4 5"), "Go ends at the first empty list"),
    ("{[*][:]}", Ok("1 2 3 4 5"), "Go ends at the first empty list"),
    ("{.kind[?(@.x)]}", Err("string is not array or slice and cannot be filtered"), "no contents in errors"),
    ("{[?(@.x)]}", Err("string is not array or slice and cannot be filtered"), "no contents in errors"),
    ("{[?(@.x)]}", Err("<nil> is not array or slice and cannot be filtered"), "no contents in errors"),
    ("{@}", Ok("null"), "JPA-013"),
];

/// Go has maps in random order, and other texts of equal numbers in JSON.
fn comparable(output: &str) -> Vec<Value> {
    let word = |word: &str| serde_json::from_str(word).unwrap_or_else(|_| Value::from(word));
    let mut words: Vec<Value> = output.split(' ').map(word).collect();
    words.sort_by_key(Value::to_string);
    words.into_iter().map(as_fractions).collect()
}

fn as_fractions(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64()),
        Value::Array(list) => list.into_iter().map(as_fractions).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, as_fractions(value))).collect(),
        other => other,
    }
}

fn answer(case: &GoCase, document: &Value) -> Result<String, String> {
    let template = match JsonPathTemplate::parse_dialect(&case.template, Dialect::Kubectl) {
        Ok(template) => template.allow_missing_keys(case.allow),
        Err(JsonPathSyntaxError::Malformed { reason, .. }) => return Err(reason),
        Err(other) => return Err(other.to_string()),
    };
    let output = if case.json { template.render_json(document) } else { template.render(document) };
    output.map_err(|error| error.to_string())
}

#[test]
fn jpa_015_templates_mean_what_they_mean_in_go() {
    let documents: BTreeMap<String, Value> = serde_json::from_str(include_str!("documents.json")).unwrap();
    let cases: Vec<GoCase> = include_str!("go.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 100);
    let mut differences = DIFFERENCES.to_vec();
    for case in &cases {
        let ours = answer(case, &documents[&case.document]);
        let theirs = if case.error.is_empty() { Ok(case.output.clone()) } else { Err(case.error.clone()) };
        let is_equal = match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => ours == theirs || comparable(ours) == comparable(theirs),
            (ours, theirs) => ours == theirs,
        };
        if is_equal {
            continue;
        }
        let answer = ours.as_deref().map_err(String::as_str);
        let known = differences.iter().position(|(template, ours, _)| *template == case.template && *ours == answer);
        let known = known.unwrap_or_else(|| panic!("{:?} is {ours:?}, in Go {theirs:?}", case.template));
        let _ = differences.remove(known);
    }
    assert_eq!(differences, [], "a difference that is none");
}
