//! Checks rules when a definition is written (CEL-024, CEL-025, CEL-028 to CEL-035).

use std::collections::HashSet;

use evenkeel_cel::{DeclType, Environment, MAX_REQUEST_BYTES, Type};
use serde_json::Value;

use super::super::{flag, list, text};
use super::{ChildStep, children, declare, environment, field_path, has_rules, is_embedded};
use crate::field::{FieldError, is_full};

/// What one rule may cost at most, by its estimate.
const RULE_LIMIT: u64 = 10_000_000;

/// What all rules of a schema may cost at most, by their estimates.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// How many of the most expensive rules an error names.
const NAMED_RULES: usize = 4;

/// Returns the errors of the rules of a schema. `known` are the other errors of the schema; rules at and above them are
/// not compiled. `stored` are the expressions of the definition that is being replaced.
pub(crate) fn check(schema: &Value, path: &str, known: &[FieldError], stored: &HashSet<&str>) -> Vec<FieldError> {
    if !has_rules(schema) {
        return Vec::new();
    }
    let mut checker = Checker { known, stored, errors: Vec::new(), static_errors: 0, total: 0, expensive: Vec::new() };
    checker.node(schema, path, &Place { is_root: true, cardinality: Some(1), uncorrelatable: None });
    if checker.total > SCHEMA_LIMIT {
        for (place, _) in &checker.expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            checker.errors.push(FieldError::forbidden(place, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        checker.errors.push(FieldError::forbidden(path, too_expensive(what, checker.total, SCHEMA_LIMIT)));
    }
    checker.errors
}

/// Adds the expressions of a schema.
pub(crate) fn expressions<'a>(schema: &'a Value, found: &mut HashSet<&'a str>) {
    for rule in list(schema, &["x-kubernetes-validations"]) {
        found.extend([text(rule, &["rule"]), text(rule, &["messageExpression"])]);
    }
    children(schema).for_each(|(_, child)| expressions(child, found));
}

/// Where a schema stands.
struct Place {
    is_root: bool,
    /// How many values of the schema an object has at most; `None` without a limit.
    cardinality: Option<u64>,
    /// The path of the list or map above whose elements have no old values.
    uncorrelatable: Option<String>,
}

struct Checker<'a> {
    known: &'a [FieldError],
    stored: &'a HashSet<&'a str>,
    errors: Vec<FieldError>,
    /// How many errors are not about expressions.
    static_errors: usize,
    total: u64,
    expensive: Vec<(String, u64)>,
}

impl Checker<'_> {
    fn node(&mut self, schema: &Value, path: &str, place: &Place) {
        if is_full(&self.errors) || !has_rules(schema) {
            return;
        }
        let static_errors = self.static_errors;
        let factor = match text(schema, &["type"]) {
            "object" if schema.get("additionalProperties").is_some() => schema.get("maxProperties"),
            "array" => schema.get("maxItems"),
            _ => Some(&Value::Null),
        };
        let factor = factor.map(|limit| limit.as_i64().map_or(1, |limit| u64::try_from(limit).unwrap_or(0)));
        let cardinality = place.cardinality.zip(factor).map(|(a, b)| a.saturating_mul(b));
        let list_type = text(schema, &["x-kubernetes-list-type"]);
        let replaces_all = text(schema, &["x-kubernetes-map-type"]) == "atomic";
        for (step, child) in children(schema) {
            let (below, has_old) = match step {
                ChildStep::Property(name) => (format!("{path}.properties[{name}]"), !replaces_all),
                ChildStep::Values => (format!("{path}.additionalProperties"), !replaces_all),
                ChildStep::Items => (format!("{path}.items"), list_type == "map"),
            };
            let uncorrelatable = place.uncorrelatable.clone().or_else(|| (!has_old).then(|| path.to_owned()));
            self.node(child, &below, &Place { is_root: false, cardinality, uncorrelatable });
        }
        let rules = list(schema, &["x-kubernetes-validations"]);
        for (index, rule) in rules.iter().enumerate() {
            self.static_checks(rule, schema, &format!("{path}.x-kubernetes-validations[{index}]"));
        }
        let is_sound =
            self.static_errors == static_errors && !self.known.iter().any(|error| is_below(&error.field, path));
        if rules.is_empty() || !is_sound {
            return;
        }
        let Some(decl) = declare::declared(schema, place.is_root || is_embedded(schema)) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                          unable to convert structural schema to CEL declarations";
            let field = format!("{path}.x-kubernetes-validations");
            self.errors.push(FieldError::invalid(field, &Value::Null, detail));
            return;
        };
        let cardinality = place.cardinality.unwrap_or(MAX_REQUEST_BYTES / (decl.min_serialized() + 1));
        for (index, rule) in rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            self.compile(rule, &decl, &path, cardinality, place.uncorrelatable.as_deref());
        }
    }

    fn static_checks(&mut self, rule: &Value, schema: &Value, path: &str) {
        let before = self.errors.len();
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (text(rule, &["rule"]).trim(), text(rule, &["message"]));
        let quoted = |key: &str| Value::from(text(rule, &[key]));
        if source.is_empty() {
            self.errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            self.errors.push(FieldError::invalid(format!("{path}.message"), &quoted("message"), detail));
        } else if has_breaks(message.trim()) {
            let detail = "must not contain line breaks";
            self.errors.push(FieldError::invalid(format!("{path}.message"), &quoted("message"), detail));
        } else if has_breaks(source) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            self.errors.push(FieldError::required(format!("{path}.message"), detail));
        }
        let expression = text(rule, &["messageExpression"]);
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(format!("{path}.messageExpression"), detail));
        }
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(reason) = rule.get("reason").filter(|reason| !reason.is_null())
            && !REASONS.iter().any(|known| reason == known)
        {
            self.errors.push(FieldError::not_supported(format!("{path}.reason"), reason, &REASONS));
        }
        let below = text(rule, &["fieldPath"]);
        let place = format!("{path}.fieldPath");
        if !below.is_empty() && below.trim().is_empty() {
            self.errors.push(FieldError::invalid(&*place, &quoted("fieldPath"), "must be non-empty if specified"));
        }
        if has_breaks(below) {
            self.errors.push(FieldError::invalid(&*place, &quoted("fieldPath"), "must not contain line breaks"));
        }
        if !below.is_empty() && field_path::resolve(below, schema).is_none() {
            self.errors.push(FieldError::invalid(place, &quoted("fieldPath"), "must be a valid path"));
        }
        self.static_errors += self.errors.len() - before;
    }

    /// Returns the environment of an expression: the functions of the previous release, unless the expression is stored.
    fn environment(&self, decl: &DeclType, optional_old: bool, expression: &str) -> Environment {
        let environment = environment(decl, optional_old);
        if self.stored.contains(expression) { environment } else { environment.for_new_expressions() }
    }

    fn compile(&mut self, rule: &Value, decl: &DeclType, path: &str, cardinality: u64, uncorrelatable: Option<&str>) {
        let source = text(rule, &["rule"]);
        let place = format!("{path}.rule");
        let optional_old = flag(rule, &["optionalOldSelf"]);
        let environment = self.environment(decl, optional_old, source);
        let compiled = match environment.compile(source) {
            Err(error) => return self.refuse(&place, rule, format!("compilation failed: {error}")),
            Ok(compiled) if *compiled.result_type() != Type::Bool => {
                return self.refuse(&place, rule, "cel expression must evaluate to a bool".to_owned());
            }
            Ok(compiled) => compiled,
        };
        let cost = compiled.estimate(&environment).max.saturating_mul(cardinality);
        self.charge(&place, cost, "estimated rule cost");
        let expression = text(rule, &["messageExpression"]);
        if !expression.is_empty() {
            let place = format!("{path}.messageExpression");
            let environment = self.environment(decl, optional_old, expression);
            match environment.compile(expression) {
                Err(error) => self.refuse(&place, rule, format!("messageExpression compilation failed: {error}")),
                Ok(compiled) if *compiled.result_type() != Type::String => {
                    self.refuse(&place, rule, "messageExpression must evaluate to a string".to_owned());
                }
                Ok(compiled) => {
                    let cost = compiled.estimate(&environment).max;
                    self.charge(&place, cost, "estimated messageExpression cost");
                }
            }
        }
        let program = compiled.into_program();
        if program.references("oldSelf") {
            if let Some(list) = uncorrelatable {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.errors.push(FieldError::invalid(place, &Value::from(source), detail));
            }
        } else if let Some(optional) = rule.get("optionalOldSelf").filter(|optional| !optional.is_null()) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), optional, detail));
        }
    }

    fn charge(&mut self, place: &str, cost: u64, what: &str) {
        if cost > RULE_LIMIT {
            self.errors.push(FieldError::forbidden(place, too_expensive(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((place.to_owned(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED_RULES);
        }
    }

    /// Reports a rule that cannot be used. The value is the whole rule, as upstream prints it.
    fn refuse(&mut self, place: &str, rule: &Value, detail: String) {
        let string = |key: &str| Value::from(text(rule, &[key])).to_string();
        let any = |key: &str| rule.get(key).unwrap_or(&Value::Null).to_string();
        let value = format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
            string("rule"),
            string("message"),
            string("messageExpression"),
            any("reason"),
            string("fieldPath"),
            any("optionalOldSelf"),
        );
        // As Go's encoder does within JSON.
        let value = value.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        let mut error = FieldError::invalid(place, &Value::Null, detail);
        error.value = Some(value);
        self.errors.push(error);
    }
}

fn is_below(field: &str, path: &str) -> bool {
    field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
