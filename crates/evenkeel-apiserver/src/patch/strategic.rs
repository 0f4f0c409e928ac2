//! Strategic merge patch: a merge patch that uses the schema.
//!
//! Objects merge field by field as in a JSON merge patch. Lists that the schema declares to be merged are merged item by
//! item: objects by their merge key, scalars by their value. All other lists are replaced. Directives among the fields
//! express the rest:
//!
//! - `$patch: replace` in an object, or in an item of a merged list, replaces the present value with the rest;
//! - `$patch: delete` in an object empties it; in an item of a merged list it removes the item with that key;
//! - `$deleteFromPrimitiveList/F` removes values from the list `F`;
//! - `$setElementOrder/F` sets the order of the items of the list `F`;
//! - `$retainKeys` names the only fields that an object may keep.
//!
//! `$patch: merge` is refused, as by kube-apiserver. For an invalid patch kube-apiserver returns 500 in some cases; this
//! server returns 400.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use thiserror::Error;

use super::PatchError;
use super::tree::depth;
use crate::go_json::kind_of;
use crate::schema::json::{self, Parsed};
use crate::schema::{PatchStrategy, Schema};

/// The nesting limit of a patch.
const MAX_DEPTH: usize = 64;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// An error of a strategic merge patch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum StrategicError {
    /// A `$deleteFromPrimitiveList` without a field, or that is not a list of scalars.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` is not a list, or does not name a field that the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// A `$setElementOrder` without a field, or that is not a list.
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    /// The items of a list are in another order than in `$setElementOrder`, or missing there.
    #[error("the order in the patch of {field:?} does not match its $setElementOrder list")]
    OrderMismatch {
        /// The list.
        field: String,
    },
    /// An unknown value of `$patch`.
    #[error("unknown patch type: {0}")]
    UnknownDirective(String),
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// An item has no merge key.
    #[error("an item of {field:?} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The list.
        field: String,
        /// The merge key of its items.
        key: String,
    },
    /// The list must be merged, but the schema has no merge key.
    #[error("cannot merge lists without merge key for {0}")]
    Unkeyed(String),
    /// Objects and scalars, or several kinds of scalars, in one list.
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    /// A list to be merged contains lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The patch is nested too deeply.
    #[error("the patch is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

use StrategicError as Fault;

/// Applies the strategic merge patch in `body` to an object of this schema (PAT-7). Returns the fields that occur twice
/// in the patch.
///
/// On an error the document is partly patched: patch a copy.
pub(crate) fn apply_strategic_merge(
    doc: &mut Value,
    body: &[u8],
    schema: Option<&Schema>,
) -> Result<Vec<String>, PatchError> {
    let Parsed { value: patch, duplicates } =
        json::parse(body).map_err(|fault| PatchError::Syntax(fault.to_string()))?;
    let patch = match patch {
        Value::Object(patch) => patch,
        // Go decodes this as an empty map.
        Value::Null => Map::new(),
        other => {
            let found = kind_of(&other);
            let message = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
            return Err(PatchError::Syntax(message));
        }
    };
    // The patch itself is one level.
    if patch.values().map(depth).max().unwrap_or(0) >= MAX_DEPTH {
        return Err(Fault::TooDeep.into());
    }
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    if let Value::Object(target) = doc {
        merge_map(target, patch, schema)?;
    }
    Ok(duplicates)
}

/// Merges a patch into an object. The recursion is as deep as the patch.
fn merge_map(
    target: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<(), Fault> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => *target = without_directives(patch),
            Some("delete") => target.clear(),
            _ => return Err(unknown_directive(&directive)),
        }
        return Ok(());
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(target, &patch, &keys)?;
    }
    merge_ordered_lists(target, &mut patch, schema)?;
    for (name, value) in patch {
        if name.starts_with(DELETE_FROM_LIST) {
            let field = field_of(&name, DELETE_FROM_LIST).ok_or(Fault::PrimitiveList)?;
            delete_from_list(target.get_mut(field), &value)?;
            continue;
        }
        if value.is_null() {
            target.remove(&name);
            continue;
        }
        let field = schema.and_then(|schema| schema.field(&name));
        match (target.get_mut(&name), value) {
            (Some(Value::Object(target)), Value::Object(patch)) if !is_replaced(field) => {
                merge_map(target, patch, field)?;
            }
            (Some(Value::Array(target)), Value::Array(patch)) if is_merged(field) => {
                let live = std::mem::take(target);
                *target = merge_list(live, patch, &name, field)?;
            }
            (_, value) => match bare(value) {
                Some(value) => drop(target.insert(name, value)),
                None => drop(target.remove(&name)),
            },
        }
    }
    Ok(())
}

fn is_merged(field: Option<&Schema>) -> bool {
    field.is_some_and(|field| matches!(field.patch_strategy(), PatchStrategy::Merge(_)))
}

fn is_replaced(field: Option<&Schema>) -> bool {
    field.is_some_and(|field| field.patch_strategy() == PatchStrategy::Replace)
}

/// Returns the merge key of a list; scalars have none.
fn merge_key(field: Option<&Schema>) -> Option<&str> {
    match field?.patch_strategy() {
        PatchStrategy::Merge(key) => key,
        PatchStrategy::Default | PatchStrategy::Replace => None,
    }
}

fn unknown_directive(directive: &Value) -> Fault {
    Fault::UnknownDirective(directive.as_str().map_or_else(|| directive.to_string(), str::to_owned))
}

/// Returns the field of a directive such as `$setElementOrder/ports`.
fn field_of<'n>(name: &'n str, directive: &str) -> Option<&'n str> {
    name.strip_prefix(directive)?.strip_prefix('/')
}

/// Returns whether the name of a field is a directive.
fn is_directive(name: &str) -> bool {
    name == RETAIN_KEYS || field_of(name, DELETE_FROM_LIST).is_some() || field_of(name, SET_ORDER).is_some()
}

/// Returns a value of a patch without its nulls and directives, for a field that the object does not have. `None` if the
/// value consists of its directive alone.
fn bare(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(without_directives(fields))),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(bare).collect())),
        scalar => Some(scalar),
    }
}

fn without_directives(fields: Map<String, Value>) -> Map<String, Value> {
    let values = fields.into_iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
    values.filter_map(|(name, value)| Some((name, bare(value)?))).collect()
}

/// `$retainKeys`: removes all other fields. The patch may not set a field that it does not retain.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>, keys: &Value) -> Result<(), Fault> {
    let keys = keys.as_array().ok_or(Fault::RetainKeys)?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let stray =
        patch.iter().any(|(name, value)| !value.is_null() && !is_directive(name) && !keys.contains(name.as_str()));
    if stray {
        return Err(Fault::RetainKeys);
    }
    target.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// `$deleteFromPrimitiveList`.
fn delete_from_list(target: Option<&mut Value>, values: &Value) -> Result<(), Fault> {
    let values = values.as_array().ok_or(Fault::PrimitiveList)?;
    if values.iter().any(|value| value.is_object() || value.is_array()) {
        return Err(Fault::PrimitiveList);
    }
    let removed: HashSet<String> = values.iter().map(Value::to_string).collect();
    if let Some(Value::Array(target)) = target {
        target.retain(|value| !removed.contains(&value.to_string()));
    }
    Ok(())
}

/// Removes every list with a `$setElementOrder` from the patch, with its directive, and merges it.
fn merge_ordered_lists(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<(), Fault> {
    let names: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for name in names {
        let field = field_of(&name, SET_ORDER).ok_or(Fault::ElementOrder)?;
        let Some(Value::Array(order)) = patch.remove(&name) else {
            return Err(Fault::ElementOrder);
        };
        let list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(Fault::ElementOrder),
        };
        let types = schema.and_then(|schema| schema.field(field));
        let key = merge_key(types);
        let wanted = list(patch.remove(field))?;
        let order = keys_of(&order, field, key)?;
        if let Some(wanted) = &wanted {
            check_order(wanted, &order, field, key)?;
        }
        let live = list(target.remove(field))?;
        let live_order = match &live {
            Some(live) => keys_of(live, field, key)?,
            None => Vec::new(),
        };
        let merged = match (live, wanted) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(wanted)) => wanted.into_iter().filter_map(bare).collect(),
            (Some(live), Some(wanted)) if is_merged(types) => merge_list(live, wanted, field, types)?,
            (Some(_), Some(wanted)) => wanted.into_iter().filter_map(bare).collect(),
        };
        let merged = arrange(with_keys(merged, field, key)?, &order, &live_order);
        target.insert(field.to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// Checks that `$setElementOrder` names the items of the patch in the same order.
fn check_order(wanted: &[Value], order: &[String], field: &str, key: Option<&str>) -> Result<(), Fault> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for item in wanted.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let item = key_of(item, field, key)?;
        if !order.any(|next| *next == item) {
            return Err(Fault::OrderMismatch { field: field.to_owned() });
        }
    }
    Ok(())
}

/// Merges the items of a patch into a list. Items in the patch take its order; the others keep their position relative to
/// those, after new items.
fn merge_list(live: Vec<Value>, patch: Vec<Value>, name: &str, list: Option<&Schema>) -> Result<Vec<Value>, Fault> {
    let Some(first) = live.first().or(patch.first()) else {
        return Ok(live);
    };
    if first.is_array() {
        return Err(Fault::ListOfLists);
    }
    if live.iter().chain(&patch).any(|item| kind_of(item) != kind_of(first)) || first.is_null() {
        return Err(Fault::MixedItems(name.to_owned()));
    }
    if !first.is_object() {
        let (live_order, order) = (keys_of(&live, name, None)?, keys_of(&patch, name, None)?);
        let mut seen = HashSet::new();
        let mut both = with_keys(live.into_iter().chain(patch).collect(), name, None)?;
        both.retain(|(key, _)| seen.insert(key.clone()));
        return Ok(arrange(both, &order, &live_order));
    }
    let Some(key) = merge_key(list) else {
        return Err(Fault::Unkeyed(name.to_owned()));
    };
    let Special { deleted, replace, rest: patch } = Special::split(patch, name, key)?;
    if replace {
        return Ok(patch.into_iter().filter_map(bare).collect());
    }
    let mut merged = with_keys(live, name, Some(key))?;
    merged.retain(|(key, _)| !deleted.contains(key));
    let live_order: Vec<String> = merged.iter().map(|(key, _)| key.clone()).collect();
    let order = keys_of(&patch, name, Some(key))?;
    let mut places: HashMap<String, usize> = positions(&live_order).map(|(key, at)| (key.to_owned(), at)).collect();
    let items = list.and_then(Schema::items);
    for (key, item) in order.iter().zip(patch) {
        let place = places.get(key).and_then(|at| merged.get_mut(*at));
        match (place, item) {
            (Some((_, Value::Object(target))), Value::Object(patch)) => merge_map(target, patch, items)?,
            (_, item) => {
                if let Some(item) = bare(item) {
                    places.insert(key.clone(), merged.len());
                    merged.push((key.clone(), item));
                }
            }
        }
    }
    Ok(arrange(merged, &order, &live_order))
}

/// The items of a patch without those that consist of a directive.
struct Special {
    /// The keys of items to remove.
    deleted: HashSet<String>,
    /// Whether the rest replaces the whole list.
    replace: bool,
    rest: Vec<Value>,
}

impl Special {
    fn split(patch: Vec<Value>, name: &str, key: &str) -> Result<Special, Fault> {
        let mut special = Special { deleted: HashSet::new(), replace: false, rest: Vec::with_capacity(patch.len()) };
        for item in patch {
            let Some(directive) = item.get(DIRECTIVE) else {
                special.rest.push(item);
                continue;
            };
            match directive.as_str() {
                Some("delete") => drop(special.deleted.insert(key_of(&item, name, Some(key))?)),
                Some("replace") => special.replace = true,
                Some("merge") => return Err(Fault::MergeDirective),
                _ => return Err(unknown_directive(directive)),
            }
        }
        Ok(special)
    }
}

/// Returns the identity of an item of a list as text.
fn key_of(item: &Value, field: &str, key: Option<&str>) -> Result<String, Fault> {
    let Some(key) = key else {
        return Ok(item.to_string());
    };
    match item.get(key) {
        Some(value) => Ok(value.to_string()),
        None => Err(Fault::NoMergeKey { field: field.to_owned(), key: key.to_owned() }),
    }
}

fn keys_of(items: &[Value], field: &str, key: Option<&str>) -> Result<Vec<String>, Fault> {
    items.iter().map(|item| key_of(item, field, key)).collect()
}

fn with_keys(items: Vec<Value>, field: &str, key: Option<&str>) -> Result<Vec<(String, Value)>, Fault> {
    items.into_iter().map(|item| Ok((key_of(&item, field, key)?, item))).collect()
}

/// Returns the first position of each key.
fn positions(keys: &[String]) -> impl Iterator<Item = (&str, usize)> {
    // The last of equal keys wins in a map, so the keys are inserted from the back.
    keys.iter().enumerate().rev().map(|(at, key)| (key.as_str(), at))
}

/// Sorts the items that `order` names into that order and the others into the order of `live`, and merges the two. An
/// item that only the server has precedes a named one if it preceded it before, and follows it otherwise.
fn arrange(items: Vec<(String, Value)>, order: &[String], live: &[String]) -> Vec<Value> {
    let order: HashMap<&str, usize> = positions(order).collect();
    let live: HashMap<&str, usize> = positions(live).collect();
    let place = |places: &HashMap<&str, usize>, key: &str| places.get(key).copied().unwrap_or(usize::MAX);
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|(key, _)| order.contains_key(key.as_str()));
    named.sort_by_key(|(key, _)| place(&order, key));
    others.sort_by_key(|(key, _)| place(&live, key));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (key, item) in named {
        if let Some(at) = live.get(key.as_str()) {
            while let Some((_, before)) = others.next_if(|(other, _)| place(&live, other) < *at) {
                arranged.push(before);
            }
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    arranged
}

#[cfg(test)]
mod tests;
