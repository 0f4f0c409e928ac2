//! Admission of definitions: defaults, validation, and the maintenance of `status.storedVersions` (CRD-1, CRD-14).

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};

use super::conditions::{approval_fault, is_established};
use super::names::{label_fault, subdomain_fault};
use super::patterns::Patterns;
use super::{at, flag, list, rules, structure, text, texts};
use crate::field::FieldError;
use crate::kinds::webhook_configurations;
use crate::schema::{MAX_DEPTH, is_known_format};

/// Completes a new definition, and returns its errors.
///
/// Expects a decoded definition. The status of the request is discarded.
pub(crate) fn create(definition: &mut Value) -> Vec<FieldError> {
    default_spec(definition);
    if let Some(definition) = definition.as_object_mut() {
        let status = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null});
        definition.insert("status".to_owned(), status);
    }
    keep_stored_versions(definition);
    let mut errors = check_name(definition);
    check_spec(definition, &HashSet::new(), &mut errors);
    check_approval(definition, None, &mut errors);
    errors
}

/// Completes a definition that replaces another, and returns the errors of the change.
///
/// The status is copied from the old definition.
pub(crate) fn update(definition: &mut Value, old: &Value) -> Vec<FieldError> {
    default_spec(definition);
    if let (Some(definition), Some(status)) = (definition.as_object_mut(), old.get("status")) {
        definition.insert("status".to_owned(), status.clone());
    }
    keep_stored_versions(definition);
    let mut errors = Vec::new();
    let mut stored = HashSet::new();
    for version in list(old, &["spec", "versions"]) {
        if let Some(schema) = at(version, &["schema", "openAPIV3Schema"]) {
            rules::check::expressions(schema, &mut stored);
        }
    }
    check_spec(definition, &stored, &mut errors);
    let mut frozen: Vec<&[&str]> = Vec::new();
    if is_established(old) {
        frozen.extend([&["spec", "scope"][..], &["spec", "names", "kind"]]);
    }
    frozen.extend([&["spec", "group"][..], &["spec", "names", "plural"]]);
    for path in frozen {
        let value = at(definition, path).unwrap_or(&Value::Null);
        if at(old, path).unwrap_or(&Value::Null) != value {
            errors.push(FieldError::invalid(path.join("."), value, "field is immutable"));
        }
    }
    check_stored_versions(definition, &mut errors);
    check_approval(definition, Some(old), &mut errors);
    errors
}

/// Returns the warnings for the client: formats that the server does not check (CRD-8).
pub(crate) fn warnings(definition: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    for version in list(definition, &["spec", "versions"]) {
        if let Some(schema) = at(version, &["schema", "openAPIV3Schema"]) {
            schema_warnings(schema, 0, &mut found);
        }
    }
    found.into_iter().collect()
}

fn schema_warnings(schema: &Value, depth: usize, found: &mut BTreeSet<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    let format = text(schema, &["format"]);
    if !format.is_empty() && !is_known_format(format) {
        found.insert(format!("unrecognized format {format:?}"));
    }
    let single = ["items", "additionalProperties", "not"].map(|key| schema.get(key));
    let lists = ["allOf", "anyOf", "oneOf"].map(|key| list(schema, &[key]));
    let properties = at(schema, &["properties"]).and_then(Value::as_object);
    for child in single
        .into_iter()
        .flatten()
        .chain(lists.into_iter().flatten())
        .chain(properties.into_iter().flat_map(Map::values))
    {
        schema_warnings(child, depth + 1, found);
    }
}

fn default_spec(definition: &mut Value) {
    let kind = text(definition, &["spec", "names", "kind"]).to_owned();
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let is_missing =
            |names: &Map<String, Value>, key: &str| names.get(key).and_then(Value::as_str).is_none_or(str::is_empty);
        if is_missing(names, "singular") && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if is_missing(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert_with(|| json!(443));
    }
    if let Some(Value::Array(versions)) = spec.get_mut("versions") {
        for version in versions.iter_mut().filter_map(Value::as_object_mut) {
            for key in ["served", "storage"] {
                version.entry(key).or_insert(Value::Bool(false));
            }
        }
    }
}

/// Objects may be stored in every version that ever was the storage version.
fn keep_stored_versions(definition: &mut Value) {
    let storage = list(definition, &["spec", "versions"])
        .iter()
        .find(|version| flag(version, &["storage"]))
        .map(|version| text(version, &["name"]).to_owned());
    let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let (Some(storage), Value::Array(stored)) = (storage, stored)
        && !stored.iter().any(|version| *version == storage)
    {
        stored.push(storage.into());
    }
}

fn check_stored_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(definition, &["spec", "versions"]);
    for (index, stored) in texts(definition, &["status", "storedVersions"]).enumerate() {
        if !versions.iter().any(|version| text(version, &["name"]) == stored) {
            let detail = format!(
                "missing from spec.versions; {stored} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {stored} and removes \
                 {stored} from status.storedVersions"
            );
            let place = format!("status.storedVersions[{index}]");
            errors.push(FieldError::invalid(place, &Value::from(stored), detail));
        }
    }
}

fn check_name(definition: &Value) -> Vec<FieldError> {
    let name = text(definition, &["metadata", "name"]);
    let plural = text(definition, &["spec", "names", "plural"]);
    let group = text(definition, &["spec", "group"]);
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        return vec![FieldError::invalid("metadata.name", &Value::from(name), detail)];
    }
    Vec::new()
}

fn check_approval(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some((reason, message)) = approval_fault(definition) else {
        return;
    };
    if old.and_then(approval_fault).is_some_and(|(old, _)| old == reason) {
        return;
    }
    let place = "metadata.annotations[api-approved.kubernetes.io]";
    errors.push(if reason == "MissingAnnotation" {
        FieldError::required(place, message)
    } else {
        let value = at(definition, &["metadata", "annotations", "api-approved.kubernetes.io"]);
        FieldError::invalid(place, value.unwrap_or(&Value::Null), message)
    });
}

/// `stored` are the expressions of the definition that is replaced.
fn check_spec(definition: &Value, stored: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let group = text(spec, &["group"]);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(fault) = subdomain_fault(group) {
        errors.push(FieldError::invalid("spec.group", &Value::from(group), fault));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &Value::from(group), detail));
    }
    one_of(text(spec, &["scope"]), "spec.scope", &["Cluster", "Namespaced"], errors);
    if flag(spec, &["preserveUnknownFields"]) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &Value::from(true), detail));
    }
    check_versions(spec, stored, errors);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &["names", name]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    check_names(spec.get("names").unwrap_or(&Value::Null), errors);
    check_conversion(spec, errors);
}

fn one_of(value: &str, place: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if !known.contains(&value) {
        errors.push(FieldError::not_supported(place, &Value::from(value), known));
    }
}

fn check_versions(spec: &Value, stored: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let versions = list(spec, &["versions"]);
    if versions.is_empty() {
        errors.push(FieldError::required("spec.versions", ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        if at(version, &["schema", "openAPIV3Schema"]).is_none_or(Value::is_null) {
            let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(place, ""));
        }
    }
    let schema_of = |version| at(version, &["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null());
    // Errors name the schema that all versions share as upstream's internal version does (CEL-027).
    let shared = versions.first().and_then(schema_of).is_some()
        && versions.iter().all(|version| schema_of(version) == versions.first().and_then(schema_of));
    let mut names = BTreeSet::new();
    let mut unique = true;
    let mut patterns = Patterns::default();
    if let Some(version) = versions.first().filter(|_| shared) {
        check_schema(version, "spec.validation.openAPIV3Schema", &mut patterns, stored, errors);
    }
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, &["name"]);
        unique &= names.insert(name);
        let place = format!("spec.versions[{index}]");
        if let Some(fault) = label_fault(name) {
            errors.push(FieldError::invalid(format!("{place}.name"), &Value::from(name), fault));
        }
        if !shared {
            check_schema(version, &format!("{place}.schema.openAPIV3Schema"), &mut patterns, stored, errors);
        }
        check_version(version, &place, errors);
    }
    let value = Value::from(versions);
    if !unique {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", &value, detail));
    }
    if versions.iter().filter(|version| flag(version, &["storage"])).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &value, detail));
    }
}

fn check_schema<'a>(
    version: &'a Value,
    place: &str,
    patterns: &mut Patterns<'a>,
    stored: &HashSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(schema) = at(version, &["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null()) {
        let has_status = at(version, &["subresources", "status"]).is_some();
        let mut found = structure::check(schema, place, has_status, patterns);
        found.extend(rules::check::check(schema, place, &found, stored));
        errors.append(&mut found);
    }
}

fn check_version(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if let Some(warning) = at(version, &["deprecationWarning"]).and_then(Value::as_str) {
        let fault = if !flag(version, &["deprecated"]) {
            Some("can only be set for deprecated versions")
        } else if warning.is_empty() {
            Some("must not be an empty string")
        } else if warning.len() > 256 {
            Some("must be <= 256 characters long")
        } else if warning.chars().any(char::is_control) {
            Some("must only contain printable UTF-8 characters")
        } else {
            None
        };
        if let Some(fault) = fault {
            let place = format!("{place}.deprecationWarning");
            errors.push(FieldError::invalid(place, &Value::from(warning), fault));
        }
    }
    let schema = at(version, &["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null());
    if let Some(scale) = at(version, &["subresources", "scale"]) {
        check_scale(scale, &format!("{place}.subresources.scale"), errors);
    }
    for (index, column) in list(version, &["additionalPrinterColumns"]).iter().enumerate() {
        check_column(column, &format!("{place}.additionalPrinterColumns[{index}]"), errors);
    }
    check_selectable(version, schema.unwrap_or(&Value::Null), place, errors);
}

fn check_scale(scale: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (key, prefixes, place_text, required) in [
        ("specReplicasPath", &[".spec."][..], ".spec", true),
        ("statusReplicasPath", &[".status."][..], ".status", true),
        ("labelSelectorPath", &[".spec.", ".status."][..], "either .spec or .status", false),
    ] {
        let path = text(scale, &[key]);
        let place = format!("{place}.{key}");
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(place, ""));
            }
        } else if !path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(place, &Value::from(path), detail));
        } else if !prefixes.iter().any(|prefix| path.starts_with(prefix)) {
            let detail = format!("should be a json path under {place_text}");
            errors.push(FieldError::invalid(place, &Value::from(path), detail));
        }
    }
}

fn check_column(column: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if text(column, &["name"]).is_empty() {
        errors.push(FieldError::required(format!("{place}.name"), ""));
    }
    let kind = text(column, &["type"]);
    let detail = || format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{place}.type"), detail()));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::invalid(format!("{place}.type"), &Value::from(kind), detail()));
    }
    let format = text(column, &["format"]);
    if !format.is_empty() && !FORMATS.contains(&format) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        let place = format!("{place}.format");
        errors.push(FieldError::invalid(place, &Value::from(format), detail));
    }
    let path = text(column, &["jsonPath"]);
    if path.is_empty() {
        errors.push(FieldError::required(format!("{place}.JSONPath"), ""));
    } else if !path.starts_with('.') {
        let detail = "must be a simple json path starting with .";
        let place = format!("{place}.JSONPath");
        errors.push(FieldError::invalid(place, &Value::from(path), detail));
    }
}

fn check_selectable(version: &Value, schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const LIMIT: u64 = 8;
    let mut seen = BTreeSet::new();
    for (index, field) in list(version, &["selectableFields"]).iter().enumerate() {
        let place = format!("{place}.selectableFields[{index}].jsonPath");
        let path = text(field, &["jsonPath"]);
        let value = Value::from(path);
        let Some(keys) = path.strip_prefix('.') else {
            errors.push(if path.is_empty() {
                FieldError::required(place, "")
            } else {
                FieldError::invalid(place, &value, "is an invalid path: does not start with .")
            });
            continue;
        };
        let target = keys.split('.').try_fold(schema, |schema, key| schema.get("properties")?.get(key));
        let Some(target) = target else {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(place, &value, detail));
            continue;
        };
        if keys == "metadata" || keys.starts_with("metadata.") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(place.clone(), &value, detail));
        }
        if !matches!(text(target, &["type"]), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(place.clone(), &value, detail));
        }
        if !seen.insert(keys) {
            errors.push(FieldError::duplicate(place, &value));
        }
    }
    if seen.len() as u64 > LIMIT {
        let place = format!("{place}.selectableFields");
        errors.push(FieldError::too_many(place, seen.len(), LIMIT));
    }
}

fn check_names(names: &Value, errors: &mut Vec<FieldError>) {
    let mut fail = |place: String, name: &str, detail: String| {
        errors.push(FieldError::invalid(place, &Value::from(name), detail));
    };
    for key in ["plural", "singular"] {
        let name = text(names, &[key]);
        if let Some(fault) = label_fault(name).filter(|_| !name.is_empty()) {
            fail(format!("spec.names.{key}"), name, fault);
        }
    }
    for key in ["kind", "listKind"] {
        let name = text(names, &[key]);
        if let Some(fault) = label_fault(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let detail = format!("may have mixed case, but should otherwise match: {fault}");
            fail(format!("spec.names.{key}"), name, detail);
        }
    }
    let kind = text(names, &["kind"]);
    for (index, name) in texts(names, &["shortNames"]).enumerate() {
        if let Some(fault) = label_fault(name) {
            fail(format!("spec.names.shortNames[{index}]"), name, fault);
        }
    }
    if !kind.is_empty() && kind == text(names, &["listKind"]) {
        let detail = "kind and listKind may not be the same".to_owned();
        fail("spec.names.listKind".to_owned(), kind, detail);
    }
    for (index, name) in texts(names, &["categories"]).enumerate() {
        if let Some(fault) = label_fault(name) {
            fail(format!("spec.names.categories[{index}]"), name, fault);
        }
    }
}

fn check_conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let strategy = text(spec, &["conversion", "strategy"]);
    one_of(strategy, "spec.conversion.strategy", &["None", "Webhook"], errors);
    let client = at(spec, &["conversion", "webhook", "clientConfig"]);
    let place = "spec.conversion.webhookClientConfig";
    if strategy != "Webhook" {
        if at(spec, &["conversion", "webhook"]).is_some() {
            let detail = "should not be set when strategy is not set to Webhook";
            errors.push(FieldError::forbidden(place, detail));
        }
        return;
    }
    match client {
        None => {
            let detail = "required when strategy is set to Webhook";
            errors.push(FieldError::required(place, detail));
        }
        Some(client) => webhook_configurations::client_config(client, place, errors),
    }
    check_review_versions(list(spec, &["conversion", "webhook", "conversionReviewVersions"]), errors);
}

/// CWH-001.
fn check_review_versions(versions: &[Value], errors: &mut Vec<FieldError>) {
    let place = "spec.conversion.conversionReviewVersions";
    if versions.is_empty() {
        errors.push(FieldError::required(place, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let place = format!("{place}[{index}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(place, &version.into(), "duplicate version"));
        } else if let Some(fault) = label_fault(version) {
            errors.push(FieldError::invalid(place, &version.into(), fault));
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(place, &Value::from(versions.to_vec()), detail));
    }
}
