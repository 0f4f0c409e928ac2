//! Sets of fields.

use std::cmp::Ordering;

use serde_json::Value;

use super::FieldTypes;
use super::path::{Malformed, PathElement};
use crate::schema::ListType;

/// A set of paths, as a trie whose nodes are sorted. Borrows its names from the objects it describes.
///
/// A path and the paths below it are members on their own: owning a map is not owning its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet<'a> {
    /// Sorted by element; no node is empty.
    nodes: Vec<(PathElement<'a>, FieldSetNode<'a>)>,
}

/// A path of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSetNode<'a> {
    /// Whether the path itself is a member.
    pub(crate) member: bool,
    /// The members below it.
    pub(crate) below: FieldSet<'a>,
}

impl FieldSetNode<'_> {
    /// A member with nothing below.
    pub(crate) fn leaf() -> Self {
        FieldSetNode { member: true, below: FieldSet::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl<'a> FieldSet<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn with_capacity(nodes: usize) -> Self {
        FieldSet { nodes: Vec::with_capacity(nodes) }
    }

    /// Appends a node, unless it is empty. Elements must be pushed in order.
    pub(crate) fn push(&mut self, element: PathElement<'a>, node: FieldSetNode<'a>) {
        debug_assert!(self.nodes.last().is_none_or(|(last, _)| *last < element));
        if !node.is_empty() {
            self.nodes.push((element, node));
        }
    }

    /// Adds all members of the other set.
    pub(crate) fn absorb(&mut self, other: FieldSet<'a>) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        if other.nodes.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut theirs = other.nodes.into_iter().peekable();
        for (element, mut node) in self.nodes.drain(..) {
            while let Some(smaller) = theirs.next_if(|(other, _)| *other < element) {
                merged.push(smaller);
            }
            if let Some((_, other)) = theirs.next_if(|(other, _)| *other == element) {
                node.member |= other.member;
                node.below.absorb(other.below);
            }
            merged.push((element, node));
        }
        merged.extend(theirs);
        self.nodes = merged;
    }

    /// Returns the members of all sets. Merges in pairs: each member is moved as often as the number of sets can be
    /// halved.
    pub(crate) fn union(mut sets: Vec<FieldSet<'a>>) -> Self {
        while sets.len() > 1 {
            let mut halved = Vec::with_capacity(sets.len().div_ceil(2));
            let mut rest = sets.into_iter();
            while let Some(mut set) = rest.next() {
                if let Some(other) = rest.next() {
                    set.absorb(other);
                }
                halved.push(set);
            }
            sets = halved;
        }
        sets.pop().unwrap_or_default()
    }

    /// Removes the members of the other set. A member stays if only its parent is in the other set.
    pub(crate) fn subtract(&mut self, other: &FieldSet<'_>) {
        if self.is_small_beside(other) {
            self.nodes.retain_mut(|(element, node)| {
                if let Some(other) = other.get(element) {
                    node.member &= !other.member;
                    node.below.subtract(&other.below);
                }
                !node.is_empty()
            });
            return;
        }
        let mut theirs = other.nodes.iter().peekable();
        self.nodes.retain_mut(|(element, node)| {
            let element: &PathElement<'_> = element;
            while theirs.next_if(|(other, _)| *other < *element).is_some() {}
            if let Some((_, other)) = theirs.peek().filter(|(other, _)| *other == *element) {
                node.member &= !other.member;
                node.below.subtract(&other.below);
            }
            !node.is_empty()
        });
    }

    /// Returns the members of both sets.
    pub(crate) fn intersection(&self, other: &FieldSet<'a>) -> FieldSet<'a> {
        let mut common = FieldSet::default();
        if self.is_small_beside(other) {
            for (element, node) in &self.nodes {
                if let Some(other) = other.get(element) {
                    let member = node.member && other.member;
                    common.push(element.clone(), FieldSetNode { member, below: node.below.intersection(&other.below) });
                }
            }
            return common;
        }
        let (mut ours, mut theirs) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        while let (Some((element, node)), Some((other_element, other))) = (ours.peek(), theirs.peek()) {
            match element.cmp(other_element) {
                Ordering::Less => drop(ours.next()),
                Ordering::Greater => drop(theirs.next()),
                Ordering::Equal => {
                    let node = FieldSetNode {
                        member: node.member && other.member,
                        below: node.below.intersection(&other.below),
                    };
                    common.push(element.clone(), node);
                    ours.next();
                    theirs.next();
                }
            }
        }
        common
    }

    /// Returns whether searching the other set for each node is cheaper than reading it: many managers may each own few
    /// fields of a large object.
    fn is_small_beside(&self, other: &FieldSet<'_>) -> bool {
        self.nodes.len().saturating_mul(16) < other.nodes.len()
    }

    /// Returns the node of a path element.
    pub(crate) fn get(&self, element: &PathElement<'_>) -> Option<&FieldSetNode<'a>> {
        let index = self.nodes.binary_search_by(|(other, _)| other.cmp(element)).ok()?;
        self.nodes.get(index).map(|(_, node)| node)
    }

    /// Adds every declared field that has a member below it: `fieldsV1` omits those, because they always exist. Keys
    /// of maps and items of lists are members only if they are encoded.
    pub(crate) fn with_declared_fields<T: FieldTypes>(mut self, types: Option<&T>) -> Self {
        for (element, node) in &mut self.nodes {
            let declared = match element {
                PathElement::Field(name) => types.is_some_and(|types| types.declares(name)),
                PathElement::Index(_) | PathElement::Key(_) | PathElement::Value(_) => false,
            };
            if !node.below.is_empty() {
                node.member |= declared;
                node.below = std::mem::take(&mut node.below).with_declared_fields(below(element, types));
            }
        }
        self
    }

    /// Converts a set that was written under another schema: values that have become atomic are owned as a whole.
    pub(crate) fn conform<T: FieldTypes>(&mut self, types: Option<&T>) {
        for (element, node) in &mut self.nodes {
            let Some(types) = below(element, types) else { continue };
            let atomic = match node.below.nodes.first() {
                None => false,
                Some((PathElement::Field(_), _)) => types.is_atomic_map(),
                Some(_) => types.list_type() == ListType::Atomic,
            };
            if atomic {
                *node = FieldSetNode::leaf();
            } else {
                node.below.conform(Some(types));
            }
        }
    }

    /// Returns the members as in messages, such as `.spec.containers[name="a"].image`, level by level.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.push_paths("", &mut paths);
        paths
    }

    fn push_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let members = self.nodes.iter().filter(|(_, node)| node.member);
        paths.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, node) in self.nodes.iter().filter(|(_, node)| !node.below.is_empty()) {
            node.below.push_paths(&format!("{prefix}{element}"), paths);
        }
    }

    /// Removes one member, given as names of fields, and keeps those below it.
    pub(crate) fn remove_member(&mut self, path: &[&str]) {
        self.edit(path, &|node| node.member = false);
    }

    /// Removes these fields of the object and all below them.
    pub(crate) fn remove_subtrees(&mut self, names: &[&str]) {
        for name in names {
            self.edit(&[name], &|node| *node = FieldSetNode::default());
        }
    }

    /// Edits the node at the path, if it exists, and drops nodes that become empty.
    fn edit(&mut self, path: &[&str], change: &dyn Fn(&mut FieldSetNode<'a>)) {
        let [name, rest @ ..] = path else { return };
        let element = PathElement::Field(name);
        let Ok(index) = self.nodes.binary_search_by(|(other, _)| other.cmp(&element)) else {
            return;
        };
        let Some((_, node)) = self.nodes.get_mut(index) else {
            return;
        };
        if rest.is_empty() {
            change(node);
        } else {
            node.below.edit(rest, change);
        }
        if node.is_empty() {
            self.nodes.remove(index);
        }
    }

    /// Appends the set as `fieldsV1`, with sorted keys.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        self.write_node(false, bytes);
    }

    fn write_node(&self, member: bool, bytes: &mut Vec<u8>) {
        bytes.push(b'{');
        if member && !self.is_empty() {
            bytes.extend_from_slice(b"\".\":{},");
        }
        // Elements are in the order of their keys, except for positions: `i:10` is before `i:2`.
        if self.nodes.iter().any(|(element, _)| matches!(element, PathElement::Index(10..))) {
            let mut nodes: Vec<_> = self.nodes.iter().collect();
            nodes.sort_by(|(a, _), (b, _)| match (a, b) {
                (PathElement::Index(a), PathElement::Index(b)) => a.to_string().cmp(&b.to_string()),
                (a, b) => a.cmp(b),
            });
            write_members(nodes.into_iter(), bytes);
        } else {
            write_members(self.nodes.iter(), bytes);
        }
        if bytes.last() == Some(&b',') {
            bytes.pop();
        }
        bytes.push(b'}');
    }

    /// Decodes `fieldsV1`. Elements of an unknown kind are skipped.
    pub(crate) fn decode(value: &'a Value) -> Result<Self, Malformed> {
        Ok(decode_node(value)?.below)
    }
}

#[cfg(test)]
impl<'a> FieldSet<'a> {
    /// Returns the fields that the creator of an object owns.
    pub(crate) fn of<T: FieldTypes>(object: &'a Value, types: Option<&T>) -> Self {
        super::compare::created(object, types)
    }

    /// Returns the set as `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

/// Appends the members of an object of `fieldsV1`, each with a comma after it.
fn write_members<'n, 'a: 'n>(
    nodes: impl Iterator<Item = &'n (PathElement<'a>, FieldSetNode<'a>)>,
    bytes: &mut Vec<u8>,
) {
    for (element, node) in nodes {
        element.write_key(bytes);
        node.below.write_node(node.member, bytes);
        bytes.push(b',');
    }
}

/// Returns the type of the value at a path element.
fn below<'t, T: FieldTypes>(element: &PathElement<'_>, types: Option<&'t T>) -> Option<&'t T> {
    match element {
        PathElement::Field(name) => types?.field(name),
        PathElement::Index(_) | PathElement::Key(_) | PathElement::Value(_) => types?.items(),
    }
}

fn decode_node(value: &Value) -> Result<FieldSetNode<'_>, Malformed> {
    let fields = value.as_object().ok_or(Malformed)?;
    let mut node = FieldSetNode::default();
    let mut is_sorted = true;
    for (name, value) in fields {
        if name == "." {
            node.member = true;
            continue;
        }
        let Some(element) = PathElement::decode(name)? else {
            continue;
        };
        let nodes = &mut node.below.nodes;
        is_sorted = is_sorted && nodes.last().is_none_or(|(last, _)| *last < element);
        nodes.push((element, decode_node(value)?));
    }
    if !is_sorted {
        let nodes = &mut node.below.nodes;
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        // Two spellings of one key are one element.
        nodes.dedup_by(|(later, _), (earlier, _)| later == earlier);
    }
    // A path with nothing below it is a member.
    node.member |= node.below.is_empty();
    Ok(node)
}
