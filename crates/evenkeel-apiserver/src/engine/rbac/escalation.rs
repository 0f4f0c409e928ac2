//! Escalation: a user grants only what it has itself, unless it may `escalate` the role or `bind` it (RBA-018, RBA-019).

use evenkeel_core::Status;
use serde::Deserialize;
use serde_json::Value;

use super::GROUP;
use super::bindings::RoleRef;
use super::index::RoleRules;
use super::rule::{PolicyRule, describe, missing_grants};
use crate::authorization::{AccessAttributes, AccessTarget, GoQuoted, GoQuotedList, ResourceAttributes};
use crate::engine::ApiEngine;
use crate::engine::admission::AdmissionWrite;
use crate::engine::authorize::is_master;
use crate::engine::request_error::RequestError;
use crate::http_types::User;
use crate::kinds::same_value;

/// The metadata that garbage collection changes. A write of nothing else grants nothing.
const COLLECTED: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "selfLink"];

impl ApiEngine {
    /// Refuses a Role or ClusterRole that grants more than its writer has.
    pub(in crate::engine) fn check_role_grants(
        &self,
        write: &AdmissionWrite<'_>,
        new: &Value,
    ) -> Result<(), RequestError> {
        let (user, target) = (&write.request.user, write.target);
        if is_master(user) || is_collection_only(write.old, new) {
            return Ok(());
        }
        let resource = &target.resource.plural;
        let escalates = AccessAttributes {
            user,
            verb: "escalate",
            target: AccessTarget::Resource(ResourceAttributes {
                group: GROUP,
                resource,
                subresource: "",
                namespace: target.namespace.unwrap_or_default(),
                // The URL of a create has no name.
                name: if write.request.method == http::Method::POST { "" } else { target.name },
            }),
        };
        if self.authorize(&escalates).is_allowed() {
            return Ok(());
        }
        let namespace = target.namespace.unwrap_or_default();
        let forbidden = |why: String| Status::forbidden(GROUP, resource, target.name, why);
        let rules = Vec::<PolicyRule>::deserialize(&new["rules"]).unwrap_or_default();
        self.check_grants(user, namespace, &rules).map_err(forbidden)?;
        // An aggregation rule can gather anything.
        let aggregates = has_aggregation(new) || write.old.is_some_and(has_aggregation);
        if aggregates && self.check_grants(user, namespace, &PolicyRule::full_authority()).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(why.to_owned()).into());
        }
        Ok(())
    }

    /// Refuses a binding of a role that grants more than its writer has.
    pub(in crate::engine) fn check_binding_grants(
        &self,
        write: &AdmissionWrite<'_>,
        new: &Value,
    ) -> Result<(), RequestError> {
        let (user, target) = (&write.request.user, write.target);
        if is_master(user) || is_collection_only(write.old, new) {
            return Ok(());
        }
        let role = RoleRef::deserialize(&new["roleRef"]).unwrap_or_default();
        let resource = match &*role.kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            // Validation refuses it.
            _ => return Ok(()),
        };
        let namespace = target.namespace.unwrap_or_default();
        let attributes = ResourceAttributes { group: GROUP, resource, subresource: "", namespace, name: &role.name };
        let binds = AccessAttributes { user, verb: "bind", target: AccessTarget::Resource(attributes) };
        if self.authorize(&binds).is_allowed() {
            return Ok(());
        }
        let rules: Option<RoleRules> = self.read_rbac(|index| index.rules_of(&role, namespace).ok().cloned());
        let Some(rules) = rules else {
            return Err(Status::not_found(GROUP, resource, &role.name).into());
        };
        self.check_grants(user, namespace, &rules)
            .map_err(|why| Status::forbidden(GROUP, &target.resource.plural, target.name, why).into())
    }

    /// Returns why a user may not grant rules: it lacks some of them.
    fn check_grants(&self, user: &User, namespace: &str, wanted: &[PolicyRule]) -> Result<(), String> {
        let (held, missing_roles) = self.read_rbac(|index| index.rules_for(user, namespace));
        let held: Vec<&PolicyRule> = held.iter().flat_map(|rules| rules.iter()).collect();
        let missing = missing_grants(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            GoQuoted(&user.name),
            GoQuotedList(&user.groups),
            describe(missing)
        );
        if !missing_roles.is_empty() {
            why.push_str(&format!("; resolution errors: [{}]", super::aggregate(&missing_roles)));
        }
        Err(why)
    }
}

fn has_aggregation(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// Returns whether an update changes only what garbage collection changes.
fn is_collection_only(old: Option<&Value>, new: &Value) -> bool {
    let Some(old) = old else { return false };
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            COLLECTED.iter().for_each(|key| {
                metadata.remove(*key);
            });
        }
        object
    };
    same_value(&without(old), &without(new))
}
