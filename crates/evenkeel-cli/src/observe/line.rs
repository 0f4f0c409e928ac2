//! How notifications look.

use evenkeel_cache::{Deleted, Event};
use serde::Serialize;

/// How wide the column of keys is to begin with. It grows with the keys.
const KEYS: usize = 24;

/// Makes lines of notifications: for people, or as JSON.
#[derive(Debug)]
pub(super) struct Lines {
    json: bool,
    width: usize,
}

/// A line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Line<'a> {
    Add { initial: bool, key: &'a str, resource_version: &'a str },
    Update { key: &'a str, old_resource_version: &'a str, resource_version: &'a str },
    Delete { key: &'a str, resource_version: &'a str, final_state_unknown: bool },
    Synced { objects: usize },
}

impl<'a> Line<'a> {
    fn of<K>(event: &'a Event<K>) -> Self {
        let key = event.key().as_str();
        let resource_version = event.object().map_or("", |object| object.resource_version());
        match event {
            Event::Add { initial, .. } => Line::Add { initial: *initial, key, resource_version },
            Event::Update { old, .. } => {
                Line::Update { key, old_resource_version: old.resource_version(), resource_version }
            }
            Event::Delete(deleted) => {
                let final_state_unknown = Deleted::is_final_state_unknown(deleted);
                Line::Delete { key, resource_version, final_state_unknown }
            }
        }
    }
}

impl Lines {
    pub(super) fn new(json: bool) -> Self {
        Lines { json, width: KEYS }
    }

    pub(super) fn event<K>(&mut self, event: &Event<K>) -> String {
        self.width = self.width.max(event.key().as_str().len());
        self.line(&Line::of(event))
    }

    /// The handler has been told of everything that there was: so many objects.
    pub(super) fn synced(&self, objects: usize) -> String {
        self.line(&Line::Synced { objects })
    }

    fn line(&self, line: &Line<'_>) -> String {
        if self.json {
            // Texts, numbers and truth values can always be written.
            return serde_json::to_string(line).unwrap_or_default();
        }
        let width = self.width;
        let row = |event: &str, key: &str, versions: &str| format!("{event:<8}{key:<width$}  {versions}");
        match line {
            Line::Add { initial: true, key, resource_version } => row("initial", key, resource_version),
            Line::Add { initial: false, key, resource_version } => row("add", key, resource_version),
            Line::Update { key, old_resource_version, resource_version }
                if old_resource_version == resource_version =>
            {
                row("update", key, &format!("{resource_version} (unchanged)"))
            }
            Line::Update { key, old_resource_version, resource_version } => {
                row("update", key, &format!("{old_resource_version} -> {resource_version}"))
            }
            Line::Delete { key, resource_version, final_state_unknown: false } => row("delete", key, resource_version),
            Line::Delete { key, resource_version, final_state_unknown: true } => {
                row("delete", key, &format!("{resource_version} (final state unknown)"))
            }
            Line::Synced { objects: 1 } => "synced  1 object".to_owned(),
            Line::Synced { objects } => format!("synced  {objects} objects"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evenkeel_cache::{Obj, ObjectKey, ResourceInfo};

    use super::*;

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

    fn told(json: bool) -> Vec<String> {
        let mut lines = Lines::new(json);
        let mut told: Vec<_> = events().iter().map(|event| lines.event(event)).collect();
        told.push(lines.synced(3));
        told
    }

    #[test]
    fn programs_are_told_in_json() {
        assert_eq!(
            told(true),
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
    fn people_are_told_in_columns() {
        let lines: Vec<String> = told(false).iter().map(|line| line.trim_end().to_owned()).collect();
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
}
