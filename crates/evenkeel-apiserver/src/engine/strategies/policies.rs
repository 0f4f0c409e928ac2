//! Policies of admission and their bindings: what is refused when they are written.

use std::collections::HashSet;

use evenkeel_cel::{Environment, Type};
use serde_json::Value;

use super::{BuiltinKind, KindHooks};
use crate::engine::ApiEngine;
use crate::engine::admission::policies::environment::{ExpressionScope, environment};
use crate::engine::target::WriteScope;
use crate::field::{FieldError, is_full};
use crate::registry::Resource;
use crate::store::Record;

/// How many match conditions a policy or webhook may have.
const MAX_CONDITIONS: usize = 64;

/// The hooks of ValidatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct PolicyHooks;

/// The hooks of ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub(crate) struct PolicyBindingHooks;

impl KindHooks for PolicyHooks {
    fn warnings(&self, _: &ApiEngine, _: &Resource, record: &Record) -> Vec<String> {
        let policy = record.value();
        let unused = !list(policy.get("spec").unwrap_or(&Value::Null), "auditAnnotations").is_empty();
        unused.then(|| "evenkeel: auditAnnotations are evaluated but not written".to_owned()).into_iter().collect()
    }

    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        BuiltinKind.validate_create(resource, new, errors);
        check_policy(new, &Value::Null, errors);
    }

    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        BuiltinKind.validate_update(resource, scope, new, old, errors);
        if scope == WriteScope::Main {
            check_policy(new, old, errors);
        }
    }
}

impl KindHooks for PolicyBindingHooks {
    fn warnings(&self, _: &ApiEngine, _: &Resource, record: &Record) -> Vec<String> {
        let binding = record.value();
        let actions = list(binding.get("spec").unwrap_or(&Value::Null), "validationActions");
        let unused = actions.iter().any(|action| action == "Audit");
        unused.then(|| "evenkeel: the action Audit is stored but not enforced".to_owned()).into_iter().collect()
    }

    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        BuiltinKind.validate_create(resource, new, errors);
        check_binding(new, errors);
    }

    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        BuiltinKind.validate_update(resource, scope, new, old, errors);
        check_binding(new, errors);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds all strings of a value.
fn strings<'a>(value: &'a Value, found: &mut HashSet<&'a str>) {
    match value {
        Value::String(text) => {
            found.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

/// Compiles the expressions of one policy.
struct Expressions<'a> {
    environment: Environment,
    /// The expressions of the policy that is replaced. They may use functions that new ones may not.
    stored: HashSet<&'a str>,
    errors: &'a mut Vec<FieldError>,
}

impl Expressions<'_> {
    /// Compiles an expression that must have one of these types. Returns the type.
    fn check(&mut self, environment: &Environment, expression: &str, place: String, types: &[Type]) -> Option<Type> {
        if is_full(self.errors) {
            return None;
        }
        let compiled = if self.stored.contains(expression) {
            environment.compile(expression)
        } else {
            environment.clone().for_new_expressions().compile(expression)
        };
        let detail = match compiled {
            Err(error) => format!("compilation failed: {error}"),
            Ok(compiled) if types.is_empty() || types.contains(compiled.result_type()) => {
                return Some(compiled.result_type().clone());
            }
            Ok(_) => match types {
                [only] => format!("must evaluate to {only}"),
                several => {
                    let names: Vec<&str> =
                        several.iter().map(|of| if *of == Type::Null { "null_type" } else { "string" }).collect();
                    format!("must evaluate to one of [{}]", names.join(" "))
                }
            },
        };
        self.errors.push(FieldError::invalid(place, &Value::from(expression), detail));
        None
    }
}

fn check_policy(policy: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    check_constraints(spec, errors);
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", detail));
        errors.push(FieldError::required("spec.auditAnnotations", detail));
    }
    let has_params = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
    let mut stored = HashSet::new();
    strings(old.get("spec").unwrap_or(&Value::Null), &mut stored);
    let whole = environment(ExpressionScope { has_params, has_authorizer: true });
    let mut messages = environment(ExpressionScope { has_params, has_authorizer: false });
    let mut expressions = Expressions { environment: whole, stored, errors };
    check_conditions(spec, &mut expressions);
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let place = format!("spec.variables[{index}]");
        let (name, expression) = (text(variable, "name"), text(variable, "expression"));
        if !is_identifier(name) {
            let detail = "must be a valid CEL identifier";
            expressions.errors.push(FieldError::invalid(format!("{place}.name"), &Value::from(name), detail));
        }
        if expression.trim().is_empty() {
            let detail = "expression is not specified";
            expressions.errors.push(FieldError::required(format!("{place}.expression"), detail));
            continue;
        }
        let environment = expressions.environment.clone();
        if let Some(of) = expressions.check(&environment, expression, format!("{place}.expression"), &[]) {
            let name = format!("variables.{name}");
            messages = messages.with_variable(&name, of.clone());
            expressions.environment = environment.with_variable(&name, of);
        }
    }
    let environment = expressions.environment.clone();
    for (index, validation) in validations.iter().enumerate() {
        let place = format!("spec.validations[{index}]");
        let expression = text(validation, "expression");
        if expression.trim().is_empty() {
            let detail = "expression is not specified";
            expressions.errors.push(FieldError::required(format!("{place}.expression"), detail));
        } else {
            expressions.check(&environment, expression, format!("{place}.expression"), &[Type::Bool]);
        }
        let expression = text(validation, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "must be non-empty if specified";
            let place = format!("{place}.messageExpression");
            expressions.errors.push(FieldError::invalid(place, &Value::from(expression), detail));
        } else if !expression.is_empty() {
            expressions.check(&messages, expression, format!("{place}.messageExpression"), &[Type::String]);
        }
        let message = text(validation, "message");
        let fault = if !message.is_empty() && message.trim().is_empty() {
            Some("must be non-empty if specified")
        } else if message.trim().contains(['\n', '\r']) {
            Some("must not contain line breaks")
        } else {
            None
        };
        if let Some(detail) = fault {
            expressions.errors.push(FieldError::invalid(format!("{place}.message"), &Value::from(message), detail));
        }
        const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
        if let Some(reason) = validation.get("reason").filter(|reason| !reason.is_null())
            && !REASONS.iter().any(|known| reason == known)
        {
            expressions.errors.push(FieldError::not_supported(format!("{place}.reason"), reason, &REASONS));
        }
    }
    for (index, annotation) in annotations.iter().enumerate() {
        let place = format!("spec.auditAnnotations[{index}].valueExpression");
        let types = [Type::String, Type::Null];
        expressions.check(&environment, text(annotation, "valueExpression"), place, &types);
    }
}

fn check_constraints(spec: &Value, errors: &mut Vec<FieldError>) {
    match spec.get("matchConstraints").filter(|constraints| !constraints.is_null()) {
        None => errors.push(FieldError::required("spec.matchConstraints", "")),
        Some(constraints) if list(constraints, "resourceRules").is_empty() => {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
        Some(_) => {}
    }
}

fn check_conditions(spec: &Value, expressions: &mut Expressions<'_>) {
    let conditions = list(spec, "matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        let error = FieldError::too_many("spec.matchConditions", conditions.len(), MAX_CONDITIONS as u64);
        expressions.errors.push(error);
    }
    let environment = expressions.environment.clone();
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().take(MAX_CONDITIONS).enumerate() {
        let place = format!("spec.matchConditions[{index}]");
        let (name, expression) = (text(condition, "name"), text(condition, "expression").trim());
        if expression.is_empty() {
            expressions.errors.push(FieldError::required(format!("{place}.expression"), ""));
        } else {
            expressions.check(&environment, expression, format!("{place}.expression"), &[Type::Bool]);
        }
        if name.is_empty() {
            expressions.errors.push(FieldError::required(format!("{place}.name"), ""));
        } else if !names.insert(name) {
            expressions.errors.push(FieldError::duplicate(format!("{place}.name"), &Value::from(name)));
        }
    }
}

fn is_identifier(name: &str) -> bool {
    evenkeel_cel::escape(name).is_some_and(|escaped| escaped == name)
}

fn check_binding(binding: &Value, errors: &mut Vec<FieldError>) {
    let spec = binding.get("spec").unwrap_or(&Value::Null);
    if text(spec, "policyName").is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| !reference.is_null()) {
        let has_selector = reference.get("selector").is_some_and(|selector| !selector.is_null());
        match (text(reference, "name").is_empty(), has_selector) {
            (true, false) => {
                errors.push(FieldError::required("spec.paramRef", "one of name or selector must be specified"));
            }
            (false, true) => {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden("spec.paramRef.name", detail));
            }
            _ => {}
        }
    }
    let actions = list(spec, "validationActions");
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    for (index, action) in actions.iter().enumerate() {
        let place = format!("spec.validationActions[{index}]");
        if !ACTIONS.iter().any(|known| action == known) {
            errors.push(FieldError::not_supported(place, action, &ACTIONS));
        } else if actions.iter().take(index).any(|other| other == action) {
            errors.push(FieldError::duplicate(place, action));
        }
    }
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.push(FieldError::invalid("spec.validationActions", &Value::from(actions), detail));
    }
    if actions.is_empty() {
        errors.push(FieldError::required("spec.validationActions", "at least one validation action is required"));
    }
}
