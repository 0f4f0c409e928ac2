//! The strategies of built-in kinds, as tables keyed by store (`pods`, `deployments.apps`).

use super::{KindStrategy, NameRule, SelectableField, StatusMetadata, UnknownField};
use crate::engine::strategies::{
    AccessReviewHooks, BindingHooks, BuiltinKind, CertificateSigningRequestHooks, ClusterRoleHooks, DaemonSetHooks,
    DefinitionHooks, JobHooks, KindHooks, MUTATING_BINDING_HOOKS, MUTATING_POLICY_HOOKS, NamespaceHooks, NodeHooks,
    PersistentVolumeHooks, PodHooks, RoleBindingHooks, RoleHooks, RulesReviewHooks, SelfSubjectReviewHooks,
    ServiceAccountHooks, ServiceHooks, TokenReviewHooks, UnenforcedHooks, VALIDATING_BINDING_HOOKS,
    VALIDATING_POLICY_HOOKS, WebhookConfigurationHooks,
};

/// The rules of names (OBJ-10) other than the default, a DNS subdomain.
const NAMES: &[(&str, NameRule)] = &[
    ("namespaces", NameRule::DnsLabel),
    ("services", NameRule::Dns1035Label),
    ("roles.rbac.authorization.k8s.io", NameRule::PathSegment),
    ("rolebindings.rbac.authorization.k8s.io", NameRule::PathSegment),
    ("clusterroles.rbac.authorization.k8s.io", NameRule::PathSegment),
    ("clusterrolebindings.rbac.authorization.k8s.io", NameRule::PathSegment),
    // The name of a signer with colons for slashes, and IP addresses, are not DNS names.
    ("clustertrustbundles.certificates.k8s.io", NameRule::PathSegment),
    ("ipaddresses.networking.k8s.io", NameRule::PathSegment),
    // The core group's is called `v1.`.
    ("apiservices.apiregistration.k8s.io", NameRule::PathSegment),
];

/// The kinds that track `metadata.generation` (SUB-9).
const TRACKS_GENERATION: &[&str] = &[
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
    "ingresses.networking.k8s.io",
    "ingressclasses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "endpointslices.discovery.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "csidrivers.storage.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
];

/// The kinds whose updates require a resource version (UPD-4).
const CONDITIONAL_UPDATE: &[&str] = &[
    "customresourcedefinitions.apiextensions.k8s.io",
    "leases.coordination.k8s.io",
    "poddisruptionbudgets.policy",
    "runtimeclasses.node.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "clustertrustbundles.certificates.k8s.io",
    "podcertificaterequests.certificates.k8s.io",
    "storageversionmigrations.storagemigration.k8s.io",
];

/// The kinds that a PUT creates (UPD-6).
const CREATE_ON_UPDATE: &[&str] = &[
    "leases.coordination.k8s.io",
    "endpoints",
    "events",
    "limitranges",
    "services",
    "runtimeclasses.node.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
];

/// The kinds whose DELETE returns the object (DEL-5).
const DELETE_RETURNS_OBJECT: &[&str] = &[
    "namespaces",
    "pods",
    "podtemplates",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "services",
    "serviceaccounts",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "devicetaintrules.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
];

/// The kinds whose status is written without the rest of the metadata, or without a part of it. Writes of the others
/// change labels, annotations, finalizers and owner references.
const STATUS_METADATA: &[(&str, StatusMetadata)] = &[
    ("deployments.apps", StatusMetadata::WrittenButLabels),
    ("pods", StatusMetadata::WrittenButOwners),
    ("apiservices.apiregistration.k8s.io", StatusMetadata::Kept),
    ("devicetaintrules.resource.k8s.io", StatusMetadata::Kept),
    ("flowschemas.flowcontrol.apiserver.k8s.io", StatusMetadata::Kept),
    ("podcertificaterequests.certificates.k8s.io", StatusMetadata::Kept),
    ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", StatusMetadata::Kept),
    ("resourceclaims.resource.k8s.io", StatusMetadata::Kept),
    ("servicecidrs.networking.k8s.io", StatusMetadata::Kept),
    ("storageversionmigrations.storagemigration.k8s.io", StatusMetadata::Kept),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", StatusMetadata::Kept),
    ("volumeattachments.storage.k8s.io", StatusMetadata::Kept),
];

/// The kinds whose dependents are orphaned by default (DEL-12).
const ORPHANS_BY_DEFAULT: &[&str] = &["jobs.batch", "replicationcontrollers"];

/// The labels of field selectors (SEL-3). A label is the path of its field unless [`path_of`] maps it. Kinds listed here
/// refuse other labels with a message of their own (SEL-4).
const SELECTABLE: &[(&str, &[&str])] = &[
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("nodes", &["spec.unschedulable"]),
    ("namespaces", &["status.phase"]),
    ("secrets", &["type"]),
    ("services", &["spec.clusterIP", "spec.type"]),
    ("replicationcontrollers", &["status.replicas"]),
    ("jobs.batch", &["status.successful"]),
    ("certificatesigningrequests.certificates.k8s.io", &["spec.signerName"]),
    ("clustertrustbundles.certificates.k8s.io", &["spec.signerName"]),
    ("podcertificaterequests.certificates.k8s.io", &["spec.signerName", "spec.podName", "spec.nodeName"]),
    ("resourceslices.resource.k8s.io", &["spec.nodeName", "spec.driver", "spec.pool.name"]),
];

/// The two groups of events share a store, but not the names of their fields. Shared fields have the same position,
/// because the store keeps the values by position.
const CORE_EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source",
];
const EVENTS_GROUP_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Returns the path of a label.
fn path_of(label: &str) -> &str {
    match label {
        "spec.host" => "spec.nodeName",
        "source" => "source.component",
        "status.successful" => "status.succeeded",
        label => label,
    }
}

/// The kinds that add functions of their own to the verbs.
const HOOKS: &[(&str, &dyn KindHooks)] = &[
    ("namespaces", &NamespaceHooks),
    ("serviceaccounts", &ServiceAccountHooks),
    ("pods", &PodHooks),
    ("bindings", &BindingHooks),
    ("services", &ServiceHooks),
    ("jobs.batch", &JobHooks),
    ("daemonsets.apps", &DaemonSetHooks),
    ("nodes", &NodeHooks),
    ("persistentvolumes", &PersistentVolumeHooks),
    ("certificatesigningrequests.certificates.k8s.io", &CertificateSigningRequestHooks),
    ("customresourcedefinitions.apiextensions.k8s.io", &DefinitionHooks),
    ("roles.rbac.authorization.k8s.io", &RoleHooks),
    ("rolebindings.rbac.authorization.k8s.io", &RoleBindingHooks),
    ("clusterroles.rbac.authorization.k8s.io", &ClusterRoleHooks),
    ("clusterrolebindings.rbac.authorization.k8s.io", &RoleBindingHooks),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", &VALIDATING_POLICY_HOOKS),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", &VALIDATING_BINDING_HOOKS),
    ("mutatingadmissionpolicies.admissionregistration.k8s.io", &MUTATING_POLICY_HOOKS),
    ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", &MUTATING_BINDING_HOOKS),
    ("tokenreviews.authentication.k8s.io", &TokenReviewHooks),
    ("selfsubjectreviews.authentication.k8s.io", &SelfSubjectReviewHooks),
    ("subjectaccessreviews.authorization.k8s.io", &AccessReviewHooks),
    ("localsubjectaccessreviews.authorization.k8s.io", &AccessReviewHooks),
    ("selfsubjectaccessreviews.authorization.k8s.io", &AccessReviewHooks),
    ("selfsubjectrulesreviews.authorization.k8s.io", &RulesReviewHooks),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", &WebhookConfigurationHooks),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", &WebhookConfigurationHooks),
];

/// The kinds that kube-apiserver itself acts upon and this server does not. Kinds that controllers, kubelets or network
/// plugins act upon are not listed.
const UNENFORCED: &[&str] = &[
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "ipaddresses.networking.k8s.io",
    "servicecidrs.networking.k8s.io",
];

/// Returns every store that a table names; each must be served.
#[cfg(test)]
pub(super) fn named_stores() -> impl Iterator<Item = &'static str> {
    let keyed = NAMES.iter().map(|(key, _)| *key);
    let keyed = keyed.chain(SELECTABLE.iter().map(|(key, _)| *key)).chain(HOOKS.iter().map(|(key, _)| *key));
    let keyed = keyed.chain(STATUS_METADATA.iter().map(|(key, _)| *key));
    [TRACKS_GENERATION, CONDITIONAL_UPDATE, CREATE_ON_UPDATE, DELETE_RETURNS_OBJECT, ORPHANS_BY_DEFAULT, UNENFORCED]
        .into_iter()
        .flatten()
        .copied()
        .chain(keyed)
}

/// Returns the strategy of a built-in resource; `storage` is its [`super::storage_key`].
pub(super) fn of(group: &str, storage: &str, has_status: bool) -> KindStrategy {
    let labels = match (group, storage) {
        ("", "events") => Some(CORE_EVENT_FIELDS),
        (_, "events") => Some(EVENTS_GROUP_FIELDS),
        _ => find(SELECTABLE, storage),
    };
    KindStrategy {
        names: find(NAMES, storage).unwrap_or_default(),
        tracks_generation: TRACKS_GENERATION.contains(&storage),
        unconditional_update: !CONDITIONAL_UPDATE.contains(&storage),
        create_on_update: CREATE_ON_UPDATE.contains(&storage),
        delete_returns_object: DELETE_RETURNS_OBJECT.contains(&storage),
        orphans_by_default: ORPHANS_BY_DEFAULT.contains(&storage),
        has_status,
        status_metadata: find(STATUS_METADATA, storage).unwrap_or(StatusMetadata::Written),
        ignores_propagation: storage == "events",
        hooks: find(HOOKS, storage).unwrap_or(if UNENFORCED.contains(&storage) {
            &UnenforcedHooks
        } else {
            &BuiltinKind
        }),
        unknown_field: match (storage, labels) {
            ("jobs.batch", _) => UnknownField::NotSupportedForKind,
            (_, Some(_)) => UnknownField::NotSupported,
            (_, None) => UnknownField::OnlyMetadata,
        },
        selectable: labels
            .unwrap_or_default()
            .iter()
            .map(|label| SelectableField {
                label: (*label).to_owned(),
                path: path_of(label).split('.').map(str::to_owned).collect(),
            })
            .collect(),
    }
}

fn find<T: Copy>(table: &[(&str, T)], storage: &str) -> Option<T> {
    table.iter().find(|(key, _)| *key == storage).map(|(_, value)| *value)
}
