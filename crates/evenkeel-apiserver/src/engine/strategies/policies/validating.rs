//! Checks ValidatingAdmissionPolicy, and the actions of its bindings.

use std::collections::HashSet;

use evenkeel_cel::{Environment, Type};
use serde_json::Value;

use super::expressions::ExpressionCheck;
use super::matching::check_policy;
use super::{list, set, spec_of, text};
use crate::engine::admission::policies::environment::{ExpressionScope, environment, with_no_variables};
use crate::engine::object;
use crate::field::FieldError;
use crate::meta::{qualified_name, refuse};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

/// How many audit annotations a policy may have.
const MAX_ANNOTATIONS: usize = 20;

/// The longest expression of an audit annotation, in bytes.
const MAX_VALUE_EXPRESSION: usize = 5 << 10;

pub(super) fn check_validating_policy(policy: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = spec_of(policy);
    let mut check = check_policy(spec, spec_of(old), errors);
    let declared = check.variables(spec);
    // Messages do not see the authorizer.
    let has_params = set(spec, "paramKind").is_some();
    let mut messages = environment(ExpressionScope { has_params, has_authorizer: false });
    if !list(spec, "variables").is_empty() {
        messages = with_no_variables(messages);
    }
    for (name, of) in declared {
        messages = messages.with_variable(&name, of);
    }
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        check.errors.push(FieldError::required("spec.validations", detail));
        check.errors.push(FieldError::required("spec.auditAnnotations", detail));
    }
    for (index, validation) in validations.iter().enumerate() {
        check_validation(validation, &format!("spec.validations[{index}]"), &messages, &mut check);
    }
    check_annotations(annotations, object::text(policy, "name"), &mut check);
}

fn check_validation(validation: &Value, path: &str, messages: &Environment, check: &mut ExpressionCheck<'_>) {
    let (expression, place) = (text(validation, "expression"), format!("{path}.expression"));
    if expression.trim().is_empty() {
        check.errors.push(FieldError::required(place, "expression is not specified"));
    } else {
        let environment = check.environment.clone();
        check.compile(&environment, expression, place, &[Type::Bool]);
    }
    let (expression, place) = (text(validation, "messageExpression"), format!("{path}.messageExpression"));
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "must be non-empty if specified";
        check.errors.push(FieldError::invalid(place, &Value::from(expression), detail));
    } else if !expression.is_empty() {
        check.compile(messages, expression, place, &[Type::String]);
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
        check.errors.push(FieldError::invalid(format!("{path}.message"), &Value::from(message), detail));
    }
    if let Some(reason) = set(validation, "reason")
        && !REASONS.iter().any(|known| reason == known)
    {
        check.errors.push(FieldError::not_supported(format!("{path}.reason"), reason, &REASONS));
    }
}

fn check_annotations(annotations: &[Value], policy: &str, check: &mut ExpressionCheck<'_>) {
    if annotations.len() > MAX_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        let error = FieldError::invalid("spec.auditAnnotations", &Value::from(annotations), detail);
        check.errors.push(error);
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().take(MAX_ANNOTATIONS).enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        let (key, expression) = (text(annotation, "key"), text(annotation, "valueExpression").trim());
        let full = format!("{policy}/{key}");
        refuse(check.errors, format_args!("{path}.key"), &full, qualified_name(&full));
        if !keys.insert(key) {
            check.errors.push(FieldError::duplicate(format!("{path}.key"), &Value::from(key)));
        }
        let place = format!("{path}.valueExpression");
        if expression.is_empty() {
            check.errors.push(FieldError::required(place, "valueExpression is not specified"));
        } else if expression.len() > MAX_VALUE_EXPRESSION {
            let detail = format!("must not exceed {MAX_VALUE_EXPRESSION} bytes in length");
            check.errors.push(FieldError::required(place, detail));
        } else {
            let environment = check.environment.clone();
            check.compile(&environment, expression, place, &[Type::String, Type::Null]);
        }
    }
}

pub(super) fn check_actions(spec: &Value, errors: &mut Vec<FieldError>) {
    let actions = list(spec, "validationActions");
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
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
