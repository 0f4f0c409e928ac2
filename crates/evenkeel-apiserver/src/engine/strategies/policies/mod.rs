//! Policies of admission and their bindings: what is refused when they are written.
//!
//! `matching` checks what both kinds of policies and bindings have, `expressions` compiles; webhooks use the latter too.

pub(super) mod expressions;
mod matching;
mod mutating;
mod validating;

use serde_json::Value;

use self::matching::{check_binding, check_operations};
use self::mutating::check_mutating_policy;
use self::validating::{check_actions, check_validating_policy};
use super::{BuiltinKind, KindHooks, add_new};
use crate::engine::ApiEngine;
use crate::engine::target::WriteScope;
use crate::field::FieldError;
use crate::registry::Resource;

/// The hooks of policies and of their bindings: those of a built-in kind, and a check of the spec.
#[derive(Debug)]
pub(crate) struct PolicyHooks {
    /// Checks a new spec that replaces another; null for a new object.
    check: fn(policy: &Value, old: &Value, errors: &mut Vec<FieldError>),
    /// The status says whether expressions fit the types that they are about.
    has_status: bool,
}

/// The hooks of ValidatingAdmissionPolicy.
pub(crate) const VALIDATING_POLICY_HOOKS: PolicyHooks =
    PolicyHooks { check: check_validating_policy, has_status: true };

/// The hooks of ValidatingAdmissionPolicyBinding.
pub(crate) const VALIDATING_BINDING_HOOKS: PolicyHooks = PolicyHooks {
    check: |binding, _, errors| {
        let spec = spec_of(binding);
        check_binding(spec, errors);
        check_actions(spec, errors);
    },
    has_status: false,
};

/// The hooks of MutatingAdmissionPolicy.
pub(crate) const MUTATING_POLICY_HOOKS: PolicyHooks = PolicyHooks { check: check_mutating_policy, has_status: false };

/// The hooks of MutatingAdmissionPolicyBinding.
pub(crate) const MUTATING_BINDING_HOOKS: PolicyHooks = PolicyHooks {
    check: |binding, _, errors| {
        let spec = spec_of(binding);
        check_binding(spec, errors);
        check_operations(spec, "matchResources", errors);
    },
    has_status: false,
};

impl PolicyHooks {
    fn add_errors(&self, policy: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        let mut found = Vec::new();
        (self.check)(policy, old, &mut found);
        add_new(errors, found);
    }
}

impl KindHooks for PolicyHooks {
    fn after_write(&self, engine: &ApiEngine, name: &str) {
        if self.has_status {
            engine.check_policy_types(name);
        }
    }

    fn validate_create(&self, resource: &Resource, new: &Value, errors: &mut Vec<FieldError>) {
        self.add_errors(new, &Value::Null, errors);
        BuiltinKind.validate_create(resource, new, errors);
    }

    fn validate_update(
        &self,
        resource: &Resource,
        scope: WriteScope<'_>,
        new: &Value,
        old: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        if scope == WriteScope::Main {
            self.add_errors(new, old, errors);
        }
        BuiltinKind.validate_update(resource, scope, new, old, errors);
    }
}

fn spec_of(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a value unless it is absent or null.
fn set<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}
