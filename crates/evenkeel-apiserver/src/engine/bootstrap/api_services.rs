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
const AT_START: &str = "onstart";
const WITH_DEFINITION: &str = "true";

/// The priorities of groups and of their versions, by which discovery is sorted.
const PRIORITIES: &[(&str, &str, u32, u32)] = &[
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("storagemigration.k8s.io", "v1", 15_800, 15),
];

/// The APIServices of the built-in groups. `apiregistration.k8s.io` has none.
pub(super) fn builtin() -> impl Iterator<Item = Value> {
    PRIORITIES.iter().map(|(group, version, group_priority, version_priority)| {
        api_service(group, version, AT_START, *group_priority, *version_priority)
    })
}

fn api_service(group: &str, version: &str, managed: &str, group_priority: u32, version_priority: u32) -> Value {
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
