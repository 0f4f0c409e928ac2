//! Merges an intent into an object by the schema (SSA-8).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::FieldTypes;
use super::compare::{Shape, element, shape};
use super::path::PathElement;

/// Returns an object with an intent of its kind merged in, without regard to owners.
pub(crate) fn merge_intent<T: FieldTypes>(live: &Value, intent: &Value, types: &T) -> Value {
    merge(live, intent, Some(types))
}

/// Returns the object with the intent merged in: granular maps and lists are merged entry by entry, everything else is
/// replaced. A `null` replaces a scalar, but removes nothing from a map or list. The recursion is as deep as the
/// intent.
pub(super) fn merge<T: FieldTypes>(live: &Value, intent: &Value, types: Option<&T>) -> Value {
    match (shape(live, types), shape(intent, types)) {
        (Shape::Map(live), Shape::Map(intent)) => Value::Object(merge_maps(live, intent, types)),
        (Shape::List(live, types), Shape::List(intent, _)) => Value::Array(merge_lists(live, intent, types)),
        (Shape::Map(_) | Shape::List(..), Shape::Leaf) if intent.is_null() => live.clone(),
        _ => intent.clone(),
    }
}

fn merge_maps<T: FieldTypes>(
    live: &Map<String, Value>,
    intent: &Map<String, Value>,
    types: Option<&T>,
) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, wanted) in intent {
        let value = match live.get(name) {
            Some(live) => merge(live, wanted, types.and_then(|types| types.field(name))),
            None => wanted.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges lists item by item. The items of the intent keep its order; items that only the object has stay after their
/// predecessors where possible.
fn merge_lists<T: FieldTypes>(live: &[Value], intent: &[Value], types: &T) -> Vec<Value> {
    let live: Vec<_> = live.iter().map(|item| (element(item, types), item)).collect();
    let wanted: Vec<_> = intent.iter().map(|item| (element(item, types), item)).collect();
    let present = unique(&live);
    let asked: BTreeSet<&PathElement<'_>> = wanted.iter().filter_map(|(element, _)| element.as_ref()).collect();
    // The items that both lists have, in the order of the intent.
    let mut shared =
        wanted.iter().filter_map(|(element, _)| element.as_ref()).filter(|element| present.contains_key(*element));
    let mut next = shared.next();
    let mut merged = Vec::with_capacity(live.len().max(wanted.len()));
    let mut done: BTreeSet<&PathElement<'_>> = BTreeSet::new();
    let mut theirs = live.iter().peekable();
    let mut ours = wanted.iter().peekable();
    loop {
        // Items that only the object has are emitted first; shared items are skipped unless they are next.
        while let Some((element, item)) = theirs.peek() {
            match element.as_ref().filter(|element| asked.contains(element)) {
                None => merged.push((*item).clone()),
                Some(element) if ours.peek().is_some() && next.is_some_and(|next| next != element) => {}
                Some(element) if done.contains(element) => {
                    theirs.next();
                    if next.is_none() && ours.peek().is_some() {
                        break;
                    }
                    continue;
                }
                Some(_) => break,
            }
            theirs.next();
        }
        let Some((element, item)) = ours.next() else {
            return merged;
        };
        let live = element.as_ref().and_then(|element| present.get(element).copied().flatten());
        merged.push(live.map_or_else(|| (*item).clone(), |live| merge(live, item, types.items())));
        if let Some(element) = element {
            done.insert(element);
            theirs.next_if(|(other, _)| other.as_ref() == Some(element));
            if next == Some(element) {
                next = shared.next();
            }
        }
    }
}

/// Returns the items by path element. Items that share a key are not merged.
fn unique<'e, 'a>(
    items: &'e [(Option<PathElement<'a>>, &'a Value)],
) -> BTreeMap<&'e PathElement<'a>, Option<&'a Value>> {
    let mut unique = BTreeMap::new();
    for (element, item) in items {
        if let Some(element) = element {
            unique.entry(element).and_modify(|item| *item = None).or_insert(Some(*item));
        }
    }
    unique
}
