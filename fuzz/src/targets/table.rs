//! Tables of objects (FUZ-19). The first byte selects the kind, the line after it has columns of a custom resource.

use evenkeel_apiserver::internals::{TableColumn, table_row};
use jiff::Timestamp;

use crate::budget::{TREE, within};
use crate::input::Input;

const KINDS: [(&str, &str); 40] = [
    ("example.com", "Widget"),
    ("", "Pod"),
    ("", "Service"),
    ("", "Node"),
    ("", "Event"),
    ("", "Endpoints"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "ConfigMap"),
    ("", "ReplicationController"),
    ("", "PodTemplate"),
    ("", "ComponentStatus"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ControllerRevision"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("policy", "PodDisruptionBudget"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("apiregistration.k8s.io", "APIService"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourceSlice"),
    ("", "NoSuchKind"),
];

/// The types of columns.
const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date"];

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let (group, kind) = input.choice(&KINDS);
    let columns = (kind == "Widget").then(|| columns(&input.text_line()));
    let object = input.json();
    let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
    let print = || table_row(group, kind, columns.as_deref(), &object, now);
    let (types, cells) = within(TREE, data.len(), print);
    assert_eq!(types.len(), cells.len(), "a cell for each column");
    for (kind, cell) in types.iter().zip(&cells) {
        let fits = match kind.as_str() {
            "integer" => cell.is_null() || cell.is_i64() || cell.is_u64(),
            "number" => cell.is_null() || cell.is_number(),
            // kube-apiserver prints `False` in columns of booleans, too.
            "boolean" => cell.is_null() || cell.is_boolean() || cell.is_string(),
            // As in kube-apiserver, columns of strings have counts of Deployments and the switches of StorageClasses.
            "string" => cell.is_null() || cell.is_string() || cell.is_number() || cell.is_boolean(),
            "date" => cell.is_null() || cell.is_string(),
            _ => cell.is_null(),
        };
        assert!(fits, "{cell} in a column of type {kind}");
    }
    assert_eq!(print(), (types, cells), "printed again");
}

/// Reads columns: a digit for the type, and the path up to the next semicolon.
fn columns(line: &str) -> Vec<TableColumn> {
    let column = |text: &str| {
        let mut characters = text.chars();
        let kind = characters.next()?.to_digit(10)? as usize;
        Some(TableColumn { kind: TYPES[kind % TYPES.len()].to_owned(), json_path: characters.as_str().to_owned() })
    };
    line.split(';').filter_map(column).take(8).collect()
}
