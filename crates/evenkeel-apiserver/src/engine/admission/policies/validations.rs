//! The validations and audit annotations of a policy, and their evaluation.

use evenkeel_cel::{CompileError, Environment, Program, Value as CelValue};
use serde_json::Value;

use super::compiled::{OwnExpressions, PolicyExpressions, has_params, list, text};
use super::conditions::{CONDITIONS_BUDGET, fault_text};
use super::environment::{ExpressionFault, ExpressionScope, NamedExpressions, PolicyVariables, environment};

/// What all validations of a binding may cost, and what all its annotations may.
const VALIDATIONS_BUDGET: u64 = 10_000_000;

/// The longest computed message, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

/// What a ValidatingAdmissionPolicy evaluates.
#[derive(Debug)]
pub(crate) struct Validations {
    validations: Vec<Validation>,
    annotations: Vec<AuditAnnotation>,
}

/// One element of `validations`.
#[derive(Debug)]
struct Validation {
    expression: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: String,
}

/// One element of `auditAnnotations`.
#[derive(Debug)]
struct AuditAnnotation {
    key: String,
    expression: String,
    program: Program,
}

/// A validation that did not hold, or could not be evaluated.
#[derive(Debug)]
pub(super) struct Denial {
    /// The position of the validation in the policy.
    pub(super) index: usize,
    pub(super) message: String,
    /// Empty for the default.
    pub(super) reason: String,
}

impl Denial {
    pub(super) fn new(message: String) -> Self {
        Denial { index: 0, message, reason: String::new() }
    }
}

/// The result of one evaluation of a policy.
#[derive(Debug, Default)]
pub(super) struct ValidationOutcome {
    pub(super) denials: Vec<Denial>,
    /// Keys and values for the audit log.
    pub(super) annotations: Vec<(String, String)>,
    /// Why annotations could not be evaluated, which denies the write.
    pub(super) annotation_faults: Vec<String>,
}

impl OwnExpressions for Validations {
    fn compile(spec: &Value, whole: &Environment) -> Result<Self, CompileError> {
        // Messages do not see the authorizer. Variables that do are not usable in them.
        let messages = environment(ExpressionScope { has_params: has_params(spec), has_authorizer: false });
        let messages = NamedExpressions::compile(messages, list(spec, "variables"));
        let messages = messages.map_or(whole.clone(), |(messages, _)| messages);
        let mut validations = Vec::new();
        for validation in list(spec, "validations") {
            let expression = text(validation, "expression");
            let message_program = match text(validation, "messageExpression") {
                expression if expression.trim().is_empty() => None,
                expression => Some(messages.compile(&expression)?.into_program()),
            };
            validations.push(Validation {
                program: whole.compile(&expression)?.into_program(),
                expression: expression.trim().to_owned(),
                message: text(validation, "message").trim().to_owned(),
                message_program,
                reason: text(validation, "reason"),
            });
        }
        let mut annotations = Vec::new();
        for annotation in list(spec, "auditAnnotations") {
            let expression = text(annotation, "valueExpression").trim().to_owned();
            let program = whole.compile(&expression)?.into_program();
            annotations.push(AuditAnnotation { key: text(annotation, "key"), expression, program });
        }
        Ok(Validations { validations, annotations })
    }
}

impl PolicyExpressions<Validations> {
    /// Evaluates a policy; `variables` returns fresh values without a budget. Errors count unless the policy fails open.
    pub(super) fn evaluate<'a>(
        &'a self,
        fails_open: bool,
        variables: impl Fn() -> PolicyVariables<'a>,
    ) -> ValidationOutcome {
        let mut outcome = ValidationOutcome::default();
        let only = |message: String| match fails_open {
            true => ValidationOutcome::default(),
            false => ValidationOutcome { denials: vec![Denial::new(message)], ..ValidationOutcome::default() },
        };
        match self.conditions.hold(&variables().with_budget(CONDITIONS_BUDGET)) {
            Ok(true) => {}
            Ok(false) => return outcome,
            Err(error) => return only(error),
        }
        let values = variables().with_budget(VALIDATIONS_BUDGET);
        for (index, validation) in self.own.validations.iter().enumerate() {
            match values.evaluate(&validation.program) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => outcome.denials.push(Denial {
                    index,
                    message: validation.message(&values),
                    reason: validation.reason.clone(),
                }),
                Err(fault) => {
                    let message = fault_text(&validation.expression, &fault);
                    if matches!(fault, ExpressionFault::BudgetSpent) {
                        return only(message);
                    }
                    if !fails_open {
                        outcome.denials.push(Denial { index, ..Denial::new(message) });
                    }
                }
            }
        }
        let values = variables().with_budget(VALIDATIONS_BUDGET);
        for annotation in &self.own.annotations {
            match values.evaluate(&annotation.program) {
                Ok(CelValue::String(text)) if !text.trim().is_empty() => {
                    outcome.annotations.push((annotation.key.clone(), text.trim().to_owned()));
                }
                Ok(CelValue::String(_) | CelValue::Null) => {}
                Ok(_) => outcome.annotation_faults.push(format!(
                    "valueExpression '{}' resulted in unsupported return type. Return type must be either string or null.",
                    annotation.expression
                )),
                Err(fault) => {
                    let message = fault_text(&annotation.expression, &fault);
                    if matches!(fault, ExpressionFault::BudgetSpent) {
                        return only(message);
                    }
                    if !fails_open {
                        outcome.annotation_faults.push(message);
                    }
                }
            }
        }
        outcome
    }
}

impl Validation {
    fn message(&self, variables: &PolicyVariables<'_>) -> String {
        if let Some(program) = &self.message_program
            && let Ok(CelValue::String(text)) = variables.evaluate(program)
        {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if self.message.is_empty() {
            return format!("failed expression: {}", self.expression);
        }
        self.message.clone()
    }
}
