//! The parts of columns: a heading, and a function from a row to a cell.

use std::cell::OnceCell;

use jiff::Timestamp;
use serde_json::Value;

use super::{ColumnDefinition, age, pods};

/// A column of a built-in kind.
pub(super) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    priority: i32,
    cell: fn(&Row<'_>) -> Value,
}

impl Column {
    pub(super) fn definition(&self) -> ColumnDefinition {
        ColumnDefinition {
            name: self.name.into(),
            kind: self.kind.into(),
            format: self.format.into(),
            description: self.description.into(),
            priority: self.priority,
        }
    }

    pub(super) fn cell(&self, row: &Row<'_>) -> Value {
        (self.cell)(row)
    }

    const fn of(
        kind: &'static str,
        name: &'static str,
        description: &'static str,
        cell: fn(&Row<'_>) -> Value,
    ) -> Column {
        Column { name, kind, format: "", description, priority: 0, cell }
    }

    /// Returns the same column, shown in wide output only.
    pub(super) const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// Returns the same column, marked as the name column.
    pub(super) const fn naming(self) -> Column {
        Column { format: "name", ..self }
    }
}

pub(super) const fn text(name: &'static str, description: &'static str, cell: fn(&Row<'_>) -> Value) -> Column {
    Column::of("string", name, description, cell)
}

pub(super) const fn integer(name: &'static str, description: &'static str, cell: fn(&Row<'_>) -> Value) -> Column {
    Column::of("integer", name, description, cell)
}

pub(super) const fn boolean(name: &'static str, description: &'static str, cell: fn(&Row<'_>) -> Value) -> Column {
    Column::of("boolean", name, description, cell)
}

pub(super) const NAME: Column =
    text("Name", "The name of the object, unique among its kind.", |row| row.name().into()).naming();
pub(super) const AGE: Column = text("Age", "How long ago the object was created.", |row| row.age().into());

/// The columns of a custom resource that declares none.
pub(super) const NAME_AND_AGE: &[Column] = &[NAME, Column::of("date", "Age", AGE.description, AGE.cell)];

/// The columns of kinds without specific ones (TAB-3).
pub(super) const DEFAULT: &[Column] = &[
    NAME,
    Column::of("date", "Created At", "When the object was created.", |row| {
        row.get(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default()
    }),
];

/// One object to be printed.
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
    pod: OnceCell<pods::Summary>,
}

impl<'a> Row<'a> {
    pub(super) fn new(object: &'a Value, now: Timestamp) -> Self {
        Row { object, now, pod: OnceCell::new() }
    }

    /// Returns the summary that several cells of a pod share, computed once.
    pub(super) fn pod(&self) -> &pods::Summary {
        self.pod.get_or_init(|| pods::Summary::of(self.object, self.now))
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<&'a Value> {
        get(self.object, path)
    }

    /// Returns the string at a path; empty if absent.
    pub(super) fn text(&self, path: &[&str]) -> &'a str {
        text_of(self.object, path)
    }

    /// Returns the string at a path, or `other` if it is absent or empty.
    pub(super) fn text_or(&self, path: &[&str], other: &'static str) -> Value {
        match self.text(path) {
            "" => other.into(),
            text => text.into(),
        }
    }

    /// Returns the number at a path; zero if absent.
    pub(super) fn int(&self, path: &[&str]) -> i64 {
        self.get(path).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn bool_or(&self, path: &[&str], other: bool) -> Value {
        self.get(path).and_then(Value::as_bool).unwrap_or(other).into()
    }

    pub(super) fn list(&self, path: &[&str]) -> &'a [Value] {
        list_of(self.object, path)
    }

    /// Returns the number of entries of a list or a map.
    pub(super) fn count(&self, path: &[&str]) -> usize {
        match self.get(path) {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.text(&["metadata", "name"])
    }

    pub(super) fn age(&self) -> String {
        self.since(&["metadata", "creationTimestamp"])
    }

    pub(super) fn since(&self, path: &[&str]) -> String {
        age::since(self.get(path), self.now)
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.get(&["metadata", "deletionTimestamp"]).is_some()
    }
}

/// Returns the value at a path of keys, unless it is absent or null.
pub(super) fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

pub(super) fn text_of<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    get(value, path).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list_of<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    get(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Joins the strings that `part` returns for the items of a list.
pub(super) fn join<'a>(items: &'a [Value], separator: &str, mut part: impl FnMut(&'a Value) -> &'a str) -> String {
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(part(item));
    }
    joined
}

/// Formats a string or a number, for int-or-string fields and quantities.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the first three items, and how many more there are; `empty` if there are none.
pub(super) fn first_three(items: &[String], empty: &str) -> String {
    const SHOWN: usize = 3;
    match items.get(..SHOWN) {
        Some(shown) if items.len() > SHOWN => {
            format!("{} + {} more...", shown.join(","), items.len() - SHOWN)
        }
        _ if items.is_empty() => empty.to_owned(),
        _ => items.join(","),
    }
}

/// Formats labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(labels: Option<&Value>) -> String {
    let mut shown = String::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if !shown.is_empty() {
            shown.push(',');
        }
        shown.push_str(key);
        shown.push('=');
        shown.push_str(value.as_str().unwrap_or_default());
    }
    if shown.is_empty() { "<none>".to_owned() } else { shown }
}

/// Formats a label selector as in queries; empty if it has no requirements.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return String::new();
    };
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in get(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
        parts.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for expression in list_of(selector, &["matchExpressions"]) {
        let key = text_of(expression, &["key"]);
        let mut values: Vec<&str> = list_of(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key,
            match text_of(expression, &["operator"]) {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                _ => return "<error>".to_owned(),
            },
        ));
    }
    parts.sort_by_key(|(key, _)| *key);
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    parts.join(",")
}

/// Formats a label selector, or returns `<none>`.
pub(super) fn selector_or_none(value: Option<&Value>) -> Value {
    match selector(value) {
        empty if empty.is_empty() => "<none>".into(),
        shown => shown.into(),
    }
}

pub(super) fn marked_if_default(row: &Row<'_>, is_default: bool) -> Value {
    if is_default { format!("{} (default)", row.name()).into() } else { row.name().into() }
}

/// Joins the strings of a list by commas.
pub(super) fn texts(list: &[Value]) -> String {
    join(list, ",", |value| value.as_str().unwrap_or_default())
}
