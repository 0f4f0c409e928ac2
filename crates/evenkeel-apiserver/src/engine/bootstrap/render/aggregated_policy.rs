//! The roles and bindings of RBAC with the rules that the aggregation controller writes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::engine::bootstrap::BootstrapObject;
use crate::engine::bootstrap::ownership::BootstrapTypes;
use crate::engine::object;
use crate::engine::rbac::{aggregated, policy};
use crate::field_ownership::FieldTypes;
use crate::kinds::selector_matches;
use crate::registry::Registry;
use crate::store::TEMPLATE_TIME;

/// Returns them as they are once a kube-controller-manager runs.
pub(super) fn aggregated_policy() -> Vec<BootstrapObject> {
    let objects = policy::objects();
    let rules = gathered_rules(&objects);
    let rendered = objects.iter().filter_map(|object| match rules.get(object::text(object, "name")) {
        Some(rules) if object.get("aggregationRule").is_some() => rendered_with_rules(object.clone(), rules),
        _ => BootstrapObject::new(object.clone()),
    });
    rendered.collect()
}

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

/// Returns the rules of the aggregated roles among these objects, by name: what the aggregation controller writes.
pub(super) fn gathered_rules(objects: &[Value]) -> BTreeMap<&str, Vec<Value>> {
    let mut roles: BTreeMap<&str, (&Value, Vec<Value>)> = BTreeMap::new();
    for role in objects.iter().filter(|object| object["kind"] == "ClusterRole") {
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        roles.insert(object::text(role, "name"), (role, rules));
    }
    let selectors = |role: &Value| role.pointer("/aggregationRule/clusterRoleSelectors").cloned();
    let aggregated: Vec<&str> =
        roles.iter().filter(|(_, (role, _))| selectors(role).is_some()).map(|(name, _)| *name).collect();
    // A role may gather one that is aggregated itself.
    for _ in &aggregated {
        for own in &aggregated {
            let mut gathered: Vec<Value> = Vec::new();
            let selectors = roles.get(own).and_then(|(role, _)| selectors(role)).unwrap_or_default();
            for selector in selectors.as_array().into_iter().flatten() {
                let matching = roles.iter().filter(|(name, (role, _))| {
                    let labels = &object::metadata(role)["labels"];
                    *name != own && selector_matches(selector, |key| labels.get(key)?.as_str())
                });
                for rule in matching.flat_map(|(_, (_, rules))| rules) {
                    if !gathered.contains(rule) {
                        gathered.push(rule.clone());
                    }
                }
            }
            if let Some((_, rules)) = roles.get_mut(own) {
                *rules = gathered;
            }
        }
    }
    roles.retain(|name, _| aggregated.contains(name));
    roles.into_iter().map(|(name, (_, rules))| (name, rules)).collect()
}

#[test]
fn bst_008_aggregated_roles_are_owned_as_by_the_schema() {
    let registry = Registry::builtin();
    let objects = policy::objects();
    let gathered = gathered_rules(&objects);
    assert!(gathered.len() >= 3, "view, edit and admin are aggregated");
    for role in objects.iter().filter(|object| object.get("aggregationRule").is_some()) {
        let rules = gathered.get(object::text(role, "name")).unwrap();
        let schema = crate::engine::bootstrap::resource_of(&registry, role).unwrap().schema().unwrap();
        let expected = with_rules(&registry, role.clone(), rules, schema).unwrap();
        let made = with_rules(&registry, role.clone(), rules, BootstrapTypes::of("ClusterRole")).unwrap();
        assert_eq!(made, expected);
    }
}
