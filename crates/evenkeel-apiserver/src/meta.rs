//! The rules of `metadata` for all kinds.
//!
//! All functions are pure. Paths in errors start at `metadata`. Errors are in the order of kube-apiserver; where that is
//! the order of a Go map, they are sorted by key.

mod names;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

pub(crate) use names::{
    config_key, dns_1035_label, dns_label, dns_subdomain, label_value, path_segment, qualified_name, validate_name,
    wildcard_subdomain,
};

use crate::field::{FieldError, FieldFault, MAX_ERRORS, is_full};
use crate::registry::NameRule;

/// The limit of the total size of annotations.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
/// The limit of a generated name including its suffix.
const GENERATED_NAME_MAX: usize = 63;
const SUFFIX_LENGTH: usize = 5;
/// The alphabet of suffixes: without vowels and similar characters, so that no suffix is a word.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const IMMUTABLE: &str = "field is immutable";
/// The message for a negative number.
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";

/// Returns `generateName` with a random suffix (OBJ-5). `random` returns 64 random bits per call.
pub(crate) fn generate_name(prefix: &str, mut random: impl FnMut() -> u64) -> String {
    let mut end = prefix.len().min(GENERATED_NAME_MAX - SUFFIX_LENGTH);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = String::with_capacity(end + SUFFIX_LENGTH);
    name.push_str(prefix.get(..end).unwrap_or_default());
    let mut bits = random();
    for _ in 0..SUFFIX_LENGTH {
        let count = SUFFIX_ALPHABET.len() as u64;
        let index = usize::try_from(bits % count).unwrap_or_default();
        name.push(char::from(SUFFIX_ALPHABET.get(index).copied().unwrap_or(b'b')));
        bits /= count;
    }
    name
}

/// Validates the metadata of a new object, after its name is generated (OBJ-6, OBJ-10).
pub(crate) fn validate_object_meta(meta: &Value, rule: NameRule, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        refuse(&mut errors, "metadata.generateName", generate_name, validate_name(rule, generate_name, true));
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        refuse(&mut errors, "metadata.name", name, validate_name(rule, name, false));
    }
    let namespace = text(meta, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required("metadata.namespace", "")),
        (true, false) => refuse(&mut errors, "metadata.namespace", namespace, dns_label(namespace)),
        (false, true) => {}
        (false, false) => errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type")),
    }
    nonnegative(&mut errors, meta, "generation");
    validate_maps_and_references(meta, &mut errors);
    validate_finalizers(meta, &mut errors);
    errors
}

/// Validates the metadata of an update against the stored object (UPD-7, UPD-8). Call [`inherit_metadata`] first: the
/// fields that it restores are no errors. Does not check the resource version, whose rules depend on the kind.
pub(crate) fn validate_object_meta_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if present(old, "deletionTimestamp").is_some() {
        validate_no_new_finalizers(new, old, &mut errors);
    }
    nonnegative(&mut errors, new, "generation");
    if number(new, "generation") < number(old, "generation") {
        let generation = Value::from(number(new, "generation"));
        errors.push(FieldError::invalid("metadata.generation", &generation, "must not be decremented"));
    }
    for key in ["name", "namespace", "uid"] {
        if text(new, key) != text(old, key) {
            let value = Value::from(text(new, key));
            errors.push(FieldError::invalid(format!("metadata.{key}"), &value, IMMUTABLE));
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if present(new, key) != present(old, key) {
            let value = present(new, key).unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(format!("metadata.{key}"), value, IMMUTABLE));
        }
    }
    validate_maps_and_references(new, &mut errors);
    validate_finalizers(new, &mut errors);
    errors
}

/// Copies from the stored object what a client may omit or cannot change (UPD-7): the uid if absent, the creation time,
/// the generation, and the deletion timestamp and grace period.
pub(crate) fn inherit_metadata(new: &mut Value, old: &Value) {
    let Some(new) = new.as_object_mut() else { return };
    copy(new, old, "generation");
    if new.get("uid").and_then(Value::as_str).is_none_or(str::is_empty) {
        copy(new, old, "uid");
    }
    if present(old, "creationTimestamp").is_some() {
        copy(new, old, "creationTimestamp");
    }
    if present(old, "deletionTimestamp").is_some() {
        copy(new, old, "deletionTimestamp");
    }
    if new.get("deletionGracePeriodSeconds").is_none_or(Value::is_null) {
        copy(new, old, "deletionGracePeriodSeconds");
    }
}

/// Removes duplicate owner references (OBJ-11). Returns the text of a `Warning` header if there were any.
pub(crate) fn dedup_owner_references(meta: &mut Value) -> Option<String> {
    let references = meta.get_mut("ownerReferences")?.as_array_mut().filter(|references| references.len() > 1)?;
    let mut seen: HashSet<String> = HashSet::with_capacity(references.len());
    let mut duplicates: Vec<String> = Vec::new();
    references.retain(|reference| {
        let first = seen.insert(reference.to_string());
        if !first && duplicates.len() < MAX_ERRORS {
            duplicates.push(text(reference, "uid").to_owned());
        }
        first
    });
    (!duplicates.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    })
}

/// Validates label keys and values; `path` is that of the map.
pub(crate) fn validate_labels(labels: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if is_full(errors) {
            return;
        }
        refuse(errors, path, key, qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        refuse(errors, path, value, label_value(value));
    }
}

/// Validates annotation keys and the total size; `path` is that of the map.
pub(crate) fn validate_annotations(annotations: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(annotations) = annotations.and_then(Value::as_object) else {
        return;
    };
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        refuse(errors, path, key, qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.push(too_long(path, ANNOTATIONS_MAX_BYTES));
    }
}

/// Returns the error for a value with too many bytes. The message does not repeat the value.
pub(crate) fn too_long(path: &str, max: usize) -> FieldError {
    FieldError {
        fault: FieldFault::TooLong,
        field: path.to_owned(),
        value: None,
        detail: format!("may not be more than {max} bytes"),
    }
}

/// Adds one error for each fault of `value`, up to the limit of errors.
pub(crate) fn refuse(errors: &mut Vec<FieldError>, path: impl fmt::Display, value: &str, faults: Vec<String>) {
    for fault in faults {
        if is_full(errors) {
            return;
        }
        errors.push(FieldError::invalid(path.to_string(), &Value::from(value), fault));
    }
}

fn validate_maps_and_references(meta: &Value, errors: &mut Vec<FieldError>) {
    validate_labels(meta.get("labels"), "metadata.labels", errors);
    validate_annotations(meta.get("annotations"), "metadata.annotations", errors);
    validate_owner_references(meta, errors);
}

fn validate_owner_references(meta: &Value, errors: &mut Vec<FieldError>) {
    let Some(references) = meta.get("ownerReferences").and_then(Value::as_array) else {
        return;
    };
    let mut controller = None;
    let mut several = false;
    for (index, reference) in references.iter().enumerate() {
        if is_full(errors) {
            return;
        }
        let path = format_args!("metadata.ownerReferences[{index}]");
        let api_version = text(reference, "apiVersion");
        let kind = text(reference, "kind");
        if api_version.is_empty() {
            errors.push(FieldError::required(format!("{path}.apiVersion"), "must not be empty"));
        } else if !is_group_version(api_version) {
            errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                &Value::from(api_version),
                "must be <group>/<version> or <version>",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(reference, key).is_empty() {
                errors.push(FieldError::required(format!("{path}.{key}"), "must not be empty"));
            }
        }
        if api_version == "v1" && kind == "Event" {
            errors.push(FieldError::invalid(
                path.to_string(),
                reference,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if reference.get("controller") == Some(&Value::Bool(true)) {
            let name = text(reference, "name");
            match controller {
                None => controller = Some((kind, name)),
                // The error repeats the whole list, so it is reported once.
                Some(_) if several => {}
                Some((first_kind, first_name)) => {
                    several = true;
                    errors.push(FieldError::invalid(
                        "metadata.ownerReferences",
                        &Value::from(references.clone()),
                        format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for \
                             {first_kind}/{first_name} and {kind}/{name}"
                        ),
                    ));
                }
            }
        }
    }
}

fn validate_finalizers(meta: &Value, errors: &mut Vec<FieldError>) {
    let mut orphan = false;
    let mut foreground = false;
    for finalizer in texts(meta, "finalizers") {
        refuse(errors, "metadata.finalizers", finalizer, qualified_name(finalizer));
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            meta.get("finalizers").unwrap_or(&Value::Null),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn validate_no_new_finalizers(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let known: HashSet<&str> = texts(old, "finalizers").collect();
    let mut added: Vec<&str> = texts(new, "finalizers").filter(|finalizer| !known.contains(finalizer)).collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    let mut listed = String::new();
    for (index, finalizer) in added.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(listed, "{separator}{finalizer:?}");
    }
    errors.push(FieldError::forbidden(
        "metadata.finalizers",
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        ),
    ));
}

fn nonnegative(errors: &mut Vec<FieldError>, meta: &Value, key: &str) {
    let value = number(meta, key);
    if value < 0 {
        errors.push(FieldError::invalid(format!("metadata.{key}"), &Value::from(value), NEGATIVE));
    }
}

/// Parses `version` or `group/version`.
fn is_group_version(api_version: &str) -> bool {
    match api_version.split_once('/') {
        None => true,
        Some((_, version)) => !version.is_empty() && !version.contains('/'),
    }
}

fn copy(new: &mut Map<String, Value>, old: &Value, key: &str) {
    match present(old, key) {
        Some(value) => {
            new.insert(key.to_owned(), value.clone());
        }
        None => {
            new.remove(key);
        }
    }
}

/// Returns the field unless it is absent or null.
fn present<'a>(meta: &'a Value, key: &str) -> Option<&'a Value> {
    meta.get(key).filter(|value| !value.is_null())
}

fn text<'a>(meta: &'a Value, key: &str) -> &'a str {
    meta.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(meta: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    meta.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn number(meta: &Value, key: &str) -> i64 {
    meta.get(key).and_then(Value::as_i64).unwrap_or_default()
}
