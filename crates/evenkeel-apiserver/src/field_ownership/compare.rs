//! Compares two versions of an object: the fields that a write added, modified and removed.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::schema::ListType;

use super::FieldTypes;
use super::path::PathElement;
use super::set::{FieldSet, FieldSetNode};

/// Fields of an object without an owner (SSA-4). Those below `metadata` have one, except for [`IDENTITY`].
const NEVER_OWNED: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Fields of the metadata without an owner (SSA-4): those that the server sets, and the object's identity.
pub(super) const IDENTITY: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The value of an absent side.
static NOTHING: Value = Value::Null;

/// The difference between two objects; no path is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes<'a> {
    pub(crate) added: FieldSet<'a>,
    pub(crate) modified: FieldSet<'a>,
    pub(crate) removed: FieldSet<'a>,
}

impl<'a> Changes<'a> {
    /// Returns the added and the modified fields.
    pub(crate) fn into_written(self) -> FieldSet<'a> {
        let mut written = self.added;
        written.absorb(self.modified);
        written
    }
}

impl Changes<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Removes these fields of the object and everything below them.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for set in self.sets() {
            set.remove_subtrees(names);
        }
    }
}

impl<'a> Changes<'a> {
    fn sets(&mut self) -> [&mut FieldSet<'a>; 3] {
        [&mut self.added, &mut self.modified, &mut self.removed]
    }
}

/// Returns the fields that the creator of an object owns.
pub(crate) fn created<'a, T: FieldTypes>(object: &'a Value, types: Option<&T>) -> FieldSet<'a> {
    changes(None, object, types).into_written()
}

/// Compares an object with its replacement. Fields without an owner are excluded.
pub(crate) fn changes<'a, T: FieldTypes>(old: Option<&'a Value>, new: &'a Value, types: Option<&T>) -> Changes<'a> {
    let difference = compare(old.unwrap_or(&NOTHING), new, types);
    let mut changes = Changes {
        added: difference.added.below,
        modified: difference.modified.below,
        removed: difference.removed.below,
    };
    for set in changes.sets() {
        set.remove_never_owned();
    }
    changes
}

impl FieldSet<'_> {
    /// Removes the fields that have no owner (SSA-4).
    pub(crate) fn remove_never_owned(&mut self) {
        for name in NEVER_OWNED {
            self.remove_member(&[name]);
        }
        for name in IDENTITY {
            self.remove_member(&["metadata", name]);
        }
    }
}

/// The difference at one path and below.
#[derive(Default)]
struct Difference<'a> {
    added: FieldSetNode<'a>,
    modified: FieldSetNode<'a>,
    removed: FieldSetNode<'a>,
}

impl<'a> Difference<'a> {
    fn push(&mut self, element: PathElement<'a>, inner: Difference<'a>) {
        // The element is cloned only for more than one set, which is rare and, for fields, free.
        match (inner.added.is_empty(), inner.modified.is_empty(), inner.removed.is_empty()) {
            (true, true, true) => {}
            (false, true, true) => self.added.below.push(element, inner.added),
            (true, false, true) => self.modified.below.push(element, inner.modified),
            (true, true, false) => self.removed.below.push(element, inner.removed),
            _ => {
                self.added.below.push(element.clone(), inner.added);
                self.modified.below.push(element.clone(), inner.modified);
                self.removed.below.push(element, inner.removed);
            }
        }
    }

    fn added(node: FieldSetNode<'a>) -> Self {
        Difference { added: node, ..Difference::default() }
    }

    fn removed(node: FieldSetNode<'a>) -> Self {
        Difference { removed: node, ..Difference::default() }
    }

    fn modified() -> Self {
        Difference { modified: FieldSetNode::leaf(), ..Difference::default() }
    }
}

/// The granularity at which a value is owned.
pub(super) enum Shape<'a, 't, T> {
    /// As a whole.
    Leaf,
    /// Key by key.
    Map(&'a Map<String, Value>),
    /// Item by item, by the list's type.
    List(&'a [Value], &'t T),
}

pub(super) fn shape<'a, 't, T: FieldTypes>(value: &'a Value, types: Option<&'t T>) -> Shape<'a, 't, T> {
    match (value, types) {
        (Value::Object(map), None) => Shape::Map(map),
        (Value::Object(map), Some(types)) if !types.is_atomic_map() => Shape::Map(map),
        (Value::Array(list), Some(types)) if types.list_type() != ListType::Atomic => Shape::List(list, types),
        _ => Shape::Leaf,
    }
}

/// Returns the path and everything below it. The recursion here and in [`compare`] is bounded by the depth limit of
/// the parser and the patches.
fn whole<'a, T: FieldTypes>(value: &'a Value, types: Option<&T>) -> FieldSetNode<'a> {
    let mut node = FieldSetNode::leaf();
    match shape(value, types) {
        Shape::Leaf => {}
        Shape::Map(map) => {
            node.below = FieldSet::with_capacity(map.len());
            for (name, value) in map {
                let types = types.and_then(|types| types.field(name));
                node.below.push(PathElement::Field(name), whole(value, types));
            }
        }
        Shape::List(list, types) => {
            node.below = FieldSet::with_capacity(list.len());
            for (element, items) in groups(&keyed(list, types)) {
                let item = match items {
                    [(_, only)] => whole(only, types.items()),
                    // Items that share a key are owned together.
                    _ => FieldSetNode::leaf(),
                };
                node.below.push(element, item);
            }
        }
    }
    node
}

fn compare<'a, T: FieldTypes>(old: &'a Value, new: &'a Value, types: Option<&T>) -> Difference<'a> {
    match (shape(old, types), shape(new, types)) {
        (Shape::Map(old), Shape::Map(new)) => compare_maps(Some(old), Some(new), types),
        (Shape::List(old, types), Shape::List(new, _)) => compare_lists(old, new, types),
        // An absent side has the shape of the other one. Two absent sides are a leaf, below.
        (Shape::Map(old), Shape::Leaf) if new.is_null() && !old.is_empty() => compare_maps(Some(old), None, types),
        (Shape::Leaf, Shape::Map(new)) if old.is_null() && !new.is_empty() => compare_maps(None, Some(new), types),
        (Shape::List(old, types), Shape::Leaf) if new.is_null() && !old.is_empty() => compare_lists(old, &[], types),
        (Shape::Leaf, Shape::List(new, types)) if old.is_null() && !new.is_empty() => compare_lists(&[], new, types),
        (Shape::Leaf, Shape::Leaf) if old == new => Difference::default(),
        // The shape changed: the old contents are removed, the new ones added, and the value itself is modified.
        _ => {
            let mut difference = Difference::modified();
            difference.removed.below = whole(old, types).below;
            difference.added.below = whole(new, types).below;
            difference
        }
    }
}

fn compare_maps<'a, T: FieldTypes>(
    old: Option<&'a Map<String, Value>>,
    new: Option<&'a Map<String, Value>>,
    types: Option<&T>,
) -> Difference<'a> {
    let mut difference = Difference::default();
    let mut olds = old.into_iter().flatten().peekable();
    let mut news = new.into_iter().flatten().peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return difference,
        };
        let old = olds.next_if(|_| order.is_le());
        let new = news.next_if(|_| order.is_ge());
        let Some((name, _)) = old.or(new) else {
            return difference;
        };
        let field = types.and_then(|types| types.field(name));
        let inner = match (old, new) {
            (Some((_, old)), Some((_, new))) => compare(old, new, field),
            (None, Some((_, new))) if types.is_some_and(|types| types.always_has(name, field)) => {
                if is_empty_map(new) {
                    continue;
                }
                compare(&NOTHING, new, field)
            }
            (Some((_, old)), None) if types.is_some_and(|types| types.always_has(name, field)) => {
                if is_empty_map(old) {
                    continue;
                }
                compare(old, &NOTHING, field)
            }
            (None, Some((_, new))) => Difference::added(whole(new, field)),
            (Some((_, old)), None) => Difference::removed(whole(old, field)),
            (None, None) => continue,
        };
        difference.push(PathElement::Field(name), inner);
    }
}

pub(super) fn is_empty_map(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn compare_lists<'a, T: FieldTypes>(old: &'a [Value], new: &'a [Value], types: &T) -> Difference<'a> {
    let (old, new) = (keyed(old, types), keyed(new, types));
    let mut difference = Difference::default();
    let mut olds = groups(&old).peekable();
    let mut news = groups(&new).peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return difference,
        };
        let old = olds.next_if(|_| order.is_le());
        let new = news.next_if(|_| order.is_ge());
        let old_items = old.as_ref().map_or(&[][..], |(_, items)| *items);
        let new_items = new.as_ref().map_or(&[][..], |(_, items)| *items);
        let inner = compare_items(old_items, new_items, types.items());
        if let Some((element, _)) = old.or(new) {
            difference.push(element, inner);
        }
    }
}

/// Compares the items with one key. Several items are owned together, as one leaf.
fn compare_items<'a, T: FieldTypes>(
    old: &[(PathElement<'a>, &'a Value)],
    new: &[(PathElement<'a>, &'a Value)],
    types: Option<&T>,
) -> Difference<'a> {
    match (old, new) {
        ([(_, old)], [(_, new)]) => compare(old, new, types),
        ([], [(_, new)]) => Difference::added(whole(new, types)),
        ([(_, old)], []) => Difference::removed(whole(old, types)),
        ([], _) => Difference::added(FieldSetNode::leaf()),
        (_, []) => Difference::removed(FieldSetNode::leaf()),
        ([(_, old)], _) => Difference {
            added: FieldSetNode::leaf(),
            removed: FieldSetNode { member: false, below: whole(old, types).below },
            ..Difference::default()
        },
        (_, [(_, new)]) => Difference { added: whole(new, types), ..Difference::default() },
        (old, new) if old.iter().map(|(_, item)| item).eq(new.iter().map(|(_, item)| item)) => Difference::default(),
        _ => Difference::modified(),
    }
}

/// Returns the items of a list with their path elements, sorted. Items without a key, which validation rejects, have
/// no owner.
pub(super) fn keyed<'a, T: FieldTypes>(list: &'a [Value], types: &T) -> Vec<(PathElement<'a>, &'a Value)> {
    let mut items: Vec<_> = list.iter().filter_map(|item| Some((element(item, types)?, item))).collect();
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    items
}

/// Returns the path element that identifies an item in its list; `None` if it has none.
pub(super) fn element<'a, T: FieldTypes>(item: &'a Value, types: &T) -> Option<PathElement<'a>> {
    match types.list_type() {
        ListType::Atomic => None,
        ListType::Set => PathElement::value(item),
        ListType::Map(keys) => {
            let fields = item.as_object()?;
            PathElement::key(keys.iter().filter_map(|key| {
                let default = || types.items()?.field(key)?.default_value();
                Some((key.as_str(), fields.get(key).or_else(default)?))
            }))
        }
    }
}

/// Returns the runs of items that share an element.
pub(super) fn groups<'i, 'a>(
    items: &'i [(PathElement<'a>, &'a Value)],
) -> impl Iterator<Item = (PathElement<'a>, &'i [(PathElement<'a>, &'a Value)])> {
    items.chunk_by(|(a, _), (b, _)| a == b).filter_map(|run| Some((run.first()?.0.clone(), run)))
}
