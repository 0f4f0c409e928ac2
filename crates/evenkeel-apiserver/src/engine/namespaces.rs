//! The life of namespaces: what may be created in them, and how they empty and go.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use evenkeel_core::{Status, StatusCause};
use serde_json::{Value, json};

use super::delete::Deleted;
use super::options::{DeleteOptions, Propagation, WriteOptions};
use super::write::{Scope, Target, Writer};
use super::{ApiEngine, object};
use crate::env::rfc3339;
use crate::registry::Resource;
use crate::store::{At, Record, Span};

pub(super) const TABLE: &str = "namespaces";
const PODS: &str = "pods";
/// Namespaces that are there from the start (NS-1).
pub(super) const INITIAL: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// The last finalizer of a namespace's specification, which stands for its content.
const CONTENT: &str = "kubernetes";

impl ApiEngine {
    /// NS-3 and NS-4.
    pub(super) fn check_namespace_takes_content(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let Some(record) = self.store.get(TABLE, namespace) else {
            return Err(Status::not_found("", "namespaces", namespace));
        };
        if !record.facts.deleting {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(&resource.group, &resource.plural, name, why);
        status.details.get_or_insert_default().causes.push(StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
        Err(status)
    }

    /// Does for a terminating namespace what can be done now: deletes its content and, once it is empty, takes the
    /// finalizer away that stands for the content, so that the namespace goes (NS-7). Pods go at once, without grace:
    /// there is no kubelet that would end them.
    pub(super) fn sweep_namespace(&self, namespace: &str) {
        let _one_at_a_time = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = self.store.get(TABLE, namespace).filter(|record| record.facts.deleting) else { return };
        let holds_content = record
            .value()
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CONTENT)));
        if !holds_content {
            return;
        }
        let registry = self.registry();
        let mut resources: Vec<&Arc<Resource>> = registry.namespaced_stores().collect();
        resources.sort_by_key(|resource| *resource.storage != *PODS);
        let mut remaining = Vec::new();
        for resource in resources {
            let left = self.empty(resource, namespace);
            if !left.is_empty() {
                remaining.push((Arc::clone(resource), left));
                if *resource.storage == *PODS {
                    break;
                }
            }
        }
        self.report(namespace, &remaining);
    }

    /// The names of the namespaces that are going.
    pub(super) fn terminating_namespaces(&self) -> Vec<String> {
        let page = self.store.list(TABLE, Span::default(), At::Latest, |_, record| record.facts.deleting);
        let records = page.map(|page| page.records).unwrap_or_default();
        records.iter().map(|record| object::text(&record.value(), "name").to_owned()).collect()
    }

    /// Deletes all objects of a resource in a namespace; answers with those that something holds.
    fn empty(&self, resource: &Arc<Resource>, namespace: &str) -> Vec<Arc<Record>> {
        let prefix = format!("{namespace}/");
        let span = Span { prefix: &prefix, ..Span::default() };
        let Ok(page) = self.store.list(&resource.storage, span, At::Latest, |_, _| true) else {
            return Vec::new();
        };
        let options = DeleteOptions {
            grace_period: Some(0),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let mut held = Vec::new();
        for record in page.records {
            // Marked and still there: a finalizer holds it, and to delete it again would change nothing. Pods may have
            // been given time, which ends here.
            if record.facts.deleting && *resource.storage != *PODS {
                held.push(record);
                continue;
            }
            let value = record.value();
            let name = object::text(&value, "name");
            let target = Target { resource, namespace: Some(namespace), name, scope: Scope::Main };
            if let Ok(Deleted::Pending(pending)) = self.delete(target, &options) {
                held.push(pending);
            }
        }
        held
    }

    /// Tells in the namespace's conditions what still holds it, or lets it go.
    fn report(&self, namespace: &str, remaining: &[Remaining]) {
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "namespaces") else { return };
        let path = if remaining.is_empty() { &["spec", "finalizers"][..] } else { &["status", "conditions"][..] };
        let subresource = if remaining.is_empty() { "finalize" } else { "status" };
        let scope = Scope::Field { subresource, path };
        let target = Target { resource, namespace: None, name: namespace, scope };
        let now = rfc3339(self.env.wall());
        let options = WriteOptions::default();
        let writer = Writer::new(&options, "evenkeel");
        let done = self.update(target, writer, |old| {
            let mut new = old.clone();
            if remaining.is_empty() {
                if let Some(Value::Array(finalizers)) = new.pointer_mut("/spec/finalizers") {
                    finalizers.retain(|finalizer| finalizer.as_str() != Some(CONTENT));
                }
            } else {
                new["status"]["conditions"] = conditions(remaining, old, &now);
            }
            Ok(new)
        });
        if let Err(status) = done
            && !status.is_not_found()
        {
            tracing::warn!(namespace, %status, "a terminating namespace could not be updated");
        }
    }
}

/// Of an object's metadata, what holds it.
#[derive(Default, serde::Deserialize)]
struct Held {
    #[serde(default)]
    finalizers: Vec<String>,
}

/// A resource that a namespace still has objects of.
type Remaining = (Arc<Resource>, Vec<Arc<Record>>);

fn conditions(remaining: &[Remaining], old: &Value, now: &str) -> Value {
    let count = |(resource, held): &Remaining| {
        format!("{}.{} has {} resource instances", resource.plural, resource.group, held.len())
    };
    let mut counts: Vec<String> = remaining.iter().map(count).collect();
    counts.sort_unstable();
    let content = format!("Some resources are remaining: {}", counts.join(", "));
    let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
    for record in remaining.iter().flat_map(|(_, held)| held) {
        // Only the metadata is read: this is done for all that is left whenever one of them goes.
        let metadata: Held = serde_json::from_slice(record.metadata()).unwrap_or_default();
        for finalizer in metadata.finalizers {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let held: Vec<String> =
        finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let held = format!("Some content in the namespace has finalizers remaining: {}", held.join(", "));
    let texts = [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", content.as_str()),
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", held.as_str()),
    ];
    let known = old.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let condition = |(kind, status, reason, message): &(&str, &str, &str, &str)| {
        let unchanged = known.iter().find(|old| old["type"] == *kind && old["status"] == *status);
        let since = unchanged.and_then(|old| old["lastTransitionTime"].as_str()).unwrap_or(now);
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    texts.iter().map(condition).collect()
}
