//! [`ClusterState`]: the objects of the server, and what of them two runs have in common.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::network::{RIVAL, get};
use crate::world::Cluster;

/// All objects of the kinds that were written in a run, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterState {
    /// By the path of their collection, e.g. `/api/v1/configmaps`, each sorted by namespace and name.
    collections: BTreeMap<String, Vec<Value>>,
}

impl ClusterState {
    pub(crate) async fn read(cluster: &Cluster) -> Self {
        let mut state = ClusterState::default();
        for path in cluster.world.collections() {
            let mut list = get(cluster, &path).await;
            let items = list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
            state.collections.insert(path, items.unwrap_or_default());
        }
        state
    }

    /// Returns the objects of a resource by its plural, e.g. `configmaps`, of all groups.
    pub fn objects<'a>(&'a self, resource: &str) -> impl Iterator<Item = &'a Value> {
        let suffix = format!("/{resource}");
        self.collections.iter().filter(move |(path, _)| path.ends_with(&suffix)).flat_map(|(_, objects)| objects)
    }

    /// Returns an object of a resource by `namespace/name`, or `name`.
    pub fn object<'a>(&'a self, resource: &str, key: &str) -> Option<&'a Value> {
        self.objects(resource).find(|object| key_of(object) == key)
    }

    /// Returns all objects, each with its resource and its key.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, String, &Value)> {
        self.collections.iter().flat_map(|(path, objects)| {
            let resource = path.rsplit('/').next().unwrap_or(path);
            objects.iter().map(move |object| (resource, key_of(object), object))
        })
    }

    /// Returns the same state without what differs between two runs that mean the same: uids, versions, times, owners of
    /// fields, and the random part of generated names. Leases and Events are left out.
    pub(crate) fn comparable(&self) -> BTreeMap<String, Vec<Value>> {
        let mut comparable = BTreeMap::new();
        for (path, objects) in &self.collections {
            if path.ends_with("/leases") || path.ends_with("/events") {
                continue;
            }
            let mut masked: Vec<Value> = objects.iter().map(masked_object).collect();
            masked.sort_by_cached_key(Value::to_string);
            comparable.insert(path.clone(), masked);
        }
        comparable
    }
}

fn key_of(object: &Value) -> String {
    let text = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Fields of metadata that differ from run to run.
const VOLATILE: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp"];

fn masked_object(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        VOLATILE.iter().for_each(|field| drop(metadata.remove(*field)));
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned) {
            metadata.insert("name".to_owned(), format!("{prefix}*").into());
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner.as_object_mut().map(|owner| owner.remove("uid"));
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(RIVAL);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    mask_volatile(&mut object);
    object
}

/// Masks times, uids wherever they stand, and versions that objects record of themselves.
fn mask_volatile(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let masked = |name: &str| matches!(name, "observedGeneration" | "uid" | "resourceVersion");
            fields.iter_mut().filter(|(name, _)| masked(name)).for_each(|(_, value)| *value = Value::Null);
            fields.values_mut().for_each(mask_volatile);
        }
        Value::Array(items) => items.iter_mut().for_each(mask_volatile),
        Value::String(text) if is_time(text) => *value = "<time>".into(),
        Value::String(text) if is_uid(text) => *value = "<uid>".into(),
        _ => {}
    }
}

/// Returns whether a text is an RFC 3339 time.
fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.ends_with('Z')
        && text.bytes().zip(*b"0000-00-00T00:00:00").all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            separator => byte == separator,
        })
}

/// Returns whether a text is a UUID.
fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns how a state differs from the one that was expected, in words.
pub(crate) fn difference(
    expected: &BTreeMap<String, Vec<Value>>,
    found: &BTreeMap<String, Vec<Value>>,
) -> Option<String> {
    let mut words = String::new();
    let none = Vec::new();
    for path in expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path))) {
        let by_key = |objects: &Vec<Value>| -> BTreeMap<String, Vec<Value>> {
            objects.iter().fold(BTreeMap::new(), |mut keys: BTreeMap<String, Vec<Value>>, object| {
                keys.entry(key_of(object)).or_default().push(object.clone());
                keys
            })
        };
        let (expected, found) = (by_key(expected.get(path).unwrap_or(&none)), by_key(found.get(path).unwrap_or(&none)));
        let resource = path.rsplit('/').next().unwrap_or(path);
        for key in expected.keys().chain(found.keys().filter(|key| !expected.contains_key(*key))) {
            let (expected, found) = (expected.get(key), found.get(key));
            let count = |objects: Option<&Vec<Value>>| objects.map_or(0, Vec::len);
            if count(expected) != count(found) {
                let (expected, found) = (count(expected), count(found));
                let _ = write!(words, "{resource} {key}: {found} instead of {expected}; ");
            } else if let (Some(expected), Some(found)) = (expected, found)
                && expected != found
            {
                let fields = expected.iter().zip(found).find_map(|(expected, found)| changed(expected, found, ""));
                let _ = write!(words, "{resource} {key} differs: {}; ", fields.unwrap_or_default());
            }
        }
    }
    let words = words.trim_end_matches("; ");
    (!words.is_empty()).then(|| words.to_owned())
}

/// Returns the first field that differs, with both values.
fn changed(expected: &Value, found: &Value, path: &str) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names = |a: &Map<String, Value>, b: &Map<String, Value>| -> Vec<String> {
                a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))).cloned().collect()
            };
            let field = |object: &Map<String, Value>, name: &str| object.get(name).cloned().unwrap_or_default();
            names(expected, found)
                .iter()
                .find_map(|name| changed(&field(expected, name), &field(found, name), &format!("{path}.{name}")))
        }
        _ if expected == found => None,
        _ => Some(format!("{} is {found} instead of {expected}", path.trim_start_matches('.'))),
    }
}

#[cfg(test)]
mod tests;
