//! What is different between two states of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// What every write changes, or what says who wrote instead of what.
const BOOKKEEPING: [&str; 3] = ["resourceVersion", "managedFields", "generation"];
/// Here kubectl keeps the whole object as it was applied, also what must not be seen of it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The members that tell the elements of a list apart, the first that all have. Kubernetes has no others in so many places.
const MERGE_KEYS: [&str; 2] = ["name", "type"];

/// One difference: a value that came, went, or became another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change<'a> {
    /// Where: `spec.containers[name=web].args[0]`, `metadata.labels["example.com/team"]`.
    pub(super) path: String,
    /// What was there. Nothing is not the same as null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Seen<'a>>,
    /// What is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Seen<'a>>,
}

/// A value as it may be seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen<'a> {
    Value(&'a Value),
    /// A secret: only its size is told.
    Hidden {
        bytes: usize,
    },
}

impl Serialize for Seen<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Seen::Value(value) => value.serialize(serializer),
            Seen::Hidden { bytes } => serializer.serialize_str(&hidden(*bytes)),
        }
    }
}

/// What stands where a secret would.
pub(super) fn hidden(bytes: usize) -> String {
    format!("[redacted, {bytes} {}]", if bytes == 1 { "byte" } else { "bytes" })
}

/// The differences between two states of an object, in the order of their paths.
///
/// There are none exactly if the states are equal but for `apiVersion` and `kind`, which lists leave out, and the
/// bookkeeping of [`BOOKKEEPING`]; metadata with nothing else in it is as good as none. Lists whose elements are all told apart by a [merge key](MERGE_KEYS), and which are in
/// the same order, are compared by it; all others by index. Of a Secret no value below `data` and `stringData` is told, nor
/// where kubectl keeps a copy of them.
pub(super) fn diff<'a>(old: &'a Value, new: &'a Value, is_secret: bool) -> Vec<Change<'a>> {
    let mut walk = Walk { path: String::new(), is_secret, changes: Vec::new() };
    walk.compare(Place::Object, Some(old), Some(new));
    walk.changes
}

/// Which rules hold somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Object,
    Metadata,
    Annotations,
    /// A secret, perhaps in base64.
    Hidden {
        is_base64: bool,
    },
    Anywhere,
}

impl Place {
    /// The rules for a member; none if it is not looked at.
    fn member(self, name: &str, is_secret: bool) -> Option<Place> {
        Some(match (self, name) {
            (Place::Object, "apiVersion" | "kind") => return None,
            (Place::Object, "metadata") => Place::Metadata,
            (Place::Object, "data") if is_secret => Place::Hidden { is_base64: true },
            (Place::Object, "stringData") if is_secret => Place::Hidden { is_base64: false },
            (Place::Metadata, name) if BOOKKEEPING.contains(&name) => return None,
            (Place::Metadata, "annotations") => Place::Annotations,
            (Place::Annotations, LAST_APPLIED) if is_secret => Place::Hidden { is_base64: false },
            (Place::Hidden { .. }, _) => self,
            _ => Place::Anywhere,
        })
    }

    /// The rules for an element of a list. Where one should be an object, nobody knows what is in it.
    fn element(self, is_secret: bool) -> Place {
        match self {
            Place::Anywhere => Place::Anywhere,
            Place::Hidden { .. } => self,
            _ if is_secret => Place::Hidden { is_base64: false },
            _ => Place::Anywhere,
        }
    }

    /// Whether something that stands on one side only is told member by member. What has none would not be told at all.
    fn is_entered(self, members: &Map<String, Value>) -> bool {
        self == Place::Metadata || (self != Place::Anywhere && !members.is_empty())
    }
}

struct Walk<'a> {
    path: String,
    is_secret: bool,
    changes: Vec<Change<'a>>,
}

impl<'a> Walk<'a> {
    fn compare(&mut self, place: Place, old: Option<&'a Value>, new: Option<&'a Value>) {
        if old == new {
            return;
        }
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.members(place, Some(old), Some(new)),
            // Where some members have rules of their own, they have them also when all come or go together.
            (Some(Value::Object(old)), None) if place.is_entered(old) => self.members(place, Some(old), None),
            (None, Some(Value::Object(new))) if place.is_entered(new) => self.members(place, None, Some(new)),
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                self.elements(place.element(self.is_secret), old, new);
            }
            _ => self.push(place, old, new),
        }
    }

    fn members(&mut self, place: Place, old: Option<&'a Map<String, Value>>, new: Option<&'a Map<String, Value>>) {
        let names: BTreeSet<&str> = [old, new].into_iter().flatten().flat_map(Map::keys).map(String::as_str).collect();
        for name in names {
            let Some(inner) = place.member(name, self.is_secret) else { continue };
            let get = |map: Option<&'a Map<String, Value>>| map.and_then(|map| map.get(name));
            self.within(|path| write_member(path, name), inner, get(old), get(new));
        }
    }

    fn elements(&mut self, place: Place, old: &'a [Value], new: &'a [Value]) {
        let keyed = MERGE_KEYS.iter().find_map(|key| Some((key, Keyed::new(key, old)?, Keyed::new(key, new)?)));
        match keyed {
            // Another order is a change, of which names say nothing.
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

    /// Compares one step further down.
    fn within(&mut self, step: impl FnOnce(&mut String), place: Place, old: Option<&'a Value>, new: Option<&'a Value>) {
        let length = self.path.len();
        step(&mut self.path);
        self.compare(place, old, new);
        self.path.truncate(length);
    }

    fn push(&mut self, place: Place, old: Option<&'a Value>, new: Option<&'a Value>) {
        // Metadata that is no object is nonsense, and nobody knows what is in it.
        let is_hidden = matches!(place, Place::Hidden { .. }) || (self.is_secret && place != Place::Anywhere);
        let is_base64 = place == Place::Hidden { is_base64: true };
        let see = |value: &'a Value| match is_hidden {
            true => Seen::Hidden { bytes: size(value, is_base64) },
            false => Seen::Value(value),
        };
        self.changes.push(Change { path: self.path.clone(), old: old.map(see), new: new.map(see) });
    }
}

/// The elements of a list by what tells them apart.
struct Keyed<'a> {
    names: Vec<&'a str>,
    elements: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Keyed<'a> {
    /// None if an element has no such member, or not alone.
    fn new(key: &str, list: &'a [Value]) -> Option<Self> {
        let names = list.iter().map(|element| element.get(key)?.as_str()).collect::<Option<Vec<_>>>()?;
        let elements: BTreeMap<_, _> = names.iter().copied().zip(list).collect();
        (names.len() == elements.len()).then_some(Keyed { names, elements })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.elements.get(name).copied()
    }

    /// The names that the other has too.
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

/// Whether a name can stand in a path as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

fn plain_or_quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// How large a secret is, without its base64.
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
