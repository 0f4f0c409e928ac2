//! The namespace controller: empties terminating namespaces and removes them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use evenkeel_core::{Status, StatusCause};
use serde_json::{Value, json};

use crate::engine::options::{DeleteOptions, Propagation, WriteOptions};
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::verbs::delete::DeleteOutcome;
use crate::engine::{ApiEngine, ControllerTiming, object};
use crate::env::rfc3339;
use crate::registry::Resource;
use crate::store::{At, Record, Span};

const TABLE: &str = "namespaces";
const PODS: &str = "pods";
/// Namespaces that exist from the start (NS-1).
pub(crate) const INITIAL: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
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

    /// Sweeps a terminating namespace now or after the delay of the settings.
    pub(crate) fn schedule_sweep(&self, namespace: &str) {
        match self.settings.namespaces {
            ControllerTiming::Off => {}
            ControllerTiming::Immediate => self.sweep(namespace),
            ControllerTiming::Delayed(delay) => {
                let at = self.env.monotonic().saturating_add(delay);
                let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
                sweeps.insert((at, namespace.to_owned()));
            }
        }
    }

    /// Runs the sweeps that are due.
    pub(crate) fn run_due_sweeps(&self, now: Duration) {
        let due = {
            let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            let later = sweeps.split_off(&(now + Duration::from_nanos(1), String::new()));
            std::mem::replace(&mut *sweeps, later)
        };
        due.iter().for_each(|(_, namespace)| self.sweep(namespace));
    }

    /// Sweeps a namespace. That may remove the last object of a terminating definition.
    fn sweep(&self, namespace: &str) {
        self.sweep_namespace(namespace);
        self.sweep_definitions();
    }

    /// Deletes the content of a terminating namespace. Once it is empty, removes the finalizer that stands for the
    /// content, which removes the namespace (NS-7). Pods are deleted without a grace period: there is no kubelet to
    /// stop them.
    fn sweep_namespace(&self, namespace: &str) {
        let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Returns the names of the terminating namespaces.
    pub(crate) fn terminating_namespaces(&self) -> Vec<String> {
        let page = self.store.list(TABLE, Span::default(), At::Latest, |_, record| record.facts.deleting);
        let records = page.map(|page| page.records).unwrap_or_default();
        records.iter().map(|record| object::text(&record.value(), "name").to_owned()).collect()
    }

    /// Deletes all objects of a resource in a namespace. Returns those that finalizers hold.
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
            // A finalizer holds a marked object, and a second delete changes nothing. A marked pod may be in its grace
            // period, which ends here.
            if record.facts.deleting && *resource.storage != *PODS {
                held.push(record);
                continue;
            }
            let value = record.value();
            let name = object::text(&value, "name");
            let target = Target { resource, namespace: Some(namespace), name, scope: WriteScope::Main };
            if let Ok(DeleteOutcome::Pending(pending)) = self.delete_object(target, &options) {
                held.push(pending);
            }
        }
        held
    }

    /// Writes what holds the namespace into its conditions, or removes its finalizer.
    fn report(&self, namespace: &str, remaining: &[Remaining]) {
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "namespaces") else { return };
        let path = if remaining.is_empty() { &["spec", "finalizers"][..] } else { &["status", "conditions"][..] };
        let subresource = if remaining.is_empty() { "finalize" } else { "status" };
        let scope = WriteScope::Field { subresource, path };
        let target = Target { resource, namespace: None, name: namespace, scope };
        let now = rfc3339(self.env.wall());
        let options = WriteOptions::default();
        let writer = Writer::new(&options, "evenkeel");
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

/// A resource and its objects that remain in a namespace.
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
