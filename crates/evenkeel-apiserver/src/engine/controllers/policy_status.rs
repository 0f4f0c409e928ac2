//! The status of ValidatingAdmissionPolicies: whether their expressions fit the types that they match (VAP-013).

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cel::{DeclType, Environment};
use serde_json::{Value, json};

use crate::engine::ApiEngine;
use crate::engine::admission::policies::environment::{ExpressionScope, typed_environment, with_no_variables};
use crate::engine::options::WriteOptions;
use crate::engine::target::{OwnershipSource, Target, WriteScope, Writer};
use crate::env::rfc3339;
use crate::field_ownership;
use crate::registry::{Registry, Resource};

const GROUP: &str = "admissionregistration.k8s.io";
const STORE: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";

/// The field manager of upstream's controller.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// How many kinds the expressions of a rule are checked against.
const MAX_TYPES: usize = 10;

impl ApiEngine {
    /// Checks the expressions of a policy whose spec has changed, and applies the result to its status.
    pub(in crate::engine) fn check_policy_types(&self, name: &str) {
        let Some(record) = self.store.get(STORE, name) else { return };
        let policy = record.value();
        let number = |path: &str| policy.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        let generation = number("/metadata/generation");
        if generation <= number("/status/observedGeneration") {
            return;
        }
        let registry = self.registry();
        let Some(resource) = registry.lookup(GROUP, "v1", "validatingadmissionpolicies") else { return };
        let warnings = expression_warnings(&registry, policy.get("spec").unwrap_or(&Value::Null));
        let mut checked = json!({});
        if !warnings.is_empty() {
            checked["expressionWarnings"] = warnings.into();
        }
        let intent = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": name},
            "status": {"observedGeneration": generation, "typeChecking": checked},
        });
        let target = Target { resource, namespace: None, name, scope: WriteScope::Status };
        let options = WriteOptions::default();
        let writer = Writer { manager: MANAGER, ownership: OwnershipSource::ManagedFields, ..Writer::server(&options) };
        let done = self.update_object(target, writer, |live| {
            let write = field_ownership::Write {
                manager: MANAGER,
                api_version: &resource.api_version(),
                subresource: Some("status"),
                now: &rfc3339(self.env.wall()),
                reset: target.reset_fields(),
            };
            field_ownership::apply(Some(live), &intent, resource.schema(), &write, true)
        });
        if let Err(error) = done
            && !error.is_not_found()
        {
            tracing::warn!(name, %error, "status of ValidatingAdmissionPolicy cannot be written");
        }
    }
}

/// Returns the elements of `expressionWarnings`: the validations and messages that do not fit a kind that the rules name.
fn expression_warnings(registry: &Registry, spec: &Value) -> Vec<Value> {
    let environments = environments(registry, spec);
    let validations = spec.get("validations").and_then(Value::as_array).into_iter().flatten();
    let mut warnings = Vec::new();
    for (index, validation) in validations.enumerate() {
        for key in ["expression", "messageExpression"] {
            let expression = validation.get(key).and_then(Value::as_str).unwrap_or_default();
            if expression.is_empty() {
                continue;
            }
            let misfits = environments.iter().filter_map(|(kind, environment)| {
                environment.compile(expression).err().map(|error| format!("{kind}: {error}\n"))
            });
            let misfits: Vec<String> = misfits.collect();
            if !misfits.is_empty() {
                let field = format!("spec.validations[{index}].{key}");
                warnings.push(json!({"fieldRef": field, "warning": misfits.join("\n")}));
            }
        }
    }
    warnings
}

/// Returns what expressions may name, for each kind that the rules of a policy name.
fn environments(registry: &Registry, spec: &Value) -> Vec<(String, Environment)> {
    let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null());
    let params = param_kind.and_then(|kind| {
        let text = |key: &str| kind.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        declared(registry.lookup_kind(group, version, text("kind"))?)
    });
    let scope = ExpressionScope { has_params: param_kind.is_some(), has_authorizer: true };
    let typed = checked_kinds(registry, spec).into_iter().filter_map(|resource| {
        let environment = typed_environment(scope, Some(declared(&resource)?), params.clone());
        let kind = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
        Some((kind, with_variables(environment, spec)))
    });
    typed.collect()
}

fn declared(resource: &Arc<Resource>) -> Option<DeclType> {
    resource.schema().map(|schema| schema.declared_type(&resource.kind))
}

/// Declares the variables of a policy. One that does not compile may be anything.
fn with_variables(environment: Environment, spec: &Value) -> Environment {
    let variables = spec.get("variables").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if variables.is_empty() {
        return environment;
    }
    variables.iter().fold(with_no_variables(environment), |environment, variable| {
        let text = |key: &str| variable.get(key).and_then(Value::as_str).unwrap_or_default();
        let of = match environment.compile(text("expression")) {
            Ok(compiled) => compiled.result_type().clone(),
            Err(_) => evenkeel_cel::Type::Dyn,
        };
        environment.with_variable(&format!("variables.{}", text("name")), of)
    })
}

/// Returns the resources that rules name without wildcards, by group, version and kind.
fn checked_kinds(registry: &Registry, spec: &Value) -> Vec<Arc<Resource>> {
    let rules = spec.pointer("/matchConstraints/resourceRules").and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<Arc<Resource>> = Vec::new();
    for rule in rules {
        let texts = |key: &str| -> BTreeSet<&str> {
            let list = rule.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).collect()
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let resources = texts("resources");
        let named = resources.iter().filter(|resource| !resource.contains(['*', '/']));
        let all = groups.iter().flat_map(|group| versions.iter().map(move |version| (*group, *version)));
        let resolved = all.flat_map(|(group, version)| {
            named.clone().filter_map(move |resource| registry.lookup(group, version, resource))
        });
        for resource in resolved.take(MAX_TYPES) {
            if !found.iter().any(|known| Arc::ptr_eq(known, resource)) {
                found.push(Arc::clone(resource));
            }
        }
    }
    found.sort_by(|a, b| (&a.group, &a.version, &a.kind).cmp(&(&b.group, &b.version, &b.kind)));
    found
}
