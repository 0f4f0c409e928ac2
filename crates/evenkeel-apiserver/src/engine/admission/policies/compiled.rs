//! Policies and bindings in compiled form, one per version of the object.

use evenkeel_cel::{CompileError, Program};
use evenkeel_core::LabelSelector;
use serde_json::Value;

use super::conditions::MatchConditions;
use super::environment::{ExpressionScope, environment, variables};
use crate::engine::admission::rules::AdmissionRules;
use crate::store::Record;

/// A ValidatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct CompiledPolicy {
    pub(super) fails_open: bool,
    /// The `apiVersion` and `kind` of parameters.
    pub(super) param_kind: Option<(String, String)>,
    /// What is matched, or why it cannot be known.
    pub(super) rules: Result<AdmissionRules, String>,
    /// The expressions, or why they do not compile. Admission refuses such policies.
    pub(super) expressions: Result<PolicyExpressions, CompileError>,
}

/// The expressions of a policy.
#[derive(Debug)]
pub(super) struct PolicyExpressions {
    pub(super) conditions: MatchConditions,
    pub(super) variables: Vec<(String, Program)>,
    pub(super) validations: Vec<CompiledValidation>,
    pub(super) audit_annotations: Vec<(String, String, Program)>,
}

/// One element of `validations`.
#[derive(Debug)]
pub(super) struct CompiledValidation {
    pub(super) expression: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) message_program: Option<Program>,
    pub(super) reason: String,
}

/// A ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub(crate) struct CompiledBinding {
    pub(super) policy: String,
    pub(super) rules: Result<AdmissionRules, String>,
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

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl CompiledPolicy {
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

impl PolicyExpressions {
    fn compile(spec: &Value) -> Result<Self, CompileError> {
        let has_params = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
        let whole = environment(ExpressionScope { has_params, has_authorizer: true });
        let conditions = MatchConditions::compile(&whole, list(spec, "matchConditions"))?;
        let (whole, named) = variables(whole, list(spec, "variables"))?;
        // Messages do not see the authorizer. Variables that do are not usable in them.
        let messages = environment(ExpressionScope { has_params, has_authorizer: false });
        let messages = variables(messages, list(spec, "variables")).map_or(whole.clone(), |(messages, _)| messages);
        let mut validations = Vec::new();
        for validation in list(spec, "validations") {
            let expression = text(validation, "expression");
            let message_program = match text(validation, "messageExpression") {
                expression if expression.trim().is_empty() => None,
                expression => Some(messages.compile(&expression)?.into_program()),
            };
            validations.push(CompiledValidation {
                program: whole.compile(&expression)?.into_program(),
                expression: expression.trim().to_owned(),
                message: text(validation, "message").trim().to_owned(),
                message_program,
                reason: text(validation, "reason"),
            });
        }
        let mut audit_annotations = Vec::new();
        for annotation in list(spec, "auditAnnotations") {
            let expression = text(annotation, "valueExpression");
            let program = whole.compile(&expression)?.into_program();
            audit_annotations.push((text(annotation, "key"), expression, program));
        }
        Ok(PolicyExpressions { conditions, variables: named, validations, audit_annotations })
    }
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
