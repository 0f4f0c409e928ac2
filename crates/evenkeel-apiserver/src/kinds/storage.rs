//! PersistentVolume, PersistentVolumeClaim, StorageClass and CSIDriver.

use serde_json::{Value, json};

use crate::field::FieldError;
use crate::meta::{dns_subdomain, refuse};

use super::check::{same, supported};
use super::fill::{
    Constant::{Bool, Text},
    DefaultRule, Object, absent, at, ensure, fill, is_empty, list_at, quantity, text_at, zero,
};
use super::podspec;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const PENDING: &[DefaultRule] = &[zero("phase", Text("Pending"))];
const VOLUME: &[DefaultRule] =
    &[zero("persistentVolumeReclaimPolicy", Text("Retain")), absent("volumeMode", Text("Filesystem"))];
const STORAGE_CLASS: &[DefaultRule] =
    &[absent("reclaimPolicy", Text("Delete")), absent("volumeBindingMode", Text("Immediate"))];
const CSI_DRIVER: &[DefaultRule] = &[
    absent("attachRequired", Bool(true)),
    absent("podInfoOnMount", Bool(false)),
    absent("storageCapacity", Bool(false)),
    absent("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
    absent("requiresRepublish", Bool(false)),
    absent("seLinuxMount", Bool(false)),
    absent("preventPodSchedulingIfMissing", Bool(false)),
];

pub(super) fn default_volume(object: &mut Object) {
    if let Some(status) = ensure(object, "status") {
        fill(status, PENDING);
    }
    if let Some(spec) = ensure(object, "spec") {
        fill(spec, VOLUME);
        podspec::default_volume_source(spec);
    }
}

pub(super) fn default_claim(object: &mut Object) {
    if let Some(status) = ensure(object, "status") {
        fill(status, PENDING);
    }
    if let Some(spec) = ensure(object, "spec") {
        podspec::default_claim_spec(spec);
    }
}

pub(super) fn default_storage_class(object: &mut Object) {
    fill(object, STORAGE_CLASS);
}

pub(super) fn default_csi_driver(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, CSI_DRIVER);
    if is_empty(spec.get("volumeLifecycleModes")) {
        spec.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
}

pub(super) fn validate_claim(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = json!({});
    let spec = object.get("spec").unwrap_or(&nothing);
    let modes = list_at(spec, &["accessModes"]);
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    for mode in modes {
        if !mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode)) {
            errors.push(FieldError::not_supported("spec.accessModes", mode, ACCESS_MODES));
        }
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.push(FieldError::forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes"));
    }
    match at(spec, &["resources", "requests", "storage"]) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(requested) if quantity(requested).is_some_and(|amount| amount.signum().is_le()) => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid("spec.resources[storage]", requested, detail));
        }
        Some(_) => {}
    }
    let class = text_at(spec, &["storageClassName"]);
    if !class.is_empty() {
        refuse(&mut errors, "spec.storageClassName", class, dns_subdomain(class));
    }
    supported(&mut errors, spec, "spec", "volumeMode", &["Block", "Filesystem"]);
    errors
}

/// Requires that a claim's specification is unchanged, except for its size, its class of attributes, and its volume.
pub(super) fn validate_claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_claim(new);
    let bound = !text_at(old, &["spec", "volumeName"]).is_empty();
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("resources");
            spec.remove("volumeAttributesClassName");
            if !bound {
                // The binder sets the volume's name, and possibly the class.
                spec.remove("volumeName");
                spec.remove("storageClassName");
            }
        }
        spec
    };
    if !same(Some(&fixed(new)), Some(&fixed(old))) {
        errors.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    errors
}

/// Requires that the parameters of a StorageClass are unchanged.
pub(super) fn validate_storage_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if same(new.get(key), old.get(key)) {
            continue;
        }
        if key == "volumeBindingMode" {
            super::check::immutable(&mut errors, new, old, &[key]);
        } else {
            let detail = match key {
                "reclaimPolicy" => "updates to reclaimPolicy are forbidden.",
                "provisioner" => "updates to provisioner are forbidden.",
                _ => "updates to parameters are forbidden.",
            };
            errors.push(FieldError::forbidden(key, detail));
        }
    }
    errors
}
