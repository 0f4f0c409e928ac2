//! The rules of built-in kinds: defaults, additions on create, fields kept on update, and validation.
//!
//! Everything here is pure and works on the object as JSON, in the version of the request. Kinds without rules pass
//! unchanged: what is not checked is accepted. The generic code (metadata, status sub-resources, generation counting)
//! is elsewhere and calls these hooks in this order:
//!
//! - create: [`default_object`], [`prepare_create`], (for a Service [`assign_service_addresses`]),
//!   [`validate_create`];
//! - update: [`default_object`], [`prepare_update`], (the same for a Service), [`validate_update`],
//!   [`generation_changes`].

mod autoscaler;
mod batch;
mod check;
mod cidr;
mod config;
mod convert;
mod cron;
mod devices;
mod events;
mod fill;
mod flow_control;
mod ingress;
mod network;
mod network_policy;
mod pod;
mod pod_warnings;
mod podcheck;
mod podspec;
mod policy;
mod rbac;
mod services;
mod storage;
mod storage_warnings;
#[cfg(test)]
mod tests;
pub(crate) mod warnings;
pub(crate) mod webhook_configurations;
mod workloads;

use serde_json::{Value, json};

pub(crate) use check::{same_value, selector_matches};
pub(crate) use convert::convert;
pub(crate) use pod::{pod_grace_period, validate_ephemeral_containers_update};
pub(crate) use services::{ServiceAllocations, assign_service_addresses};

use crate::field::FieldError;
use check::{nonnegative, same};
use fill::{Object, at, ensure, list_at};

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHORIZATION: &str = "rbac.authorization.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// Sets the defaults of omitted fields (OBJ-14). Applied to every write, through every version.
pub(crate) fn default_object(group: &str, version: &str, kind: &str, object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match (group, kind) {
        ("", "Pod") => {
            if let Some(spec) = ensure(object, "spec") {
                podspec::default_spec(spec);
                podspec::default_pod(spec);
            }
            pod::default_status(object);
        }
        ("", "PodTemplate") => podspec::default_template(object, "template"),
        ("", "ReplicationController") => workloads::default_replication_controller(object),
        ("", "Service") => services::default_service(object),
        ("", "Endpoints") => network::default_endpoints(object),
        ("", "Secret") => config::default_secret(object),
        ("", "Namespace") => config::default_namespace(object),
        ("" | "events.k8s.io", "Event") => events::default_event(object, group),
        ("", "PersistentVolume") => storage::default_volume(object),
        ("", "PersistentVolumeClaim") => storage::default_claim(object),
        ("", "LimitRange") => policy::default_limit_range(object),
        ("", "Node") => policy::default_node(object),
        ("apps", "Deployment") => workloads::default_deployment(object),
        ("apps", "ReplicaSet") => workloads::default_replica_set(object),
        ("apps", "StatefulSet") => workloads::default_stateful_set(object),
        ("apps", "DaemonSet") => workloads::default_daemon_set(object),
        ("batch", "Job") => batch::default_job(object),
        ("batch", "CronJob") => batch::default_cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::default_autoscaler(object, version),
        (NETWORKING, "Ingress") => network::default_ingress(object),
        (NETWORKING, "IngressClass") => network::default_ingress_class(object),
        (NETWORKING, "NetworkPolicy") => network::default_network_policy(object),
        (DISCOVERY, "EndpointSlice") => network::default_endpoint_slice(object),
        (AUTHORIZATION, "Role" | "ClusterRole") => rbac::default_role(object),
        (AUTHORIZATION, "RoleBinding" | "ClusterRoleBinding") => rbac::default_binding(object),
        (STORAGE, "StorageClass") => storage::default_storage_class(object),
        (STORAGE, "CSIDriver") => storage::default_csi_driver(object),
        ("scheduling.k8s.io", "PriorityClass") => policy::default_priority_class(object),
        ("apiregistration.k8s.io", "APIService") => policy::default_api_service(object),
        ("resource.k8s.io", "ResourceClaim") => devices::default_claim(object),
        ("resource.k8s.io", "ResourceClaimTemplate") => devices::default_claim_template(object),
        (ADMISSION, "MutatingWebhookConfiguration") => policy::default_webhooks(object, true),
        (ADMISSION, "ValidatingWebhookConfiguration") => policy::default_webhooks(object, false),
        (ADMISSION, "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
            policy::default_admission_policy(object);
        }
        (ADMISSION, "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding") => {
            policy::default_admission_binding(object);
        }
        (FLOW_CONTROL, "FlowSchema") => policy::default_flow_schema(object),
        (FLOW_CONTROL, "PriorityLevelConfiguration") => policy::default_priority_level(object),
        ("coordination.k8s.io", "Lease")
        | ("policy", "PodDisruptionBudget")
        | ("", "ResourceQuota")
        | ("certificates.k8s.io", "CertificateSigningRequest") => {
            ensure(object, "spec");
        }
        _ => {}
    }
    if let Some(status) = shown_status(group, version, kind)
        && let Some(shown) = ensure(object, "status")
        && let Value::Object(zeros) = status
    {
        for (key, value) in zeros {
            shown.entry(key).or_insert(value);
        }
    }
}

/// Adds the server's fields to a new object, and its initial status. The name and the uid are already set.
pub(crate) fn prepare_create(group: &str, version: &str, kind: &str, object: &mut Value, uid: &str) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match (group, kind) {
        ("", "Pod") => pod::prepare_create(object),
        ("", "Namespace") => config::prepare_namespace(object),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            object.insert("status".into(), json!({"phase": "Pending"}));
        }
        // A kubelet registers its node together with its status.
        ("", "Node") => {}
        ("batch", "Job") => {
            batch::generate_selector(object, uid);
            batch::default_job_labels(object);
            object.insert("status".into(), json!({}));
        }
        _ => {
            if let Some(status) = shown_status(group, version, kind) {
                object.insert("status".into(), status);
            }
        }
    }
}

/// Copies the fields that an update keeps from the stored object. The caller handles the status.
pub(crate) fn prepare_update(group: &str, kind: &str, new: &mut Value, old: &Value) {
    let Some(new) = new.as_object_mut() else { return };
    match (group, kind) {
        ("", "Service") => services::prepare_update(new, old),
        ("", "Namespace") => config::prepare_namespace_update(new, old),
        ("batch", "Job") => batch::default_job_labels(new),
        _ => {}
    }
}

/// Returns whether new objects of a kind that tracks its generation start with one. CSIDrivers get theirs with their
/// first change (SUB-9).
pub(crate) fn has_first_generation(group: &str, kind: &str) -> bool {
    (group, kind) != ("storage.k8s.io", "CSIDriver")
}

/// Returns whether an update increments `metadata.generation` (SUB-9, SUB-10), for kinds that track it.
pub(crate) fn generation_changes(group: &str, kind: &str, new: &Value, old: &Value) -> bool {
    let metadata_changes = |key| !same(at(new, &["metadata", key]), at(old, &["metadata", key]));
    match (group, kind) {
        // All its fields are immutable.
        ("scheduling.k8s.io", "PriorityClass") => false,
        ("apps", "Deployment") => content_changes(new, old, true) || metadata_changes("annotations"),
        (DISCOVERY, "EndpointSlice") => content_changes(new, old, true) || metadata_changes("labels"),
        _ => content_changes(new, old, true),
    }
}

/// Returns whether anything besides `apiVersion`, `kind` and `metadata` differs, optionally also without `status`.
pub(crate) fn content_changes(new: &Value, old: &Value, leave_out_status: bool) -> bool {
    let nothing = Object::new();
    let new = new.as_object().unwrap_or(&nothing);
    let old = old.as_object().unwrap_or(&nothing);
    let counts = |key: &str| match key {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !leave_out_status,
        _ => true,
    };
    let differs = |(key, value): (&String, &Value)| counts(key) && !same(Some(value), old.get(key));
    new.iter().any(differs)
        || old.iter().any(|(key, value)| counts(key) && !new.contains_key(key) && !same(Some(value), None))
}

/// Validates a new object except for its metadata (OBJ-15).
pub(crate) fn validate_create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = validate_finalizers(group, object);
    errors.extend(match (group, kind) {
        ("", "Pod") => pod::validate_create(object),
        ("", "PodTemplate") => {
            let mut errors = Vec::new();
            podcheck::template(&mut errors, object.get("template"), "template", &[]);
            errors
        }
        ("", "ReplicationController") => workloads::validate_replication_controller(object),
        ("", "Service") => services::validate(object),
        ("", "ConfigMap") => config::validate_config_map(object),
        ("", "Secret") => config::validate_secret(object),
        ("", "Namespace") => config::validate_namespace(object),
        ("" | "events.k8s.io", "Event") => events::validate_create(object, group),
        ("", "PersistentVolumeClaim") => storage::validate_claim(object),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => workloads::validate(kind, object),
        ("batch", "Job") => batch::validate_job(object),
        ("batch", "CronJob") => batch::validate_cron_job(object, None),
        ("coordination.k8s.io", "Lease") => config::validate_lease(object),
        (AUTHORIZATION, "Role") => rbac::validate_role(object, true),
        (AUTHORIZATION, "ClusterRole") => rbac::validate_role(object, false),
        (AUTHORIZATION, "RoleBinding") => rbac::validate_binding(object, true),
        (AUTHORIZATION, "ClusterRoleBinding") => rbac::validate_binding(object, false),
        ("autoscaling", "Scale") => validate_scale(object),
        (ADMISSION, "MutatingWebhookConfiguration") => webhook_configurations::validate(object, true),
        (ADMISSION, "ValidatingWebhookConfiguration") => webhook_configurations::validate(object, false),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::validate(object),
        (NETWORKING, "Ingress") => ingress::validate_create(object),
        (NETWORKING, "NetworkPolicy") => network_policy::validate(object, None),
        (FLOW_CONTROL, "FlowSchema") => flow_control::validate_flow_schema(object),
        (FLOW_CONTROL, "PriorityLevelConfiguration") => flow_control::validate_priority_level(object),
        _ => Vec::new(),
    });
    errors
}

/// Validates an update except for its metadata (OBJ-15): the requirements of a new object, and immutable fields.
pub(crate) fn validate_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let specific = match (group, kind) {
        ("", "Pod") => pod::validate_update(new, old),
        ("", "Service") => services::validate_update(new, old),
        ("", "ConfigMap") => config::validate_config_map_update(new, old),
        ("", "Secret") => config::validate_secret_update(new, old),
        ("" | "events.k8s.io", "Event") => events::validate_update(new, old, group),
        ("", "PersistentVolumeClaim") => storage::validate_claim_update(new, old),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workloads::validate_update(kind, new, old)
        }
        ("batch", "Job") => batch::validate_job_update(new, old),
        ("batch", "CronJob") => batch::validate_cron_job(new, Some(old)),
        (NETWORKING, "Ingress") => ingress::validate(new, Some(old)),
        (NETWORKING, "NetworkPolicy") => network_policy::validate(new, Some(old)),
        (AUTHORIZATION, "RoleBinding") => rbac::validate_binding_update(new, old, true),
        (AUTHORIZATION, "ClusterRoleBinding") => rbac::validate_binding_update(new, old, false),
        (STORAGE, "StorageClass") => storage::validate_storage_class_update(new, old),
        _ => return validate_create(group, kind, new),
    };
    let mut errors = validate_finalizers(group, new);
    errors.extend(specific);
    errors
}

fn validate_scale(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(spec) = object.get("spec") {
        nonnegative(&mut errors, spec, "spec", "replicas");
    }
    errors
}

/// Groups whose own validation requires well-known or fully qualified finalizers.
const STRICT_FINALIZERS: [&str; 7] = ["", "apps", "batch", "autoscaling", "policy", NETWORKING, STORAGE];

fn validate_finalizers(group: &str, object: &Value) -> Vec<FieldError> {
    if !STRICT_FINALIZERS.contains(&group) {
        return Vec::new();
    }
    let finalizers = list_at(object, &["metadata", "finalizers"]);
    let names = finalizers.iter().map(|name| name.as_str().unwrap_or_default());
    names
        .enumerate()
        .filter(|(_, name)| !is_standard_or_qualified(name))
        .map(|(index, name)| {
            FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                &Value::from(name),
                "name is neither a standard finalizer name nor is it fully qualified",
            )
        })
        .collect()
}

fn is_standard_or_qualified(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
}

/// Returns the initial status, in which counters that are always present are zero. `None` for kinds without a status.
fn shown_status(group: &str, version: &str, kind: &str) -> Option<Value> {
    Some(match (group, kind) {
        ("", "Service") | (NETWORKING, "Ingress") => json!({"loadBalancer": {}}),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"availableReplicas": 0, "replicas": 0}),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        }),
        ("autoscaling", "HorizontalPodAutoscaler") if version == "v1" => {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        }
        ("autoscaling", "HorizontalPodAutoscaler") => json!({"currentMetrics": null, "desiredReplicas": 0}),
        ("policy", "PodDisruptionBudget") => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        (STORAGE, "VolumeAttachment") => json!({"attached": false}),
        ("", "ResourceQuota" | "Pod" | "PersistentVolume" | "PersistentVolumeClaim" | "Namespace" | "Node")
        | ("apps", "Deployment")
        | ("batch", "Job" | "CronJob")
        | ("certificates.k8s.io", "CertificateSigningRequest" | "PodCertificateRequest")
        | (FLOW_CONTROL, "FlowSchema" | "PriorityLevelConfiguration")
        | (NETWORKING, "ServiceCIDR")
        | (ADMISSION, "ValidatingAdmissionPolicy")
        | ("resource.k8s.io", "ResourceClaim" | "DeviceTaintRule")
        | ("storagemigration.k8s.io", "StorageVersionMigration")
        | ("apiregistration.k8s.io", "APIService") => json!({}),
        _ => return None,
    })
}
