//! The pod that is checked, and what it violates.

use serde_json::Value;

use crate::engine::admission::list_at;

/// A check of one level.
pub(super) struct PodCheck {
    /// The minor version that introduced the check.
    pub(super) since: u32,
    /// The minor version since which a check of the restricted level takes its place.
    pub(super) overridden_since: Option<u32>,
    /// Returns the violation of a pod, by the rules of a minor version.
    pub(super) run: fn(&CheckedPod<'_>, u32) -> Option<Violation>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: impl Into<String>) -> Option<Self> {
        Some(Violation { reason: reason.into(), detail: detail.into() })
    }
}

/// What all checks found.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn add(&mut self, violation: Option<Violation>) {
        self.0.extend(violation);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons with the details of this pod.
    pub(super) fn details(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|it| format!("{} ({})", it.reason, it.detail)).collect();
        texts.join(", ")
    }

    /// Returns the reasons alone, which pods can share.
    pub(super) fn reasons(&self) -> String {
        let texts: Vec<&str> = self.0.iter().map(|it| it.reason.as_str()).collect();
        texts.join(", ")
    }
}

/// A pod or a template of one, as the checks read it.
pub(super) struct CheckedPod<'a> {
    annotations: &'a Value,
    pub(super) spec: &'a Value,
    /// The init containers, the containers, then the ephemeral ones.
    pub(super) containers: Vec<&'a Value>,
}

impl<'a> CheckedPod<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        CheckedPod {
            annotations: pod.pointer("/metadata/annotations").unwrap_or(&Value::Null),
            spec,
            containers: lists.iter().flat_map(|list| list_at(spec, &[list])).collect(),
        }
    }

    /// Returns the annotations in key order.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.annotations.as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// Returns a value of the pod's own security context.
    pub(super) fn security(&self, pointer: &str) -> Option<&'a Value> {
        self.spec.get("securityContext").and_then(|context| set(context.pointer(pointer)))
    }

    /// Returns the names of the containers for which a condition on their security context holds.
    pub(super) fn where_security(&self, condition: impl Fn(&Security<'a>) -> bool) -> Vec<&'a str> {
        let found = self.containers.iter().filter(|container| condition(&Security(container)));
        found.map(|container| name(container)).collect()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec.pointer("/os/name").and_then(Value::as_str) == Some("windows")
    }

    /// Returns whether the users of the pod are not those of its node.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.get("hostUsers") == Some(&Value::Bool(false))
    }
}

/// The security context of a container.
pub(super) struct Security<'a>(pub(super) &'a Value);

impl<'a> Security<'a> {
    pub(super) fn get(&self, pointer: &str) -> Option<&'a Value> {
        self.0.get("securityContext").and_then(|context| set(context.pointer(pointer)))
    }
}

fn set(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

pub(super) fn name(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns `"a", "b"`.
pub(super) fn quoted(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Returns `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Returns which of the pod and its containers set something: `pod and container "a"`; `None` if none does.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}
