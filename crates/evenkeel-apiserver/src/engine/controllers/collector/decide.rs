//! What becomes of an object of the graph. Decisions read the graph, the served kinds and the store, and write nothing.

use std::sync::Arc;

use super::graph::{Deletion, Node, OwnerGraph, OwnerReference, ReferencedKind, Uid, group_and_version};
use crate::engine::options::Propagation;
use crate::engine::target;
use crate::engine::verbs::delete::{FOREGROUND, ORPHAN};
use crate::registry::{Registry, Resource};
use crate::store::{At, Span, Store};

/// How many objects are read to find an owner in another namespace. A dependent whose owner is not among them is treated
/// like one whose owner does not exist, without the event.
const MAX_SEARCHED: usize = 10_000;

/// What the collector does about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Keep,
    /// Decides again when this kind is served (GCX-013).
    AwaitKind(ReferencedKind),
    /// Removes the references to these owners; the object keeps others (GC-2).
    DropReferences(Vec<Uid>),
    /// Deletes the object, after its references have stopped to block if that would make a cycle (GC-3).
    Delete {
        propagation: Propagation,
        unblock_first: bool,
    },
    /// Clears `blockOwnerDeletion` of the object, which waits in a cycle.
    Unblock,
    /// Removes the references to the object from its dependents (GC-4).
    OrphanDependents,
    /// Removes this finalizer of the collector's.
    RemoveFinalizer(&'static str),
}

/// The state of what a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists. It may be under deletion (GCX-006).
    Solid,
    /// It exists and waits for the removal of its dependents.
    Waiting,
    /// It does not exist, or is another object (GC-1).
    Absent,
    /// Its kind is not served.
    UnknownKind,
    /// A cluster-scoped object names a namespaced owner (GC-5).
    WrongScope,
}

/// What decisions read.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) graph: &'a OwnerGraph,
    pub(super) registry: &'a Registry,
    pub(super) store: &'a Store,
}

/// Returns the resource of a kind that objects may name as owner.
pub(super) fn owner_resource<'a>(registry: &'a Registry, kind: &ReferencedKind) -> Option<&'a Arc<Resource>> {
    let (group, version) = group_and_version(&kind.api_version);
    registry.lookup_kind(group, version, &kind.kind).filter(|resource| resource.has_verb("get"))
}

impl Situation<'_> {
    /// Returns whether all owners of an object exist and none waits: the usual case.
    pub(super) fn is_settled(&self, node: &Node) -> bool {
        node.deletion == Deletion::No
            && node.references.iter().all(|reference| self.state(node, reference) == OwnerState::Solid)
    }

    /// Decides about an object.
    pub(super) fn decide(&self, node: &Node) -> Decision {
        match node.deletion {
            Deletion::No => self.decide_by_owners(node),
            Deletion::Started => Decision::Keep,
            Deletion::Orphaning if self.graph.has_dependents(&node.uid) => Decision::OrphanDependents,
            Deletion::Orphaning => Decision::RemoveFinalizer(ORPHAN),
            Deletion::Foreground if self.graph.blocking_dependents(&node.uid) == 0 => {
                Decision::RemoveFinalizer(FOREGROUND)
            }
            Deletion::Foreground => {
                let blocks = node.references.iter().any(|reference| {
                    reference.block_owner_deletion == Some(true) && self.graph.waits_for_dependents(&reference.uid)
                });
                if blocks && self.graph.is_in_cycle(&node.uid) { Decision::Unblock } else { Decision::Keep }
            }
        }
    }

    fn decide_by_owners(&self, node: &Node) -> Decision {
        let (mut is_kept, mut waits) = (false, false);
        let mut dropped: Vec<Uid> = Vec::new();
        for reference in node.references.iter() {
            match self.state(node, reference) {
                OwnerState::Solid => is_kept = true,
                OwnerState::Waiting => {
                    waits = true;
                    dropped.push(Arc::clone(&reference.uid));
                }
                OwnerState::Absent => dropped.push(Arc::clone(&reference.uid)),
                OwnerState::UnknownKind => return Decision::AwaitKind(reference.referenced_kind()),
                OwnerState::WrongScope => return Decision::Keep,
            }
        }
        match () {
            () if dropped.is_empty() => Decision::Keep,
            () if is_kept => Decision::DropReferences(dropped),
            () if waits && self.graph.has_dependents(&node.uid) => {
                let unblock_first = self.graph.is_in_cycle(&node.uid);
                Decision::Delete { propagation: Propagation::Foreground, unblock_first }
            }
            () => Decision::Delete { propagation: node.propagation, unblock_first: false },
        }
    }

    fn state(&self, node: &Node, reference: &OwnerReference) -> OwnerState {
        if self.graph.is_removed(reference) {
            return OwnerState::Absent;
        }
        let Some(resource) = owner_resource(self.registry, &reference.referenced_kind()) else {
            return OwnerState::UnknownKind;
        };
        let namespace = node.namespace().filter(|_| resource.namespaced);
        if resource.namespaced && namespace.is_none() {
            return OwnerState::WrongScope;
        }
        let owner = self.store.get(&resource.storage, &target::key(namespace, &reference.name));
        match owner {
            Some(owner) if *owner.facts.uid != *reference.uid => OwnerState::Absent,
            None => OwnerState::Absent,
            Some(_) if self.graph.waits_for_dependents(&reference.uid) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }
    }

    /// Returns the references of an object whose owners live in another namespace (GCX-011).
    pub(super) fn references_across_namespaces(&self, node: &Node) -> Vec<OwnerReference> {
        let lives_elsewhere = |reference: &&OwnerReference| {
            if !matches!(self.state(node, reference), OwnerState::Absent | OwnerState::WrongScope)
                || self.graph.is_removed(reference)
            {
                return false;
            }
            let resource = owner_resource(self.registry, &reference.referenced_kind());
            resource.is_some_and(|resource| resource.namespaced && self.exists(&resource.storage, &reference.uid))
        };
        node.references.iter().filter(lives_elsewhere).cloned().collect()
    }

    fn exists(&self, table: &str, uid: &str) -> bool {
        let span = Span { limit: 1, ..Span::default() };
        let searched = std::cell::Cell::new(0);
        let page = self.store.list(table, span, At::Latest, |_, record| {
            searched.set(searched.get() + 1);
            searched.get() <= MAX_SEARCHED && *record.facts.uid == *uid
        });
        page.is_ok_and(|page| !page.records.is_empty())
    }
}
