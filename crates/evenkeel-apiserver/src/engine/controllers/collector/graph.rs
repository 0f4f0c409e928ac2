//! [`OwnerGraph`]: which objects depend on which, and which of them need work.
//!
//! The graph has a node for each object with owner references, and for each object whose deletion waits for the collector.
//! Other objects cost nothing, also as owners: the store says whether an owner exists. Like `service_addresses`, the graph
//! follows the history of the store, so deletes by sweeps and definitions, restores and restarts need no code of their
//! own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::queue::WorkQueue;
use crate::engine::options::Propagation;
use crate::engine::verbs::delete::{FOREGROUND, ORPHAN};
use crate::store::Record;

/// Events of both groups are outside the graph (GCX-016).
const EVENTS: &str = "events";
/// How many objects the search for a cycle visits. Beyond that the deletion waits for its dependents in any case.
const MAX_CYCLE: usize = 10_000;

/// The uid of an object.
pub(super) type Uid = Arc<str>;

/// See the documentation of the module.
#[derive(Debug, Default)]
pub(in crate::engine) struct OwnerGraph {
    /// All changes up to this revision are read; `None` before the first use.
    pub(super) revision: Option<u64>,
    nodes: HashMap<Uid, Node>,
    /// By the uid of the owner, which may not exist.
    owners: HashMap<Uid, Owner>,
    /// The nodes that need a decision.
    pub(super) queue: WorkQueue,
    /// New nodes, and nodes with new references. Most of them need nothing, which is found out first.
    unchecked: Vec<Uid>,
    /// Nodes that refer to a kind that is not served, by that kind.
    waiting_for_kind: HashMap<ReferencedKind, BTreeSet<Uid>>,
}

/// An object that has owners, or whose deletion waits for the collector.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    pub(super) table: Arc<str>,
    pub(super) key: Box<str>,
    pub(super) revision: u64,
    pub(super) deletion: Deletion,
    /// What its own finalizers request for its dependents.
    pub(super) propagation: Propagation,
    pub(super) references: Arc<[OwnerReference]>,
    /// How often its work has failed.
    pub(super) failures: u32,
}

/// How far the deletion of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    No,
    /// Another finalizer or a grace period holds the object.
    Started,
    /// The object waits until its dependents have lost their references to it.
    Orphaning,
    /// The object waits until its blocking dependents are removed.
    Foreground,
}

/// One of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(deserialize_with = "shared_text")]
    pub(super) uid: Uid,
    pub(super) block_owner_deletion: Option<bool>,
}

impl Default for OwnerReference {
    fn default() -> Self {
        let empty = String::new;
        OwnerReference {
            api_version: empty(),
            kind: empty(),
            name: empty(),
            uid: "".into(),
            block_owner_deletion: None,
        }
    }
}

fn shared_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Uid, D::Error> {
    String::deserialize(deserializer).map(Uid::from)
}

/// The kind that a reference names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReferencedKind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The dependents of an object.
#[derive(Debug, Default)]
struct Owner {
    dependents: BTreeSet<Uid>,
    /// Those with `blockOwnerDeletion`.
    blocking: usize,
    /// What the owner was, once its removal is read. Its kind may be removed as well.
    removed: Option<RemovedOwner>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemovedOwner {
    api_version: String,
    kind: String,
    metadata: RemovedName,
}

#[derive(Debug, Deserialize)]
struct RemovedName {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMetadata {
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Node {
    fn of(table: &Arc<str>, key: &str, record: &Record) -> Self {
        let metadata: NodeMetadata = serde_json::from_slice(record.metadata()).unwrap_or_default();
        let has = |name: &str| metadata.finalizers.iter().any(|finalizer| finalizer == name);
        let (orphan, foreground) = (has(ORPHAN), has(FOREGROUND));
        Node {
            uid: (&*record.facts.uid).into(),
            table: Arc::clone(table),
            key: key.into(),
            revision: record.revision,
            deletion: match record.facts.deleting {
                false => Deletion::No,
                true if orphan => Deletion::Orphaning,
                true if foreground => Deletion::Foreground,
                true => Deletion::Started,
            },
            propagation: match () {
                () if orphan => Propagation::Orphan,
                () if foreground => Propagation::Foreground,
                () => Propagation::Background,
            },
            references: metadata.owner_references.into(),
            failures: 0,
        }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    pub(super) fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Returns the owners that the node names, each once, with whether it blocks their deletion. A node that names itself
    /// would block its own deletion forever.
    fn owners(&self) -> Vec<(Uid, bool)> {
        let mut owners: Vec<(Uid, bool)> = Vec::with_capacity(self.references.len());
        for reference in self.references.iter() {
            let blocks = reference.block_owner_deletion == Some(true) && reference.uid != self.uid;
            match owners.iter_mut().find(|(uid, _)| *uid == reference.uid) {
                Some((_, blocked)) => *blocked |= blocks,
                None => owners.push((Arc::clone(&reference.uid), blocks)),
            }
        }
        owners
    }
}

impl OwnerReference {
    pub(super) fn referenced_kind(&self) -> ReferencedKind {
        ReferencedKind { api_version: self.api_version.clone(), kind: self.kind.clone() }
    }
}

/// Splits an `apiVersion` into group and version.
pub(super) fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl OwnerGraph {
    /// Returns whether an object needs a node.
    pub(super) fn concerns(record: &Record) -> bool {
        record.facts.owned || record.facts.deleting
    }

    /// Empties the graph, to be filled with all objects.
    pub(super) fn clear(&mut self) {
        *self = OwnerGraph::default();
    }

    /// Reads a commit. Work that it causes is due at `due`.
    pub(super) fn apply(
        &mut self,
        table: &Arc<str>,
        key: &str,
        previous: Option<&Record>,
        current: Option<&Record>,
        due: Duration,
    ) {
        match (current, previous) {
            _ if **table == *EVENTS => {}
            (Some(record), previous) => {
                if Self::concerns(record) || previous.is_some_and(Self::concerns) {
                    self.set(Node::of(table, key, record), due);
                }
            }
            (None, Some(record)) => self.remove(record, due),
            (None, None) => {}
        }
    }

    fn set(&mut self, mut node: Node, due: Duration) {
        let old = self.nodes.remove(&node.uid);
        let owners = node.owners();
        for (owner, blocks) in &owners {
            let entry = self.owners.entry(Arc::clone(owner)).or_default();
            entry.dependents.insert(Arc::clone(&node.uid));
            entry.blocking += usize::from(*blocks);
        }
        if let Some(old) = &old {
            node.failures = old.failures;
            self.release(old, |owner| owners.iter().any(|(known, _)| known == owner), due);
        }
        let starts = |deletion| node.deletion == deletion && old.as_ref().is_none_or(|old| old.deletion != deletion);
        let uid = Arc::clone(&node.uid);
        if starts(Deletion::Orphaning) || starts(Deletion::Foreground) {
            if node.deletion == Deletion::Foreground {
                self.enqueue_dependents(&uid, due);
            }
            self.queue.push(&uid, due);
        }
        let changed = old.as_ref().is_none_or(|old| old.references != node.references);
        if let Some(old) = old.filter(|_| changed) {
            self.unpark(&old);
        }
        if changed && node.deletion == Deletion::No && !node.references.is_empty() {
            self.unchecked.push(Arc::clone(&uid));
        }
        if node.references.is_empty() && node.deletion == Deletion::No {
            self.queue.remove(&uid);
        } else {
            self.nodes.insert(uid, node);
        }
    }

    fn remove(&mut self, record: &Record, due: Duration) {
        if let Some((_, node)) = self.nodes.remove_entry(&*record.facts.uid) {
            self.queue.remove(&node.uid);
            self.unpark(&node);
            self.release(&node, |_| false, due);
        }
        let uid = &*record.facts.uid;
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.removed = serde_json::from_slice(record.json()).ok();
            let uid: Uid = uid.into();
            self.enqueue_dependents(&uid, due);
        }
    }

    /// Takes back what a node has counted at its owners, except for its place among the dependents of those that it keeps.
    /// An owner that waits for no blocking dependent any more needs a decision (GCX-019).
    fn release(&mut self, node: &Node, keeps: impl Fn(&Uid) -> bool, due: Duration) {
        for (uid, blocks) in node.owners() {
            let Some(owner) = self.owners.get_mut(&uid) else { continue };
            owner.blocking -= usize::from(blocks);
            if blocks && owner.blocking == 0 && self.nodes.get(&uid).is_some_and(Node::waits_for_dependents) {
                self.queue.push(&uid, due);
            }
            if !keeps(&uid) {
                owner.dependents.remove(&node.uid);
                if owner.dependents.is_empty() {
                    self.owners.remove(&uid);
                }
            }
        }
    }

    fn enqueue_dependents(&mut self, owner: &Uid, due: Duration) {
        if let Some(owner) = self.owners.get(owner) {
            owner.dependents.iter().for_each(|dependent| self.queue.push(dependent, due));
        }
    }

    /// Returns the nodes whose references are new, and forgets that they are.
    pub(super) fn take_unchecked(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.unchecked)
    }

    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(super) fn node_mut(&mut self, uid: &str) -> Option<&mut Node> {
        self.nodes.get_mut(uid)
    }

    pub(super) fn has_dependents(&self, owner: &str) -> bool {
        self.owners.contains_key(owner)
    }

    pub(super) fn blocking_dependents(&self, owner: &str) -> usize {
        self.owners.get(owner).map_or(0, |owner| owner.blocking)
    }

    /// Returns up to `limit` dependents of an owner.
    pub(super) fn dependents(&self, owner: &str, limit: usize) -> Vec<Uid> {
        let dependents = self.owners.get(owner).into_iter().flat_map(|owner| &owner.dependents);
        dependents.take(limit).cloned().collect()
    }

    /// Returns whether an object exists and waits for the removal of its dependents.
    pub(super) fn waits_for_dependents(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(Node::waits_for_dependents)
    }

    /// Returns whether the object that a reference names is known to be removed.
    pub(super) fn is_removed(&self, reference: &OwnerReference) -> bool {
        let removed = self.owners.get(&reference.uid).and_then(|owner| owner.removed.as_ref());
        removed.is_some_and(|removed| {
            let group = |api_version| group_and_version(api_version).0;
            group(&removed.api_version) == group(&reference.api_version)
                && removed.kind == reference.kind
                && removed.metadata.name == reference.name
        })
    }

    /// Returns whether an object would wait for itself: its dependents, theirs and so on wait for theirs, and lead back to
    /// it (GC-3).
    pub(super) fn is_in_cycle(&self, uid: &Uid) -> bool {
        let mut seen: HashSet<&Uid> = HashSet::new();
        let mut open: Vec<&Uid> = vec![uid];
        while let Some(next) = open.pop() {
            for dependent in self.owners.get(next).into_iter().flat_map(|owner| &owner.dependents) {
                if dependent == uid && next != uid {
                    return true;
                }
                if self.waits_for_dependents(dependent) && seen.len() < MAX_CYCLE && seen.insert(dependent) {
                    open.push(dependent);
                }
            }
        }
        false
    }

    /// Parks a node until a kind is served.
    pub(super) fn wait_for_kind(&mut self, uid: &Uid, kind: ReferencedKind) {
        self.waiting_for_kind.entry(kind).or_default().insert(Arc::clone(uid));
    }

    fn unpark(&mut self, node: &Node) {
        if self.waiting_for_kind.is_empty() {
            return;
        }
        for reference in node.references.iter() {
            let kind = reference.referenced_kind();
            if let Some(nodes) = self.waiting_for_kind.get_mut(&kind) {
                nodes.remove(&node.uid);
                if nodes.is_empty() {
                    self.waiting_for_kind.remove(&kind);
                }
            }
        }
    }

    /// Has the nodes checked whose kinds are served now (GCX-013).
    pub(super) fn check_parked(&mut self, is_served: impl Fn(&ReferencedKind) -> bool) {
        let unchecked = &mut self.unchecked;
        self.waiting_for_kind.retain(|kind, nodes| {
            let served = is_served(kind);
            if served {
                unchecked.extend(nodes.iter().cloned());
            }
            !served
        });
    }
}

impl Node {
    fn waits_for_dependents(&self) -> bool {
        self.deletion == Deletion::Foreground
    }
}
