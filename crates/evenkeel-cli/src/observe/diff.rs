//! Differences between two states of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Fields that every write changes, or that describe the writer.
const BOOKKEEPING: [&str; 3] = ["resourceVersion", "managedFields", "generation"];
/// The annotation in which kubectl keeps the applied object, secret values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Keys that identify list elements, in order of preference. Kubernetes uses few others.
const MERGE_KEYS: [&str; 2] = ["name", "type"];

/// One difference: a value added, removed or changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change<'a> {
    /// Path: `spec.containers[name=web].args[0]`, `metadata.labels["example.com/team"]`.
    pub(super) path: String,
    /// The old value. Absent differs from null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Printable<'a>>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Printable<'a>>,
}

/// A value as it may be printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Printable<'a> {
    Value(&'a Value),
    /// A secret: only its size is printed.
    Hidden {
        bytes: usize,
    },
}

impl Serialize for Printable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Printable::Value(value) => value.serialize(serializer),
            Printable::Hidden { bytes } => serializer.serialize_str(&hidden(*bytes)),
        }
    }
}

/// Returns the placeholder of a secret.
pub(super) fn hidden(bytes: usize) -> String {
    format!("[redacted, {bytes} {}]", if bytes == 1 { "byte" } else { "bytes" })
}

/// Returns the differences between two states of an object, in the order of their paths.
///
/// There are none exactly if the states are equal except for `apiVersion` and `kind`, which lists omit, and the
/// fields of [`BOOKKEEPING`]; empty metadata equals absent metadata. Lists whose elements all have a [merge
/// key](MERGE_KEYS) and keep their order are compared by key; all others by index. Values of a Secret below `data`
/// and `stringData` are never printed, nor kubectl's copy of them.
pub(super) fn diff<'a>(old: &'a Value, new: &'a Value, is_secret: bool) -> Vec<Change<'a>> {
    let mut walk = Walk { path: String::new(), is_secret, changes: Vec::new() };
    walk.compare(DiffRule::Object, Some(old), Some(new));
    walk.changes
}

/// Comparison rules at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffRule {
    Object,
    Metadata,
    Annotations,
    /// A secret, possibly base64.
    Hidden {
        is_base64: bool,
    },
    Anywhere,
}

impl DiffRule {
    /// Returns the rules for a member, or none if it is skipped.
    fn member(self, name: &str, is_secret: bool) -> Option<DiffRule> {
        Some(match (self, name) {
            (DiffRule::Object, "apiVersion" | "kind") => return None,
            (DiffRule::Object, "metadata") => DiffRule::Metadata,
            (DiffRule::Object, "data") if is_secret => DiffRule::Hidden { is_base64: true },
            (DiffRule::Object, "stringData") if is_secret => DiffRule::Hidden { is_base64: false },
            (DiffRule::Metadata, name) if BOOKKEEPING.contains(&name) => return None,
            (DiffRule::Metadata, "annotations") => DiffRule::Annotations,
            (DiffRule::Annotations, LAST_APPLIED) if is_secret => DiffRule::Hidden { is_base64: false },
            (DiffRule::Hidden { .. }, _) => self,
            _ => DiffRule::Anywhere,
        })
    }

    /// Returns the rules for a list element. Where an object is expected, the content is unknown.
    fn element(self, is_secret: bool) -> DiffRule {
        match self {
            DiffRule::Anywhere => DiffRule::Anywhere,
            DiffRule::Hidden { .. } => self,
            _ if is_secret => DiffRule::Hidden { is_base64: false },
            _ => DiffRule::Anywhere,
        }
    }

    /// Whether an added or removed object is reported member by member. An empty one would not be reported at all.
    fn is_entered(self, members: &Map<String, Value>) -> bool {
        self == DiffRule::Metadata || (self != DiffRule::Anywhere && !members.is_empty())
    }
}

struct Walk<'a> {
    path: String,
    is_secret: bool,
    changes: Vec<Change<'a>>,
}

impl<'a> Walk<'a> {
    fn compare(&mut self, place: DiffRule, old: Option<&'a Value>, new: Option<&'a Value>) {
        if old == new {
            return;
        }
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.members(place, Some(old), Some(new)),
            // Members with rules of their own keep them when their object is added or removed.
            (Some(Value::Object(old)), None) if place.is_entered(old) => self.members(place, Some(old), None),
            (None, Some(Value::Object(new))) if place.is_entered(new) => self.members(place, None, Some(new)),
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                self.elements(place.element(self.is_secret), old, new);
            }
            _ => self.push(place, old, new),
        }
    }

    fn members(&mut self, place: DiffRule, old: Option<&'a Map<String, Value>>, new: Option<&'a Map<String, Value>>) {
        let names: BTreeSet<&str> = [old, new].into_iter().flatten().flat_map(Map::keys).map(String::as_str).collect();
        for name in names {
            let Some(inner) = place.member(name, self.is_secret) else { continue };
            let get = |map: Option<&'a Map<String, Value>>| map.and_then(|map| map.get(name));
            self.within(|path| write_member(path, name), inner, get(old), get(new));
        }
    }

    fn elements(&mut self, place: DiffRule, old: &'a [Value], new: &'a [Value]) {
        let keyed = MERGE_KEYS.iter().find_map(|key| Some((key, Keyed::new(key, old)?, Keyed::new(key, new)?)));
        match keyed {
            // A changed order is a difference that keys do not show.
            Some((key, old, new)) if old.shared(&new).eq(new.shared(&old)) => {
                let come = new.names.iter().filter(|name| old.get(name).is_none());
                for name in old.names.iter().chain(come) {
                    let step = |path: &mut String| _ = write!(path, "[{key}={}]", plain_or_quoted(name));
                    self.within(step, place, old.get(name), new.get(name));
                }
            }
            _ => {
                for index in 0..old.len().max(new.len()) {
                    let step = |path: &mut String| _ = write!(path, "[{index}]");
                    self.within(step, place, old.get(index), new.get(index));
                }
            }
        }
    }

    /// Compares one level deeper.
    fn within(
        &mut self,
        step: impl FnOnce(&mut String),
        place: DiffRule,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
    ) {
        let length = self.path.len();
        step(&mut self.path);
        self.compare(place, old, new);
        self.path.truncate(length);
    }

    fn push(&mut self, place: DiffRule, old: Option<&'a Value>, new: Option<&'a Value>) {
        // Metadata that is not an object is invalid, and its content unknown.
        let is_hidden = matches!(place, DiffRule::Hidden { .. }) || (self.is_secret && place != DiffRule::Anywhere);
        let is_base64 = place == DiffRule::Hidden { is_base64: true };
        let see = |value: &'a Value| match is_hidden {
            true => Printable::Hidden { bytes: size(value, is_base64) },
            false => Printable::Value(value),
        };
        self.changes.push(Change { path: self.path.clone(), old: old.map(see), new: new.map(see) });
    }
}

/// List elements by key.
struct Keyed<'a> {
    names: Vec<&'a str>,
    elements: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Keyed<'a> {
    /// Returns none if an element has no key, or one that is not unique.
    fn new(key: &str, list: &'a [Value]) -> Option<Self> {
        let names = list.iter().map(|element| element.get(key)?.as_str()).collect::<Option<Vec<_>>>()?;
        let elements: BTreeMap<_, _> = names.iter().copied().zip(list).collect();
        (names.len() == elements.len()).then_some(Keyed { names, elements })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.elements.get(name).copied()
    }

    /// Returns the keys that `other` has too.
    fn shared(&self, other: &Keyed<'_>) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied().filter(|name| other.elements.contains_key(name))
    }
}

fn write_member(path: &mut String, name: &str) {
    let separator = if path.is_empty() { "" } else { "." };
    let _ = match is_plain(name) {
        true => write!(path, "{separator}{name}"),
        false => write!(path, "[{}]", quoted(name)),
    };
}

/// Whether a name can be used in a path without quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

fn plain_or_quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// Returns the size of a secret, base64 decoded.
fn size(value: &Value, is_base64: bool) -> usize {
    match value {
        Value::String(text) if is_base64 => text.trim_end_matches('=').len() * 3 / 4,
        Value::String(text) => text.len(),
        Value::Null => 0,
        other => other.to_string().len(),
    }
}

#[cfg(test)]
mod tests;
