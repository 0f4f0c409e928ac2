//! Compiles the expressions of a policy or a webhook when it is written.

use std::collections::HashSet;

use evenkeel_cel::{Environment, Type};
use serde_json::Value;

use super::{list, text};
use crate::engine::admission::policies::environment::with_no_variables;
use crate::field::{FieldError, is_full};
use crate::meta::{qualified_name, refuse};

/// How many match conditions a policy or webhook may have.
const MAX_CONDITIONS: usize = 64;

/// How many variables a policy may have. Upstream has no limit; each is looked up among the others when it is compiled.
const MAX_VARIABLES: usize = 1000;

/// Compiles the expressions of one object.
pub(in crate::engine::strategies) struct ExpressionCheck<'a> {
    /// What the next expression may name.
    pub(super) environment: Environment,
    /// The texts of the object that is replaced. Such an expression may use functions that new ones may not.
    stored: HashSet<&'a str>,
    pub(super) errors: &'a mut Vec<FieldError>,
}

impl<'a> ExpressionCheck<'a> {
    pub(in crate::engine::strategies) fn new(
        environment: Environment,
        old: &'a Value,
        errors: &'a mut Vec<FieldError>,
    ) -> Self {
        let mut stored = HashSet::new();
        strings(old, &mut stored);
        ExpressionCheck { environment, stored, errors }
    }

    /// Compiles an expression that must have one of these types. Returns the type.
    pub(super) fn compile(
        &mut self,
        environment: &Environment,
        expression: &str,
        place: String,
        types: &[Type],
    ) -> Option<Type> {
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
            Ok(compiled) => {
                let names: Vec<String> = types.iter().map(type_name).collect();
                let found = type_name(compiled.result_type());
                match names.as_slice() {
                    [only] => format!("must evaluate to {only} but got {found}"),
                    several => format!("must evaluate to one of [{}] but got {found}", several.join(" ")),
                }
            }
        };
        self.errors.push(FieldError::invalid(place, &Value::from(expression), detail));
        None
    }

    /// Checks the `matchConditions` of an object at this path.
    pub(in crate::engine::strategies) fn conditions(&mut self, holder: &Value, path: &str) {
        let conditions = list(holder, "matchConditions");
        let path = format!("{path}.matchConditions");
        if conditions.len() > MAX_CONDITIONS {
            self.errors.push(FieldError::too_many(path.as_str(), conditions.len(), MAX_CONDITIONS as u64));
        }
        let environment = self.environment.clone();
        let mut names = HashSet::new();
        for (index, condition) in conditions.iter().take(MAX_CONDITIONS).enumerate() {
            let place = format!("{path}[{index}]");
            let (name, expression) = (text(condition, "name"), text(condition, "expression").trim());
            if expression.is_empty() {
                self.errors.push(FieldError::required(format!("{place}.expression"), ""));
            } else {
                self.compile(&environment, expression, format!("{place}.expression"), &[Type::Bool]);
            }
            let place = format!("{place}.name");
            if name.is_empty() {
                self.errors.push(FieldError::required(place, ""));
                continue;
            }
            refuse(self.errors, &place, name, qualified_name(name));
            if !names.insert(name) {
                self.errors.push(FieldError::duplicate(place, &Value::from(name)));
            }
        }
    }

    /// Checks the variables of a policy, and declares them for later expressions. Returns their names and types.
    pub(super) fn variables(&mut self, spec: &Value) -> Vec<(String, Type)> {
        let variables = list(spec, "variables");
        if !variables.is_empty() {
            self.environment = with_no_variables(self.environment.clone());
        }
        if variables.len() > MAX_VARIABLES {
            self.errors.push(FieldError::too_many("spec.variables", variables.len(), MAX_VARIABLES as u64));
        }
        let mut declared = Vec::new();
        for (index, variable) in variables.iter().take(MAX_VARIABLES).enumerate() {
            let place = format!("spec.variables[{index}]");
            let (name, expression) = (text(variable, "name"), text(variable, "expression"));
            if name.trim().is_empty() {
                self.errors.push(FieldError::required(format!("{place}.name"), "name is not specified"));
            } else if !is_identifier(name) {
                let detail = "must be a valid CEL identifier";
                self.errors.push(FieldError::invalid(format!("{place}.name"), &Value::from(name), detail));
            }
            let place = format!("{place}.expression");
            if expression.trim().is_empty() {
                self.errors.push(FieldError::required(place, "expression is not specified"));
                continue;
            }
            let environment = std::mem::take(&mut self.environment);
            self.environment = match self.compile(&environment, expression, place, &[]) {
                Some(of) => {
                    let name = format!("variables.{name}");
                    declared.push((name.clone(), of.clone()));
                    environment.with_variable(&name, of)
                }
                None => environment,
            };
        }
        declared
    }
}

/// Returns the name of a type as messages about results have it.
fn type_name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string(),
    }
}

fn is_identifier(name: &str) -> bool {
    evenkeel_cel::escape(name).is_some_and(|escaped| escaped == name)
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
