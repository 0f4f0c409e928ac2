//! Differences between JSON values: merge patches and strategic merge patches.

use std::collections::HashMap;

use evenkeel_core::difference::is_identity;
use evenkeel_core::merge_rules::{MergeType, PatchRule};
use serde_json::{Map, Value, json};

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
                if is_identity(old, key) && is_identity(new, key) =>
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
