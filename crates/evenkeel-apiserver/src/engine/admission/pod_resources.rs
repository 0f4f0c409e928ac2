//! What a pod requests and is limited to as a whole.

use std::collections::BTreeMap;

use evenkeel_core::quantity::ExactQuantity;
use serde_json::Value;

use super::{list_at, text_at};

/// Quantities by the name of their resource.
pub(super) type ResourceList = BTreeMap<String, ExactQuantity>;

/// One of the two lists of `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    Requests,
    Limits,
}

impl ResourceKind {
    fn key(self) -> &'static str {
        match self {
            ResourceKind::Requests => "requests",
            ResourceKind::Limits => "limits",
        }
    }

    /// Returns the list of a container, or of a pod's specification.
    pub(super) fn of(self, owner: &Value) -> ResourceList {
        read(owner.get("resources").and_then(|resources| resources.get(self.key())))
    }

    /// Returns the total of a pod without its overhead: the sum of its containers, or what an init container needs if that
    /// is more. Containers that restart run beside all later ones. What the pod itself sets takes precedence.
    pub(super) fn total(self, spec: &Value) -> ResourceList {
        let mut total = ResourceList::new();
        for container in list_at(spec, &["containers"]) {
            add(&mut total, &self.of(container));
        }
        let (mut sidecars, mut most) = (ResourceList::new(), ResourceList::new());
        for container in list_at(spec, &["initContainers"]) {
            let own = self.of(container);
            let running = if text_at(container, &["restartPolicy"]) == "Always" {
                add(&mut total, &own);
                add(&mut sidecars, &own);
                sidecars.clone()
            } else {
                let mut running = own;
                add(&mut running, &sidecars);
                running
            };
            raise(&mut most, running);
        }
        raise(&mut total, most);
        let own = self.of(spec).into_iter();
        total.extend(own.filter(|(name, _)| is_pod_level(name)));
        total
    }
}

/// Returns whether a pod can set a resource for all its containers.
pub(super) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Reads a list of resources. Validation has refused what is not a quantity.
pub(super) fn read(list: Option<&Value>) -> ResourceList {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// Reads a quantity, which may be written as a number.
pub(super) fn quantity(value: &Value) -> Option<ExactQuantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

pub(super) fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        *total.entry(name.clone()).or_default() += quantity;
    }
}

/// Raises each resource to at least this much.
fn raise(list: &mut ResourceList, least: ResourceList) {
    for (name, quantity) in least {
        match list.get_mut(&name) {
            Some(present) if *present >= quantity => {}
            _ => {
                list.insert(name, quantity);
            }
        }
    }
}
