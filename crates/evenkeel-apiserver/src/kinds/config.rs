//! Secret, ConfigMap, Namespace and Lease.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::field::FieldError;
use crate::meta::{NEGATIVE, config_key, qualified_name, refuse, too_long};

use super::check::{immutable, same};
use super::fill::{Constant::Text, Object, at, ensure, fill, list_at, text_at, zero};

/// The size limit of all values of a Secret or a ConfigMap.
const MAX_DATA_BYTES: usize = 1024 * 1024;
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
const NAMESPACE_FINALIZER: &str = "kubernetes";
const FROZEN: &str = "field is immutable when `immutable` is set";

/// Moves the write-only `stringData` to `data`.
pub(super) fn default_secret(object: &mut Object) {
    fill(object, &[zero("type", Text("Opaque"))]);
    let Some(Value::Object(plain)) = object.remove("stringData") else {
        return;
    };
    if plain.is_empty() {
        return;
    }
    if let Some(data) = ensure(object, "data") {
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
}

/// Sets the label by which a namespace is selected by its name (NS-2).
pub(super) fn default_namespace(object: &mut Object) {
    ensure(object, "spec");
    if let Some(status) = ensure(object, "status") {
        fill(status, &[zero("phase", Text("Active"))]);
    }
    label_namespace(object);
}

fn label_namespace(object: &mut Object) {
    let Some(metadata) = ensure(object, "metadata") else {
        return;
    };
    let Some(name) = metadata.get("name").filter(|name| name.as_str() != Some("")).cloned() else {
        return;
    };
    if let Some(labels) = ensure(metadata, "labels") {
        labels.insert(NAMESPACE_LABEL.into(), name);
    }
}

pub(super) fn prepare_namespace(object: &mut Object) {
    object.insert("status".into(), json!({"phase": "Active"}));
    // The name may have been generated after defaulting.
    label_namespace(object);
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    match spec.get_mut("finalizers").and_then(Value::as_array_mut) {
        Some(finalizers) if finalizers.iter().any(|each| each == NAMESPACE_FINALIZER) => {}
        Some(finalizers) => finalizers.push(NAMESPACE_FINALIZER.into()),
        None => {
            spec.insert("finalizers".into(), json!([NAMESPACE_FINALIZER]));
        }
    }
}

/// Keeps the finalizers of a namespace's specification, which change through `finalize` only.
pub(super) fn prepare_namespace_update(new: &mut Object, old: &Value) {
    label_namespace(new);
    let Some(spec) = ensure(new, "spec") else { return };
    match at(old, &["spec", "finalizers"]) {
        Some(finalizers) => {
            spec.insert("finalizers".into(), finalizers.clone());
        }
        None => {
            spec.remove("finalizers");
        }
    }
}

pub(super) fn validate_namespace(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in list_at(object, &["spec", "finalizers"]) {
        let finalizer = finalizer.as_str().unwrap_or_default();
        refuse(&mut errors, "spec.finalizers", finalizer, qualified_name(finalizer));
        if !super::is_standard_or_qualified(finalizer) {
            errors.push(FieldError::invalid(
                "spec.finalizers",
                &Value::from(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    errors
}

pub(super) fn validate_config_map(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let binary = object.get("binaryData").and_then(Value::as_object);
    let mut size = 0;
    for (key, value) in object.get("data").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("data[{key}]");
        refuse(&mut errors, &path, key, config_key(key));
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(path, &Value::from(key.as_str()), detail));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.into_iter().flatten() {
        refuse(&mut errors, format_args!("binaryData[{key}]"), key, config_key(key));
        size += decoded_length(value);
    }
    if size > MAX_DATA_BYTES {
        errors.push(too_long("[]", MAX_DATA_BYTES));
    }
    errors
}

pub(super) fn validate_config_map_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_immutable(new, old, &["data", "binaryData"]);
    errors.extend(validate_config_map(new));
    errors
}

pub(super) fn validate_secret(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Object::new();
    let data = object.get("data").and_then(Value::as_object).unwrap_or(&nothing);
    let mut size = 0;
    for (key, value) in data {
        refuse(&mut errors, format_args!("data[{key}]"), key, config_key(key));
        size += decoded_length(value);
    }
    if size > MAX_DATA_BYTES {
        errors.push(too_long("data", MAX_DATA_BYTES));
    }
    let mut require = |key: &str| {
        if !data.contains_key(key) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match text_at(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if text_at(object, &["metadata", "annotations", key]).is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => require(".dockercfg"),
        "kubernetes.io/dockerconfigjson" => require(".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" => require("ssh-privatekey"),
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        _ => {}
    }
    errors
}

pub(super) fn validate_secret_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    immutable(&mut errors, new, old, &["type"]);
    errors.extend(check_immutable(new, old, &["data"]));
    errors.extend(validate_secret(new));
    errors
}

/// Requires that an object marked immutable neither changes nor becomes mutable again.
fn check_immutable(new: &Value, old: &Value, keys: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let marked = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    if !marked(old) {
        return errors;
    }
    if !marked(new) {
        errors.push(FieldError::forbidden("immutable", FROZEN));
    }
    for key in keys {
        if !same(new.get(key), old.get(key)) {
            errors.push(FieldError::forbidden(*key, FROZEN));
        }
    }
    errors
}

pub(super) fn validate_lease(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let number = |key| at(object, &["spec", key]).filter(|value| value.is_i64());
    if let Some(value) = number("leaseDurationSeconds")
        && value.as_i64().is_some_and(|seconds| seconds <= 0)
    {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", value, "must be greater than 0"));
    }
    if let Some(value) = number("leaseTransitions")
        && value.as_i64().is_some_and(|count| count < 0)
    {
        errors.push(FieldError::invalid("spec.leaseTransitions", value, NEGATIVE));
    }
    if !text_at(object, &["spec", "preferredHolder"]).is_empty() && text_at(object, &["spec", "strategy"]).is_empty() {
        errors.push(FieldError::forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"));
    }
    errors
}

/// Returns the number of bytes that a base64 text encodes.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}
