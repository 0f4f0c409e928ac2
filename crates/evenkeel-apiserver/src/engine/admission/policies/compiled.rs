//! Policies and bindings in compiled form, one per version of the object.

use evenkeel_cel::{CompileError, Environment};
use evenkeel_core::LabelSelector;
use serde_json::Value;

use super::conditions::MatchConditions;
use super::environment::{ExpressionScope, NamedExpressions, environment};
use crate::engine::admission::rules::AdmissionRules;
use crate::store::Record;

/// A policy; `E` is what its kind evaluates.
#[derive(Debug)]
pub(crate) struct CompiledPolicy<E> {
    pub(super) fails_open: bool,
    /// The `apiVersion` and `kind` of parameters.
    pub(super) param_kind: Option<(String, String)>,
    /// What is matched, or why it cannot be known.
    pub(super) rules: Result<AdmissionRules, String>,
    /// The expressions, or why they do not compile. Validation refuses such policies.
    pub(super) expressions: Result<PolicyExpressions<E>, CompileError>,
}

/// The expressions of a policy.
#[derive(Debug)]
pub(super) struct PolicyExpressions<E> {
    pub(super) conditions: MatchConditions,
    pub(super) variables: NamedExpressions,
    pub(super) own: E,
}

/// The expressions that only one kind of policy has.
pub(crate) trait OwnExpressions: Sized {
    /// Compiles them; `environment` has the variables of the policy.
    fn compile(spec: &Value, environment: &Environment) -> Result<Self, CompileError>;
}

/// The binding of a policy.
#[derive(Debug)]
pub(crate) struct CompiledBinding {
    pub(super) policy: String,
    pub(super) rules: Result<AdmissionRules, String>,
    /// What follows a failed validation. Bindings of mutating policies have none.
    pub(super) actions: Vec<String>,
    pub(super) params: Option<ParamRef>,
}

/// `paramRef` of a binding.
#[derive(Debug)]
pub(super) struct ParamRef {
    pub(super) name: Option<String>,
    pub(super) selector: Option<Result<LabelSelector, String>>,
    pub(super) namespace: String,
    pub(super) denies_without: bool,
}

pub(super) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl<E: OwnExpressions> CompiledPolicy<E> {
    pub(crate) fn of(_: &str, record: &Record) -> Self {
        let policy = record.value();
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        CompiledPolicy {
            fails_open: spec.get("failurePolicy").and_then(Value::as_str) == Some("Ignore"),
            param_kind: spec
                .get("paramKind")
                .filter(|kind| !kind.is_null())
                .map(|kind| (text(kind, "apiVersion"), text(kind, "kind"))),
            rules: AdmissionRules::of_policy(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            expressions: PolicyExpressions::compile(spec),
        }
    }
}

impl<E: OwnExpressions> PolicyExpressions<E> {
    fn compile(spec: &Value) -> Result<Self, CompileError> {
        let plain = environment(ExpressionScope { has_params: has_params(spec), has_authorizer: true });
        let conditions = MatchConditions::compile(&plain, list(spec, "matchConditions"))?;
        let (whole, variables) = NamedExpressions::compile(plain, list(spec, "variables"))?;
        Ok(PolicyExpressions { conditions, variables, own: E::compile(spec, &whole)? })
    }
}

/// Returns whether a policy has parameters.
pub(super) fn has_params(spec: &Value) -> bool {
    spec.get("paramKind").is_some_and(|kind| !kind.is_null())
}

impl CompiledBinding {
    pub(crate) fn of(_: &str, record: &Record) -> Self {
        let binding = record.value();
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        CompiledBinding {
            policy: text(spec, "policyName"),
            rules: AdmissionRules::of_policy(spec.get("matchResources").unwrap_or(&Value::Null)),
            actions: list(spec, "validationActions").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            params: spec.get("paramRef").filter(|reference| !reference.is_null()).map(|reference| ParamRef {
                name: Some(text(reference, "name")).filter(|name| !name.is_empty()),
                selector: reference
                    .get("selector")
                    .filter(|selector| !selector.is_null())
                    .map(|selector| LabelSelector::from_json(selector).map_err(|error| error.to_string())),
                namespace: text(reference, "namespace"),
                denies_without: text(reference, "parameterNotFoundAction") == "Deny",
            }),
        }
    }
}
