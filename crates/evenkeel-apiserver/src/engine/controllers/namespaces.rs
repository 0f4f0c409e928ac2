//! The namespace controller: what a terminating namespace refuses, and its conditions. `sweep` empties it.

use std::collections::BTreeMap;

use evenkeel_core::{Status, StatusCause};
use serde_json::{Value, json};

use super::sweep::Remaining;
use crate::engine::options::WriteOptions;
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::{ApiEngine, object};
use crate::env::rfc3339;
use crate::registry::Resource;
use crate::store::{At, Span};

const TABLE: &str = "namespaces";
/// The finalizer in `spec.finalizers` that stands for the content of a namespace.
const CONTENT: &str = "kubernetes";

impl ApiEngine {
    /// Refuses a create in a namespace that does not exist or is terminating (NS-3, NS-4).
    pub(crate) fn check_namespace_accepts_objects(
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

    /// Returns whether a namespace is marked for deletion.
    pub(crate) fn is_namespace_terminating(&self, namespace: &str) -> bool {
        self.store.get(TABLE, namespace).is_some_and(|record| record.facts.deleting)
    }

    /// Returns whether a namespace is terminating and its finalizer for the content is left.
    pub(super) fn holds_content(&self, namespace: &str) -> bool {
        let record = self.store.get(TABLE, namespace).filter(|record| record.facts.deleting);
        let is_content = |finalizer: &Value| finalizer.as_str() == Some(CONTENT);
        record.is_some_and(|record| {
            let namespace = record.value();
            let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
            finalizers.is_some_and(|finalizers| finalizers.iter().any(is_content))
        })
    }

    /// Returns the names of the terminating namespaces.
    pub(super) fn terminating_namespaces(&self) -> Vec<String> {
        let page = self.store.list(TABLE, Span::default(), At::Latest, |_, record| record.facts.deleting);
        let records = page.map(|page| page.records).unwrap_or_default();
        records.iter().map(|record| object::text(&record.value(), "name").to_owned()).collect()
    }

    /// Writes what holds the namespace into its conditions, or removes its finalizer.
    pub(super) fn report(&self, namespace: &str, remaining: &[Remaining]) {
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "namespaces") else { return };
        let path = if remaining.is_empty() { &["spec", "finalizers"][..] } else { &["status", "conditions"][..] };
        let subresource = if remaining.is_empty() { "finalize" } else { "status" };
        let scope = WriteScope::Field { subresource, path };
        let target = Target { resource, namespace: None, name: namespace, scope };
        let now = rfc3339(self.env.wall());
        let options = WriteOptions::default();
        let writer = Writer::server(&options);
        let done = self.update_object(target, writer, |old| {
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
            tracing::warn!(namespace, %status, "cannot update terminating namespace");
        }
    }
}

/// The finalizers in the metadata of an object.
#[derive(Default, serde::Deserialize)]
struct HoldingMetadata {
    #[serde(default)]
    finalizers: Vec<String>,
}

fn conditions(remaining: &[Remaining], old: &Value, now: &str) -> Value {
    let count = |(resource, held): &Remaining| {
        format!("{}.{} has {} resource instances", resource.plural, resource.group, held.len())
    };
    let mut counts: Vec<String> = remaining.iter().map(count).collect();
    counts.sort_unstable();
    let content = format!("Some resources are remaining: {}", counts.join(", "));
    let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
    for record in remaining.iter().flat_map(|(_, held)| held) {
        // Only the metadata is parsed: this runs for all remaining objects whenever one is removed.
        let metadata: HoldingMetadata = serde_json::from_slice(record.metadata()).unwrap_or_default();
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
