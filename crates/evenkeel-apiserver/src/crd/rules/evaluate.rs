//! Runs the rules over an object (CEL-002, CEL-009 to CEL-026).

use evenkeel_cel::{EvalError, Value as CelValue, Variables};
use serde_json::Value;

use super::{CompiledRule, RuleReason, RuleTree};
use crate::field::{FieldError, FieldFault, is_full};
use crate::schema::path::Path;

/// What one evaluation may cost.
const RULE_LIMIT: u64 = 1_000_000;

/// What all evaluations of one write may cost.
const WRITE_LIMIT: u64 = 10_000_000;

/// The longest message that an expression may compute, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

const BUDGET_SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// What the rules found.
#[derive(Debug, Default)]
pub(crate) struct RuleFindings {
    pub(crate) errors: Vec<FieldError>,
    /// Failures of values that the update does not change (CEL-026).
    pub(crate) warnings: Vec<String>,
}

impl RuleTree {
    /// Runs all rules, unless the schema found errors that rules may trip over. `known` are the errors of the schema.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>, known: &[FieldError]) -> RuleFindings {
        let blocks = |error: &FieldError| {
            matches!(
                error.fault,
                FieldFault::Required
                    | FieldFault::NotSupported
                    | FieldFault::TooLong
                    | FieldFault::TooMany
                    | FieldFault::TypeInvalid
            )
        };
        if known.iter().any(blocks) {
            let error = FieldError::invalid("<nil>", &Value::Null, NOT_CHECKED);
            return RuleFindings { errors: vec![error], warnings: Vec::new() };
        }
        let mut run = Run { findings: RuleFindings::default(), left: WRITE_LIMIT, path: Path::default() };
        let correlation = Correlation { current: old.map(|old| (new, old)), parent: None, is_root: true };
        // Stopping early is a finding itself.
        let _ = run.node(self, new, old, correlation);
        run.findings
    }
}

/// The value and the old value of a node or, without one, of the closest node above that has one. A failure is tolerated
/// if they are equal.
#[derive(Clone, Copy)]
struct Correlation<'v> {
    current: Option<(&'v Value, &'v Value)>,
    parent: Option<(&'v Value, &'v Value)>,
    is_root: bool,
}

impl<'v> Correlation<'v> {
    fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(|(new, old)| new == old)
    }

    fn child(self, name: &str, new: &'v Value, old: Option<&'v Value>) -> Self {
        if self.current.is_none() {
            return Correlation { is_root: false, ..self };
        }
        // The version of an object is not part of its content.
        if self.is_root && matches!(name, "apiVersion" | "kind") {
            return Correlation { current: None, parent: None, is_root: false };
        }
        Correlation { current: old.map(|old| (new, old)), parent: self.current, is_root: false }
    }
}

/// The budget of the write is spent: no further rule runs.
struct Stop;

struct Run {
    findings: RuleFindings,
    left: u64,
    path: Path,
}

struct RuleVariables<'v> {
    this: CelValue<'v>,
    old: Option<CelValue<'v>>,
    optional: bool,
}

impl<'v> Variables<'v> for RuleVariables<'v> {
    fn value(&self, name: &str) -> Option<Result<CelValue<'v>, EvalError>> {
        match (name, self.optional) {
            ("self", _) => Some(Ok(self.this.clone())),
            ("oldSelf", false) => self.old.clone().map(Ok),
            ("oldSelf", true) => Some(Ok(CelValue::Optional(self.old.clone().map(Into::into)))),
            _ => None,
        }
    }
}

impl Run {
    fn node<'v>(
        &mut self,
        tree: &'v RuleTree,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) -> Result<(), Stop> {
        if new.is_null() || is_full(&self.findings.errors) {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(tree, new, old, correlation)?;
        match new {
            Value::Array(items) => {
                let Some(child) = &tree.items else { return Ok(()) };
                let old_items = old.and_then(Value::as_array).filter(|_| !tree.keys.is_empty());
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.and_then(|items| items.iter().find(|old| has_keys_of(old, item, &tree.keys)));
                    let mark = self.path.push_index(index);
                    self.node(child, item, old, correlation.child("", item, old))?;
                    self.path.back(mark);
                }
            }
            Value::Object(fields) => {
                let old_field = |name: &str| old.filter(|_| tree.has_old_fields).and_then(|old| old.get(name));
                if let Some(child) = &tree.values {
                    for (name, value) in fields {
                        let old = old_field(name);
                        let mark = self.path.push_key(name);
                        self.node(child, value, old, correlation.child(name, value, old))?;
                        self.path.back(mark);
                    }
                }
                // By name. The order of siblings is random upstream.
                for (name, child) in &tree.properties {
                    let Some(value) = fields.get(&**name) else { continue };
                    let old = old_field(name);
                    let mark = self.path.push(name);
                    self.node(child, value, old, correlation.child(name, value, old))?;
                    self.path.back(mark);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules<'v>(
        &mut self,
        tree: &'v RuleTree,
        new: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) -> Result<(), Stop> {
        let Some(decl) = tree.decl.as_ref().filter(|_| !tree.rules.is_empty()) else { return Ok(()) };
        let mut variables = RuleVariables {
            this: CelValue::from_json(new, decl),
            old: old.map(|old| CelValue::from_json(old, decl)),
            optional: false,
        };
        for rule in &tree.rules {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            if self.left == 0 {
                return Err(self.stop(tree, BUDGET_SPENT.to_owned()));
            }
            variables.optional = rule.optional_old;
            let evaluation = rule.program.evaluate(&variables, RULE_LIMIT);
            let Some(left) = self.left.checked_sub(evaluation.cost) else {
                return Err(self.stop(tree, BUDGET_SPENT.to_owned()));
            };
            self.left = left;
            let shown = if rule.message.is_empty() { &rule.source } else { &rule.message };
            let detail = match evaluation.result {
                Ok(CelValue::Bool(true)) => continue,
                Ok(_) => None,
                Err(error @ EvalError::CostLimit) => {
                    let detail = format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    );
                    return Err(self.stop(tree, detail));
                }
                Err(error @ EvalError::NoSuchOverload(_)) => Some(format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                )),
                Err(error) => Some(format!("{error} evaluating rule: {shown}")),
            };
            if let Some(detail) = detail {
                self.findings.errors.push(self.unevaluated(tree, detail));
                continue;
            }
            variables.optional = false;
            let message = self.message(tree, rule, &variables)?;
            let error = self.failure(tree, rule, new, message);
            if !rule.uses_old && correlation.is_unchanged() {
                self.findings.warnings.push(error.to_string());
            } else {
                self.findings.errors.push(error);
            }
        }
        Ok(())
    }

    fn unevaluated(&self, tree: &RuleTree, detail: String) -> FieldError {
        FieldError::invalid(self.path.field(), &Value::from(&*tree.kind), detail)
    }

    fn stop(&mut self, tree: &RuleTree, detail: String) -> Stop {
        let error = self.unevaluated(tree, detail);
        self.findings.errors.push(error);
        Stop
    }

    /// Returns the message of a failed rule (CEL-011, CEL-012).
    fn message(&mut self, tree: &RuleTree, rule: &CompiledRule, variables: &RuleVariables<'_>) -> Result<String, Stop> {
        if let Some(program) = &rule.message_program {
            let evaluation = program.evaluate(variables, RULE_LIMIT);
            let spent = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            let Some(left) = self.left.checked_sub(evaluation.cost) else {
                return Err(self.stop(tree, spent.to_owned()));
            };
            self.left = left;
            match evaluation.result {
                Ok(CelValue::String(text)) => {
                    let text = text.trim();
                    if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                        return Ok(text.to_owned());
                    }
                }
                Err(EvalError::CostLimit) => {
                    let detail =
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                    return Err(self.stop(tree, detail.to_owned()));
                }
                _ => {}
            }
        }
        Ok(if rule.message.is_empty() { format!("failed rule: {}", rule.source) } else { rule.message.clone() })
    }

    fn failure(&self, tree: &RuleTree, rule: &CompiledRule, value: &Value, message: String) -> FieldError {
        let field = match &rule.field_path {
            Some(below) if below.starts_with('[') => format!("{}{below}", self.path.as_str()),
            Some(below) => self.path.child(below),
            None => self.path.field(),
        };
        let is_composite = matches!(&*tree.kind, "object" | "array");
        let mut error = FieldError::invalid(field, value, message);
        if is_composite {
            error.value = None;
        }
        match rule.reason {
            RuleReason::Invalid => {}
            RuleReason::Forbidden => (error.fault, error.value) = (FieldFault::Forbidden, None),
            RuleReason::Required => (error.fault, error.value) = (FieldFault::Required, None),
            RuleReason::Duplicate => {
                error.fault = FieldFault::Duplicate;
                error.detail.clear();
            }
        }
        error
    }
}

/// Returns whether two items of a list have the same keys.
fn has_keys_of(a: &Value, b: &Value, keys: &[String]) -> bool {
    keys.iter().all(|key| a.get(key) == b.get(key))
}
