//! The conditions of a definition: NamesAccepted, Established, Terminating (CRD-2, CRD-15).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{CLEANUP_FINALIZER, at, list, text, texts};

/// Returns whether the definition's resources are served.
pub(crate) fn is_established(definition: &Value) -> bool {
    is_true(definition, "Established")
}

/// Returns whether all names of the definition are accepted.
pub(crate) fn are_names_accepted(definition: &Value) -> bool {
    is_true(definition, "NamesAccepted")
}

/// Accepts the names of a definition that no other definition of its group holds, and sets its conditions.
///
/// `others` are the other definitions, of any group. An established definition stays established, under the names that
/// it still holds. Returns whether anything changed.
pub(crate) fn establish<'a>(definition: &mut Value, others: impl IntoIterator<Item = &'a Value>, now: &str) -> bool {
    let before = definition.get("status").cloned();
    let (names, verdict) = accept_names(definition, others);
    if let Some(status) = status(definition) {
        status.insert("acceptedNames".to_owned(), names);
    }
    let accepted = verdict.is_none();
    let (reason, message) = verdict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    set(definition, "NamesAccepted", accepted, reason, &message, now);
    if accepted && !is_established(definition) {
        let message = "the initial names have been accepted";
        set(definition, "Established", true, "InitialNamesAccepted", message, now);
    } else if !accepted && condition(definition, "Established").is_none() {
        let message = "not all names are accepted";
        set(definition, "Established", false, "NotAccepted", message, now);
    }
    if let Some((approved, reason, message)) = approval(definition) {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        set(definition, kind, approved, reason, &message, now);
    }
    definition.get("status") != before.as_ref()
}

/// Marks a definition for deletion: its objects are deleted first. The caller sets the deletion timestamp.
pub(crate) fn start_deletion(definition: &mut Value, now: &str) {
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|name| name == CLEANUP_FINALIZER)
        {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set(definition, "Terminating", true, "InstanceDeletionPending", message, now);
}

/// Records that the deletion of the definition's objects has started.
pub(crate) fn instances_terminating(definition: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    set(definition, "Terminating", true, "InstanceDeletionInProgress", message, now);
}

/// Records that the definition's objects are deleted, and removes its finalizer.
pub(crate) fn instances_deleted(definition: &mut Value, now: &str) {
    if is_established(definition) {
        let message = "removed all instances";
        set(definition, "Terminating", false, "InstanceDeletionCompleted", message, now);
    } else {
        let message = "resource was never established";
        set(definition, "Terminating", false, "NeverEstablished", message, now);
    }
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|name| name != CLEANUP_FINALIZER);
        }
        if metadata.get("finalizers").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            metadata.remove("finalizers");
        }
    }
}

type Verdict = Option<(&'static str, String)>;

/// Returns the accepted names, and the conflict that prevents the others.
fn accept_names<'a>(definition: &Value, others: impl IntoIterator<Item = &'a Value>) -> (Value, Verdict) {
    let group = text(definition, &["spec", "group"]);
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        let is_self = text(other, &["metadata", "name"]) == text(definition, &["metadata", "name"]);
        if is_self || text(other, &["spec", "group"]) != group {
            continue;
        }
        let held = |name| text(other, &["status", "acceptedNames", name]);
        resources.extend([held("plural"), held("singular")]);
        resources.extend(texts(other, &["status", "acceptedNames", "shortNames"]));
        kinds.extend([held("kind"), held("listKind")]);
    }
    resources.remove("");
    kinds.remove("");

    let requested = at(definition, &["spec", "names"]).cloned().unwrap_or_default();
    let mut names =
        at(definition, &["status", "acceptedNames"]).and_then(Value::as_object).cloned().unwrap_or_default();
    // Names are checked one by one; the last of several conflicts is reported.
    let mut verdict: Verdict = None;
    for (key, taken, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let held: BTreeSet<&str> = names_in(names.get(key)).into_iter().collect();
        let conflicts: Vec<String> = names_in(requested.get(key))
            .into_iter()
            .filter(|name| !held.contains(name) && taken.contains(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match conflicts.as_slice() {
            [] => replace(&mut names, key, requested.get(key)),
            [only] => verdict = Some((reason, only.clone())),
            several => verdict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    replace(&mut names, "categories", requested.get("categories"));
    (Value::Object(names), verdict)
}

/// Returns the names in a field that has one name or a list of names.
fn names_in(field: Option<&Value>) -> Vec<&str> {
    match field {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn replace(names: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => names.insert(key.to_owned(), value.clone()),
        None => names.remove(key),
    };
}

/// Checks the approval annotation, which groups of the Kubernetes community require.
fn approval(definition: &Value) -> Option<(bool, &'static str, String)> {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    if !is_protected_group(text(definition, &["spec", "group"])) {
        return None;
    }
    Some(match text(definition, &["metadata", "annotations", ANNOTATION]) {
        "" => (
            false,
            "MissingAnnotation",
            format!(
                "protected groups must have approval annotation {ANNOTATION:?}, see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            ),
        ),
        reason if reason.starts_with("unapproved") => {
            (false, "UnapprovedAnnotation", format!("not approved: {reason:?}"))
        }
        url if url.contains("://") => (true, "ApprovedAnnotation", format!("approved in {url}")),
        _ => (
            false,
            "InvalidAnnotation",
            format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting \
                 with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
            ),
        ),
    })
}

fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|suffix| group.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Returns the error of the annotation for admission, if the group requires it.
pub(super) fn approval_fault(definition: &Value) -> Option<(&'static str, String)> {
    match approval(definition)? {
        (_, reason @ ("MissingAnnotation" | "InvalidAnnotation"), message) => Some((reason, message)),
        _ => None,
    }
}

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    list(definition, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == kind)
}

pub(super) fn is_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}

fn set(definition: &mut Value, kind: &str, holds: bool, reason: &str, message: &str, now: &str) {
    let state = if holds { "True" } else { "False" };
    let since = condition(definition, kind)
        .filter(|condition| text(condition, &["status"]) == state)
        .and_then(|condition| condition.get("lastTransitionTime"))
        .filter(|since| !since.is_null())
        .cloned()
        .unwrap_or_else(|| now.into());
    let new = json!({
        "lastTransitionTime": since,
        "message": message,
        "reason": reason,
        "status": state,
        "type": kind,
    });
    let Some(status) = status(definition) else { return };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(conditions) = conditions {
        match conditions.iter_mut().find(|condition| text(condition, &["type"]) == kind) {
            Some(condition) => *condition = new,
            None => conditions.push(new),
        }
    }
}

/// Returns the status of a definition, created if absent.
fn status(definition: &mut Value) -> Option<&mut Map<String, Value>> {
    let status = definition.as_object_mut()?.entry("status").or_insert(Value::Null);
    if !status.is_object() {
        *status = Value::Object(Map::new());
    }
    status.as_object_mut()
}
