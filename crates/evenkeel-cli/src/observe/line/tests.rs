use std::sync::Arc;

use evenkeel_cache::{Obj, ObjectKey, ResourceInfo};
use serde_json::json;

use super::super::diff::diff;
use super::*;

const NOON: Duration = Duration::from_secs(86_400 * 3 + 12 * 3600 + 61);

fn object(version: &str) -> Obj<()> {
    let info = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    let json = format!(r#"{{"metadata": {{"namespace": "ns", "name": "a", "resourceVersion": "{version}"}}}}"#);
    Obj::from_json(&info, json).unwrap()
}

fn events() -> Vec<Event<()>> {
    vec![
        Event::Add { object: object("7"), initial: true },
        Event::Add { object: object("7"), initial: false },
        Event::Update { old: object("7"), new: object("9") },
        Event::Update { old: object("9"), new: object("9") },
        Event::Delete(Deleted::Observed(object("10"))),
        Event::Delete(Deleted::Missed { key: ObjectKey::namespaced("ns", "a"), last_known: Some(object("9")) }),
        Event::Delete(Deleted::Missed { key: ObjectKey::namespaced("ns", "a"), last_known: None }),
    ]
}

fn text(format: OutputFormat) -> Vec<String> {
    let mut lines = Lines::new(format);
    let mut text: Vec<_> = events().iter().flat_map(|event| lines.event(event, None, NOON)).collect();
    text.push(lines.synced(3, NOON));
    text
}

/// Formats an update from one state to another.
fn update(format: OutputFormat, old: &serde_json::Value, new: &serde_json::Value) -> Vec<String> {
    let changes = diff(old, new, false);
    let event = Event::Update { old: object("7"), new: object("9") };
    Lines::new(format).event(&event, Some(&changes), NOON)
}

#[test]
fn json_output() {
    assert_eq!(
        text(OutputFormat::Json),
        [
            r#"{"event":"add","initial":true,"key":"ns/a","resourceVersion":"7"}"#,
            r#"{"event":"add","initial":false,"key":"ns/a","resourceVersion":"7"}"#,
            r#"{"event":"update","key":"ns/a","oldResourceVersion":"7","resourceVersion":"9"}"#,
            r#"{"event":"update","key":"ns/a","oldResourceVersion":"9","resourceVersion":"9"}"#,
            r#"{"event":"delete","key":"ns/a","resourceVersion":"10","finalStateUnknown":false}"#,
            r#"{"event":"delete","key":"ns/a","resourceVersion":"9","finalStateUnknown":true}"#,
            r#"{"event":"delete","key":"ns/a","resourceVersion":"","finalStateUnknown":true}"#,
            r#"{"event":"synced","objects":3}"#,
        ]
    );
}

#[test]
fn plain_text_output_has_columns() {
    let lines: Vec<String> = text(OutputFormat::Plain).iter().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(
        lines,
        [
            "initial ns/a                      7",
            "add     ns/a                      7",
            "update  ns/a                      7 -> 9",
            "update  ns/a                      9 (unchanged)",
            "delete  ns/a                      10",
            "delete  ns/a                      9 (final state unknown)",
            "delete  ns/a                       (final state unknown)",
            "synced  3 objects",
        ]
    );
}

#[test]
fn terminal_output_has_signs_beside_colours() {
    assert_eq!(
        text(OutputFormat::Terminal { is_coloured: false })[..5],
        [
            "12:01:01Z + initial ns/a                      7",
            "12:01:01Z + add     ns/a                      7",
            "12:01:01Z ~ update  ns/a                      7 -> 9",
            "12:01:01Z = update  ns/a                      9 (unchanged)",
            "12:01:01Z - delete  ns/a                      10",
        ]
    );
    let coloured = text(OutputFormat::Terminal { is_coloured: true });
    assert!(coloured[1].contains("\x1b[32m+ add     \x1b[0m"), "{coloured:?}");
    assert!(coloured[7].ends_with("3 objects"), "{coloured:?}");
}

#[test]
fn a_difference_is_a_line() {
    let old = json!({"spec": {"replicas": 2, "paused": true}});
    let new = json!({"spec": {"replicas": 3, "name": "x"}});
    assert_eq!(
        update(OutputFormat::Plain, &old, &new)[1..],
        [
            r#"        + spec.name: "x""#, //
            "        - spec.paused: true",
            "          spec.replicas: 2 -> 3",
        ]
    );
    assert_eq!(
        update(OutputFormat::Json, &old, &new),
        [concat!(
            r#"{"event":"update","key":"ns/a","oldResourceVersion":"7","resourceVersion":"9","diff":["#,
            r#"{"path":"spec.name","new":"x"},{"path":"spec.paused","old":true},"#,
            r#"{"path":"spec.replicas","old":2,"new":3}]}"#,
        )]
    );
    assert_eq!(update(OutputFormat::Plain, &old, &old)[1..], ["          (only fields that --diff ignores)"]);
}

#[test]
fn differences_and_values_are_truncated() {
    let many: serde_json::Map<_, _> = (0..32).map(|number| (format!("k{number}"), json!(number))).collect();
    let lines = update(OutputFormat::Plain, &json!({}), &many.into());
    assert_eq!((lines.len(), lines[21].as_str()), (22, "          … and 12 more"));

    let long = "x".repeat(100);
    let lines = update(OutputFormat::Plain, &json!({"a": format!("{long}1")}), &json!({"a": format!("{long}2")}));
    assert_eq!(lines[1], r#"          a: …xxxxxxxxxxxx1" -> …xxxxxxxxxxxx2""#);
    let lines = update(OutputFormat::Plain, &json!({}), &json!({"a": long}));
    assert_eq!(lines[1], format!("        + a: \"{}…", "x".repeat(59)));
}

#[test]
fn control_characters_are_escaped() {
    let hostile = "\x1b[2J\u{9b}31m\u{7f}\u{202e}\r\n";
    let info = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    let json = json!({"metadata": {"namespace": hostile, "name": hostile, "resourceVersion": hostile}}).to_string();
    let object: Obj<()> = Obj::from_json(&info, json).unwrap();
    let (old, new) = (json!({hostile: hostile}), json!({hostile: format!("{hostile}{hostile}"), "b": {hostile: 1}}));
    let changes = diff(&old, &new, false);
    let event = Event::Update { old: self::object("1"), new: object };
    for format in [OutputFormat::Json, OutputFormat::Plain, OutputFormat::Terminal { is_coloured: false }] {
        for line in Lines::new(format).event(&event, Some(&changes), NOON) {
            assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            if format == OutputFormat::Json {
                let value: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!(value["resourceVersion"], hostile, "nothing is lost");
            }
        }
    }
}
