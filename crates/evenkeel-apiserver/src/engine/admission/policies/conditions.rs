//! `matchConditions` of policies and webhooks (VAP-003).

use evenkeel_cel::{CompileError, Environment, Program, Value as CelValue};
use serde_json::Value;

use super::environment::{ExpressionFault, PolicyVariables};

/// What all conditions together may cost.
pub(crate) const CONDITIONS_BUDGET: u64 = 2_500_000;

/// Compiled conditions, all of which must hold.
#[derive(Debug, Default)]
pub(crate) struct MatchConditions(Vec<(String, Program)>);

impl MatchConditions {
    /// Compiles conditions.
    pub(crate) fn compile(environment: &Environment, list: &[Value]) -> Result<Self, CompileError> {
        let mut compiled = Vec::with_capacity(list.len());
        for condition in list {
            let expression = condition.get("expression").and_then(Value::as_str).unwrap_or_default().trim();
            compiled.push((expression.to_owned(), environment.compile(expression)?.into_program()));
        }
        Ok(MatchConditions(compiled))
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether all conditions hold. A condition that is false decides; errors count only without one.
    ///
    /// # Errors
    /// The texts of the errors.
    pub(crate) fn hold(&self, variables: &PolicyVariables<'_>) -> Result<bool, String> {
        let mut faults = Vec::new();
        for (expression, program) in &self.0 {
            match variables.evaluate(program) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(_) => faults.push(format!("expression '{expression}' resulted in error: not a boolean")),
                Err(fault) => faults.push(fault_text(expression, &fault)),
            }
        }
        match faults.as_slice() {
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// Returns the text of an expression that has no value.
pub(super) fn fault_text(expression: &str, fault: &ExpressionFault) -> String {
    match fault {
        ExpressionFault::Failed(error) => format!("expression '{expression}' resulted in error: {error}"),
        ExpressionFault::BudgetSpent => {
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        }
    }
}
