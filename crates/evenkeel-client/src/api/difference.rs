//! Differences between JSON values: merge patches, strategic merge patches, and changes that a type makes to an object which
//! has more fields than the type.

use std::collections::HashMap;

use evenkeel_core::merge_rules::{MergeType, PatchRule};
use serde_json::{Map, Value, json};

/// Members that identify the items of most lists, in the order of preference.
const IDENTITIES: [&str; 9] = ["name", "key", "type", "uid", "mountPath", "devicePath", "containerPort", "port", "ip"];

/// Lays the change from `before` to `after` on the value that `before` was decoded from. Members that the type of `before`
/// does not have are kept, also in the items of lists that were changed, moved or inserted.
///
/// What did not change is taken from `raw`, so that a type which writes a value in another form changes nothing.
pub(crate) fn overlay(raw: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return raw.clone();
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            let mut members = raw.clone();
            for name in before.keys().filter(|name| !after.contains_key(*name)) {
                members.remove(name);
            }
            for (name, new) in after {
                let value = match (raw.get(name), before.get(name)) {
                    (Some(raw), Some(old)) => overlay(raw, old, new),
                    // A member that the type always writes.
                    (None, Some(old)) if old == new => continue,
                    _ => new.clone(),
                };
                members.insert(name.clone(), value);
            }
            Value::Object(members)
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after)) if raw.len() == before.len() => {
            overlay_list(raw, before, after).into()
        }
        _ => after.clone(),
    }
}

fn overlay_list(raw: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let identity = IDENTITIES.into_iter().find(|name| identifies(name, before) && identifies(name, after));
    let id = |item: &Value| match identity {
        Some(name) => item.get(name).unwrap_or(&Value::Null).to_string(),
        None => item.to_string(),
    };
    let mut positions: HashMap<String, usize> = HashMap::with_capacity(before.len());
    for (position, item) in before.iter().enumerate() {
        positions.entry(id(item)).or_insert(position);
    }
    let is_unchanged = |position: usize, item: &Value| before.get(position).is_some_and(|old| old == item);
    after
        .iter()
        .enumerate()
        .map(|(position, item)| {
            let found = match positions.get(&id(item)) {
                _ if is_unchanged(position, item) => Some(position),
                Some(found) => Some(*found),
                // Items without an identity: those of a list with the same length keep their places.
                None if identity.is_none() && before.len() == after.len() => Some(position),
                None => None,
            };
            match found.and_then(|found| Some((raw.get(found)?, before.get(found)?))) {
                Some((raw, old)) => overlay(raw, old, item),
                None => item.clone(),
            }
        })
        .collect()
}

/// Returns whether the member is a different scalar in every item.
fn identifies(name: &str, items: &[Value]) -> bool {
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().all(|item| match item.get(name) {
        Some(value @ (Value::String(_) | Value::Number(_))) => seen.insert(value.to_string()),
        _ => false,
    })
}

/// Computes the merge patch (RFC 7386) from one value to the other; `None` if they are equal.
pub(crate) fn merge_difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let removed = old.keys().filter(|member| !new.contains_key(*member)).map(|member| (member.clone(), Value::Null));
    let changed = new.iter().filter_map(|(member, value)| {
        let patch = match old.get(member) {
            Some(old) => merge_difference(old, value)?,
            None => value.clone(),
        };
        Some((member.clone(), patch))
    });
    let patch: Map<String, Value> = removed.chain(changed).collect();
    (!patch.is_empty()).then(|| patch.into())
}

/// Computes the JSON patch (RFC 6902) from one value to the other; `None` if they are equal. Lists are replaced as a whole.
pub(crate) fn json_difference(before: &Value, after: &Value) -> Option<Value> {
    let mut operations = Vec::new();
    add_operations(before, after, String::new(), &mut operations);
    (!operations.is_empty()).then(|| operations.into())
}

fn add_operations(before: &Value, after: &Value, path: String, operations: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            operations.push(json!({"op": "replace", "path": path, "value": after}));
        }
        return;
    };
    let below = |member: &str| format!("{path}/{}", member.replace('~', "~0").replace('/', "~1"));
    for member in old.keys().filter(|member| !new.contains_key(*member)) {
        operations.push(json!({"op": "remove", "path": below(member)}));
    }
    for (member, value) in new {
        match old.get(member) {
            Some(old) => add_operations(old, value, below(member), operations),
            None => operations.push(json!({"op": "add", "path": below(member), "value": value})),
        }
    }
}

/// Computes the strategic merge patch from one object to the other; `None` if they are equal.
pub(crate) fn strategic_difference(before: &Value, after: &Value, types: MergeType) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for member in old.keys().filter(|member| !new.contains_key(*member)) {
        patch.insert(member.clone(), Value::Null);
    }
    for (member, value) in new {
        let Some(present) = old.get(member) else {
            patch.insert(member.clone(), value.clone());
            continue;
        };
        let types = types.field(member);
        match (types.map_or(PatchRule::Default, MergeType::patch_rule), present, value) {
            _ if present == value => {}
            (PatchRule::Merge(Some(key)), Value::Array(old), Value::Array(new))
                if identifies(key, old) && identifies(key, new) =>
            {
                merged_list(member, key, old, new, types.and_then(MergeType::items), &mut patch);
            }
            (PatchRule::Merge(None), Value::Array(old), Value::Array(new)) => merged_set(member, old, new, &mut patch),
            // Without unique keys the list can only be replaced.
            (PatchRule::Merge(Some(_)), _, Value::Array(new)) => {
                let items = new.iter().cloned().chain([json!({"$patch": "replace"})]).collect();
                patch.insert(member.clone(), Value::Array(items));
            }
            (PatchRule::Default, Value::Object(_), Value::Object(_)) => {
                let inner = match types {
                    Some(types) => strategic_difference(present, value, types),
                    None => merge_difference(present, value),
                };
                patch.extend(inner.map(|inner| (member.clone(), inner)));
            }
            _ => {
                patch.insert(member.clone(), value.clone());
            }
        }
    }
    (!patch.is_empty()).then(|| patch.into())
}

/// Adds the difference of a list that is merged by a key: changed and new items, deletions, and the order.
fn merged_list(
    member: &str,
    key: &str,
    old: &[Value],
    new: &[Value],
    types: Option<MergeType>,
    patch: &mut Map<String, Value>,
) {
    let id = |item: &Value| item.get(key).unwrap_or(&Value::Null).to_string();
    let olds: HashMap<String, &Value> = old.iter().map(|item| (id(item), item)).collect();
    let news: HashMap<String, &Value> = new.iter().map(|item| (id(item), item)).collect();
    let mut items = Vec::new();
    for item in new {
        let change = match (olds.get(&id(item)), types) {
            (None, _) => Some(item.clone()),
            (Some(old), Some(types)) => strategic_difference(old, item, types),
            (Some(old), None) => merge_difference(old, item),
        };
        if let Some(Value::Object(mut change)) = change {
            change.insert(key.to_owned(), item.get(key).cloned().unwrap_or_default());
            items.push(Value::Object(change));
        }
    }
    for item in old.iter().filter(|item| !news.contains_key(&id(item))) {
        items.push(json!({"$patch": "delete", key: item.get(key).cloned().unwrap_or_default()}));
    }
    let order: Vec<Value> = new.iter().map(|item| json!({key: item.get(key).cloned().unwrap_or_default()})).collect();
    patch.insert(format!("$setElementOrder/{member}"), order.into());
    if !items.is_empty() {
        patch.insert(member.to_owned(), items.into());
    }
}

/// Adds the difference of a list that is merged by value: new values, deletions, and the order.
fn merged_set(member: &str, old: &[Value], new: &[Value], patch: &mut Map<String, Value>) {
    let added: Vec<Value> = new.iter().filter(|value| !old.contains(value)).cloned().collect();
    let removed: Vec<Value> = old.iter().filter(|value| !new.contains(value)).cloned().collect();
    patch.insert(format!("$setElementOrder/{member}"), new.to_vec().into());
    if !added.is_empty() {
        patch.insert(member.to_owned(), added.into());
    }
    if !removed.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{member}"), removed.into());
    }
}

/// Returns the dotted path of the first value in a merge patch.
pub(crate) fn first_path(patch: &Value) -> String {
    let mut path = String::new();
    let mut value = patch;
    while let Some((name, inner)) = value.as_object().and_then(|members| members.iter().next()) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        value = inner;
    }
    path
}

#[cfg(test)]
mod tests;
