//! [`field_selector`]: selects the events about an object.

use evenkeel_core::FieldOperator;
use evenkeel_core::FieldSelector;
use kube_core::{GroupVersion, GroupVersionKind};

/// The group version has no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{group_version} has no events; v1, events.k8s.io/v1 and events.k8s.io/v1beta1 do")]
#[non_exhaustive]
pub struct NoEvents {
    /// The requested group version.
    pub group_version: String,
}

/// Returns a selector for the events about an object, in the field names of the API that the events are read from.
/// Empty values are not selected by.
///
/// ```
/// use evenkeel_client::discovery::{GroupVersion, GroupVersionKind};
/// use evenkeel_runtime::events::field_selector;
///
/// let pod = GroupVersionKind::gvk("", "v1", "Pod");
/// let selector = field_selector(&GroupVersion::gv("events.k8s.io", "v1"), &pod, "web-0", "").unwrap();
/// assert_eq!(selector.to_string(), "regarding.apiVersion=v1,regarding.kind=Pod,regarding.name=web-0");
/// ```
pub fn field_selector(
    events: &GroupVersion,
    object: &GroupVersionKind,
    name: &str,
    uid: &str,
) -> Result<FieldSelector, NoEvents> {
    let prefix = match (events.group.as_str(), events.version.as_str()) {
        ("events.k8s.io", "v1" | "v1beta1") => "regarding",
        ("", "v1") => "involvedObject",
        _ => return Err(NoEvents { group_version: events.api_version() }),
    };
    let api_version = match object.group.as_str() {
        "" => object.version.clone(),
        group => format!("{group}/{}", object.version),
    };
    let mut selector = FieldSelector::everything();
    for (field, value) in [("name", name), ("kind", &object.kind), ("apiVersion", &api_version), ("uid", uid)] {
        if value.is_empty() {
            continue;
        }
        // All of these fields are valid in a selector.
        if let Ok(more) = selector.clone().and(format!("{prefix}.{field}"), FieldOperator::Equals, value) {
            selector = more;
        }
    }
    Ok(selector)
}

#[cfg(test)]
mod tests;
