//! APIServices: one per served group version, all of them local. Those of custom resources come and go with their
//! definitions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::BootstrapObject;
use crate::engine::options::DeleteOptions;
use crate::engine::target::{Target, WriteScope};
use crate::engine::{ApiEngine, object};
use crate::store::{At, Record, Span, TEMPLATE_TIME};

const GROUP: &str = "apiregistration.k8s.io";
const TABLE: &str = "apiservices.apiregistration.k8s.io";
/// The label that says when the server writes an APIService: at its start, or whenever a definition changes.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const WITH_DEFINITION: &str = "true";

pub(super) fn api_service(
    group: &str,
    version: &str,
    managed: &str,
    group_priority: u32,
    version_priority: u32,
) -> Value {
    let mut spec =
        json!({"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority});
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
           "metadata": {"name": format!("{version}.{group}"), "labels": {MANAGED: managed}}, "spec": spec,
           "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local",
                      "message": "Local APIServices are always available", "lastTransitionTime": TEMPLATE_TIME}]}})
}

impl ApiEngine {
    /// Adds the APIServices of the custom versions of a group, and deletes those of versions that are no longer served.
    pub(in crate::engine) fn sync_api_services(&self, group: &str) {
        if !self.settings.bootstrap {
            return;
        }
        let registry = self.registry();
        let versions = registry.group(group).map_or(&[][..], |group| &group.versions[..]);
        let served: BTreeSet<String> = versions
            .iter()
            .filter(|version| !version.builtin)
            .map(|version| format!("{}.{group}", version.name))
            .collect();
        let is_withdrawn = |key: &str, record: &Record| {
            let of_group = key.split_once('.').is_some_and(|(_, of)| of == group);
            of_group && record.facts.label(MANAGED) == Some(WITH_DEFINITION) && !served.contains(key)
        };
        let withdrawn = self.store.list(TABLE, Span::default(), At::Latest, is_withdrawn);
        if let (Ok(withdrawn), Some(resource)) = (withdrawn, registry.lookup(GROUP, "v1", "apiservices")) {
            for record in withdrawn.records {
                let value = record.value();
                let name = object::text(&value, "name");
                let target = Target { resource, namespace: None, name, scope: WriteScope::Main };
                if let Err(error) = self.delete_object(target, &DeleteOptions::default(), None) {
                    tracing::debug!(name, %error, "APIService of a removed version not deleted");
                }
            }
        }
        let added = versions.iter().filter(|version| !version.builtin);
        let added = added.map(|version| api_service(group, &version.name, WITH_DEFINITION, 1000, 100));
        self.add_missing(&added.filter_map(BootstrapObject::new).collect::<Vec<_>>());
    }
}
