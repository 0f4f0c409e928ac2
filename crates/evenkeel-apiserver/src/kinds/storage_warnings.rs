//! Warnings about volumes and claims.

use serde_json::Value;

use super::fill::{at, list_at, text_at};
use super::pod_warnings::{fractional, node_selector_term};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const CLASS_MESSAGE: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";
const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const MOUNT_MESSAGE: &str = "deprecated since v1.31; use \"mountOptions\" attribute instead";
/// The deprecated plugins of a PersistentVolume, with the field in the warning.
const PLUGINS: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn annotation(warnings: &mut Vec<String>, object: &Value, key: &str, message: &str) {
    if at(object, &["metadata", "annotations"]).and_then(|annotations| annotations.get(key)).is_some() {
        warnings.push(format!("metadata.annotations[{key}]: {message}"));
    }
}

pub(super) fn claim(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    annotation(&mut warnings, claim, CLASS_ANNOTATION, CLASS_MESSAGE);
    if let Some(spec) = at(claim, &["spec"]) {
        claim_spec(&mut warnings, spec, "spec");
    }
    warnings
}

pub(super) fn claim_spec(warnings: &mut Vec<String>, spec: &Value, path: &str) {
    for kind in ["requests", "limits"] {
        let value = at(spec, &["resources", kind, "storage"]);
        fractional(warnings, value, format!("{path}.resources.{kind}[storage]"));
    }
}

pub(super) fn volume(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    annotation(&mut warnings, volume, CLASS_ANNOTATION, CLASS_MESSAGE);
    annotation(&mut warnings, volume, MOUNT_ANNOTATION, MOUNT_MESSAGE);
    if text_at(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let path = "spec.nodeAffinity.required.nodeSelectorTerms";
    let terms = list_at(volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(&mut warnings, term, false, &format!("{path}[{index}]"));
    }
    for (plugin, shown, message) in PLUGINS {
        if at(volume, &["spec", plugin]).is_some() {
            warnings.push(format!("spec.{shown}: {message}"));
        }
    }
    warnings
}
