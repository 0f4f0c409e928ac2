//! Checks MutatingAdmissionPolicy.

use std::sync::Arc;

use evenkeel_cel::{ObjectDecl, Type};
use serde_json::Value;

use super::expressions::ExpressionCheck;
use super::matching::{check_operations, check_policy, one_of};
use super::{list, set, spec_of, text};
use crate::field::FieldError;

const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];

pub(super) fn check_mutating_policy(policy: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = spec_of(policy);
    check_operations(spec, "matchConstraints", errors);
    let mut check = check_policy(spec, spec_of(old), errors);
    check.variables(spec);
    let mutations = list(spec, "mutations");
    if mutations.is_empty() {
        check.errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        check_mutation(mutation, &format!("spec.mutations[{index}]"), &mut check);
    }
    one_of(spec, "reinvocationPolicy", "spec", &["IfNeeded", "Never"], check.errors);
}

fn check_mutation(mutation: &Value, path: &str, check: &mut ExpressionCheck<'_>) {
    let patch_type = text(mutation, "patchType");
    let (own, other, result) = match patch_type {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", object_type("Object")),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Type::list(object_type("JSONPatch"))),
        _ => return one_of(mutation, "patchType", path, &PATCH_TYPES, check.errors),
    };
    match set(mutation, own) {
        None => {
            let detail = format!("must be specified when patchType is {patch_type}");
            check.errors.push(FieldError::required(format!("{path}.{own}"), detail));
        }
        Some(patch) => {
            let expression = text(patch, "expression").trim();
            let place = format!("{path}.{own}.expression");
            if expression.is_empty() {
                check.errors.push(FieldError::required(place, ""));
            } else {
                let environment = check.environment.clone().with_patch_types();
                check.compile(&environment, expression, place, &[result]);
            }
        }
    }
    if set(mutation, other).is_some() {
        let detail = format!("must not be specified when patchType is {patch_type}");
        let value = Value::from(format!("{{{other}}}"));
        check.errors.push(FieldError::invalid(format!("{path}.{other}"), &value, detail));
    }
}

fn object_type(name: &str) -> Type {
    Type::Object(Arc::new(ObjectDecl::open(name)))
}
