//! The columns of built-in kinds (TAB-5).

use super::cell::{Column, DEFAULT};
use super::{cluster, control, network, pods, storage, workloads};

/// Returns the columns of a kind, in all its versions.
pub(super) fn columns(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Pod") => pods::PODS,
        ("", "PodTemplate") => workloads::POD_TEMPLATE,
        ("", "ReplicationController") => workloads::REPLICATION_CONTROLLER,
        ("", "Service") => network::SERVICE,
        ("", "Endpoints") => network::ENDPOINTS,
        ("", "ComponentStatus") => cluster::COMPONENT_STATUS,
        ("", "Node") => cluster::NODE,
        ("", "Namespace") => cluster::NAMESPACE,
        ("", "Secret") => cluster::SECRET,
        ("", "ConfigMap") => cluster::CONFIG_MAP,
        ("", "ServiceAccount") => cluster::NAMED,
        ("", "PersistentVolume") => storage::VOLUME,
        ("", "PersistentVolumeClaim") => storage::CLAIM,
        ("", "ResourceQuota") => cluster::QUOTA,
        ("" | "events.k8s.io", "Event") => cluster::EVENT,
        ("apps", "Deployment") => workloads::DEPLOYMENT,
        ("apps", "ReplicaSet") => workloads::REPLICA_SET,
        ("apps", "StatefulSet") => workloads::STATEFUL_SET,
        ("apps", "DaemonSet") => workloads::DAEMON_SET,
        ("apps", "ControllerRevision") => workloads::CONTROLLER_REVISION,
        ("batch", "Job") => workloads::JOB,
        ("batch", "CronJob") => workloads::CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::AUTOSCALER,
        ("autoscaling", "Scale") => cluster::SCALE,
        ("policy", "PodDisruptionBudget") => workloads::DISRUPTION_BUDGET,
        ("networking.k8s.io", "Ingress") => network::INGRESS,
        ("networking.k8s.io", "IngressClass") => network::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => network::NETWORK_POLICY,
        ("networking.k8s.io", "ServiceCIDR") => network::SERVICE_CIDR,
        ("networking.k8s.io", "IPAddress") => network::IP_ADDRESS,
        ("discovery.k8s.io", "EndpointSlice") => network::ENDPOINT_SLICE,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => control::ROLE_BINDING,
        ("certificates.k8s.io", "CertificateSigningRequest") => control::SIGNING_REQUEST,
        ("certificates.k8s.io", "ClusterTrustBundle") => control::TRUST_BUNDLE,
        ("certificates.k8s.io", "PodCertificateRequest") => control::POD_CERTIFICATE,
        ("apiregistration.k8s.io", "APIService") => control::API_SERVICE,
        ("storagemigration.k8s.io", "StorageVersionMigration") => control::MIGRATION,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("coordination.k8s.io", "LeaseCandidate") => cluster::LEASE_CANDIDATE,
        ("storage.k8s.io", "StorageClass") => storage::STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::ATTRIBUTES_CLASS,
        ("storage.k8s.io", "VolumeAttachment") => storage::ATTACHMENT,
        ("storage.k8s.io", "CSINode") => storage::CSI_NODE,
        ("storage.k8s.io", "CSIDriver") => storage::CSI_DRIVER,
        ("storage.k8s.io", "CSIStorageCapacity") => storage::STORAGE_CAPACITY,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => cluster::RUNTIME_CLASS,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            control::WEBHOOKS
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => control::VALIDATING_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => control::MUTATING_POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding") => {
            control::POLICY_BINDING
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => control::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => control::PRIORITY_LEVEL,
        ("resource.k8s.io", "ResourceClaim") => workloads::RESOURCE_CLAIM,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => cluster::NAMED,
        ("resource.k8s.io", "DeviceTaintRule") => cluster::DEVICE_TAINT,
        ("resource.k8s.io", "ResourceSlice") => cluster::RESOURCE_SLICE,
        _ => DEFAULT,
    }
}
