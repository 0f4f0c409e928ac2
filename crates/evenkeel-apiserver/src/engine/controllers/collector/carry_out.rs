//! Carries out the decisions of the collector, as writes of the server itself.

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::Value;

use super::decide::Decision;
use super::graph::{Node, Uid};
use super::{COLLECTION_STEP, WorkItem};
use crate::engine::controllers::PendingWork;
use crate::engine::options::{DeleteOptions, Propagation, WriteOptions};
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, Writer, Written};
use crate::engine::{ApiEngine, object};
use crate::registry::Resource;

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// The object has changed since the decision, or the decision is carried out in part.
    Again,
    /// The write was refused.
    Failed,
}

impl ApiEngine {
    /// Carries a decision out.
    pub(super) fn act_on(self: &Arc<Self>, item: &WorkItem, work: &mut PendingWork) -> Progress {
        let WorkItem { node, decision, .. } = item;
        let done = match decision {
            Decision::Keep | Decision::AwaitKind(_) => Ok(Progress::Done),
            Decision::DropReferences(owners) => self.drop_references(node, owners, work),
            Decision::Delete { propagation, unblock_first } => self.collect(node, *propagation, *unblock_first, work),
            Decision::Unblock => self.change(node, work, unblock).map(|_| Progress::Done),
            Decision::OrphanDependents => self.orphan_dependents(node, work),
            Decision::RemoveFinalizer(name) => self
                .change(node, work, |new| {
                    let left =
                        object::finalizers(new).filter(|finalizer| finalizer != name).map(str::to_owned).collect();
                    object::set_finalizers(new, left);
                })
                .map(|_| Progress::Done),
        };
        done.unwrap_or_else(|error| match &error {
            // The object is removed, or another one has its name.
            RequestError::Refused(status) if status.is_not_found() => Progress::Done,
            RequestError::Refused(status) if status.is_conflict() => Progress::Again,
            _ => {
                let (resource, key) = (&*node.table, &*node.key);
                tracing::warn!(resource, key, %error, "garbage collection of an object failed; retrying");
                Progress::Failed
            }
        })
    }

    /// Deletes an object as it was when it was decided about (GCX-010).
    fn collect(
        self: &Arc<Self>,
        node: &Node,
        propagation: Propagation,
        unblock_first: bool,
        work: &mut PendingWork,
    ) -> Result<Progress, RequestError> {
        let mut revision = node.revision;
        if unblock_first {
            let unblocked = self.change(node, work, unblock)?;
            revision = unblocked.record.revision;
        }
        let resource = self.resource_of(node)?;
        let _lock = resource.strategy.hooks.lock_request(self);
        let target = target(&resource, node);
        let options = DeleteOptions {
            uid: Some(node.uid.to_string()),
            resource_version: Some(revision.to_string()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        self.delete_object(target, &options, None)?;
        self.after_delete(&resource, target.namespace, target.name, work);
        Ok(Progress::Done)
    }

    /// Removes the references to an owner from its next dependents. The owner is decided about again until it has none.
    fn orphan_dependents(self: &Arc<Self>, owner: &Node, work: &mut PendingWork) -> Result<Progress, RequestError> {
        let uids = [Arc::clone(&owner.uid)];
        for dependent in self.dependents_of(owner, COLLECTION_STEP) {
            match self.drop_references(&dependent, &uids, work) {
                Err(RequestError::Refused(status)) if status.is_not_found() => {}
                other => other.map(|_| ())?,
            }
        }
        Ok(Progress::Again)
    }

    fn dependents_of(&self, owner: &Node, limit: usize) -> Vec<Node> {
        let graph = self.owner_graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let dependents = graph.dependents(&owner.uid, limit);
        dependents.iter().filter_map(|uid| graph.node(uid).cloned()).collect()
    }

    /// Removes the references of an object to these owners, and leaves others (GCX-008).
    fn drop_references(
        self: &Arc<Self>,
        node: &Node,
        owners: &[Uid],
        work: &mut PendingWork,
    ) -> Result<Progress, RequestError> {
        let is_dropped = |reference: &Value| {
            let uid = reference.get("uid").and_then(Value::as_str);
            uid.is_some_and(|uid| owners.iter().any(|owner| **owner == *uid))
        };
        self.change(node, work, |new| {
            let metadata = object::metadata_mut(new);
            if let Some(Value::Array(references)) = metadata.get_mut("ownerReferences") {
                references.retain(|reference| !is_dropped(reference));
                if references.is_empty() {
                    metadata.remove("ownerReferences");
                }
            }
        })?;
        Ok(Progress::Done)
    }

    /// Changes the metadata of an object if it is still the same one.
    fn change(
        self: &Arc<Self>,
        node: &Node,
        work: &mut PendingWork,
        edit: impl Fn(&mut Value),
    ) -> Result<Written, RequestError> {
        let resource = self.resource_of(node)?;
        let hooks = resource.strategy.hooks;
        let _lock = hooks.lock_request(self);
        let target = target(&resource, node);
        let options = WriteOptions::default();
        let written = self.update_object(target, Writer::server(&options), |old| {
            if object::text(old, "uid") != &*node.uid {
                return Err(target.not_found());
            }
            let mut new = old.clone();
            edit(&mut new);
            Ok(new)
        })?;
        match written.record.facts.deleting {
            true => self.after_delete(&resource, target.namespace, target.name, work),
            false => hooks.after_write(self, target.name),
        }
        Ok(written)
    }

    /// Returns the resource of an object in its preferred version.
    fn resource_of(&self, node: &Node) -> Result<Arc<Resource>, Status> {
        let registry = self.registry();
        let is_of = |resource: &&Arc<Resource>| resource.storage == node.table && resource.has_verb("delete");
        let resource = registry.resources().find(is_of).cloned();
        resource.ok_or_else(|| Status::internal(format!("no version of {} is served", node.table)))
    }
}

fn target<'a>(resource: &'a Arc<Resource>, node: &'a Node) -> Target<'a> {
    Target { resource, namespace: node.namespace(), name: node.name(), scope: WriteScope::Main }
}

/// Clears `blockOwnerDeletion` of all references.
fn unblock(new: &mut Value) {
    if let Some(Value::Array(references)) = object::metadata_mut(new).get_mut("ownerReferences") {
        for reference in references {
            if let Some(block) = reference.get_mut("blockOwnerDeletion") {
                *block = Value::Bool(false);
            }
        }
    }
}
