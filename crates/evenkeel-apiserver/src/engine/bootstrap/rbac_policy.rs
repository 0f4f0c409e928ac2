//! The roles and bindings of RBAC. Whether the server aggregates roles decides whether `view`, `edit` and `admin` have rules.

use std::sync::LazyLock;

use serde_json::Value;

use super::BootstrapObject;
use super::ownership::BootstrapTypes;
use crate::engine::rbac::{aggregated, policy};
use crate::engine::{ApiEngine, ControllerTiming, object};
use crate::field_ownership::FieldTypes;
use crate::registry::Registry;
use crate::store::TEMPLATE_TIME;

/// As a fresh kube-apiserver has them: aggregated roles have no rules.
static BARE: LazyLock<Vec<BootstrapObject>> =
    LazyLock::new(|| policy::objects().into_iter().filter_map(BootstrapObject::new).collect());

/// As they are once a kube-controller-manager runs.
static AGGREGATED: LazyLock<Vec<BootstrapObject>> = LazyLock::new(|| {
    let objects = policy::objects();
    let rules = policy::gathered_rules(&objects);
    let rendered = objects.iter().filter_map(|object| match rules.get(object::text(object, "name")) {
        Some(rules) if object.get("aggregationRule").is_some() => rendered_with_rules(object.clone(), rules),
        _ => BootstrapObject::new(object.clone()),
    });
    rendered.collect()
});

/// Renders an aggregated role as its controller leaves it.
fn rendered_with_rules(role: Value, rules: &[Value]) -> Option<BootstrapObject> {
    let registry = Registry::builtin();
    let role = with_rules(&registry, role, rules, BootstrapTypes::of("ClusterRole"))?;
    BootstrapObject::rendered(&registry, &role, None)
}

fn with_rules<T: FieldTypes>(registry: &Registry, role: Value, rules: &[Value], types: &T) -> Option<Value> {
    let (mut role, managed) = BootstrapObject::created(registry, role)?;
    let managed = managed.and_then(|managed| serde_json::from_slice(&managed).ok());
    object::set_path(&mut role, &["metadata", "managedFields"], managed);
    aggregated(&role, rules, TEMPLATE_TIME, Some(types)).ok()
}

impl ApiEngine {
    /// Adds the roles and bindings that the store does not have.
    pub(super) fn add_rbac_policy(&self) {
        match self.settings.role_aggregation {
            ControllerTiming::Immediate => self.add_missing(&*AGGREGATED),
            ControllerTiming::Delayed(_) | ControllerTiming::Off => self.add_missing(&*BARE),
        }
        if self.settings.role_aggregation != ControllerTiming::Immediate {
            self.cluster_roles_changed();
        }
    }
}

#[cfg(test)]
mod tests;
