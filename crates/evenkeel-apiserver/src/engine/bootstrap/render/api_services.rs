//! The APIServices of the built-in groups.

use serde_json::Value;

use crate::engine::bootstrap::api_services::api_service;

/// The label of what the server writes at its start.
const AT_START: &str = "onstart";

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
