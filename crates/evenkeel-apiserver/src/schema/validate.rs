//! Validation of custom resources against their structural schema (CRD-8).
//!
//! Three passes, in the order of their errors: the keywords of OpenAPI, embedded resources, and the uniqueness of the
//! items of sets and maps.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Number, Value, json};

use super::path::Path;
use super::structural::Rules;
use super::{Form, List, MAX_DEPTH, Schema, SchemaNode, formats};
use crate::field::{FieldError, MAX_SUPPORTED, is_full};

impl Schema {
    /// Returns all errors of a custom resource. Fields are visited in the order of their names.
    pub(crate) fn validate(&self, value: &Value) -> Vec<FieldError> {
        self.faults(value, None)
    }

    /// Returns the errors of a custom resource that replaces another. Errors in values that the update does not change
    /// are tolerated, so that a schema can become stricter without blocking updates of existing objects (CRD-12).
    pub(crate) fn validate_update(&self, value: &Value, old: &Value) -> Vec<FieldError> {
        self.faults(value, Some(old))
    }

    fn faults(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let budget = Budget(Cell::new(VALIDATION_BUDGET));
        let mut errors = Report::new(&budget);
        let node = self.node();
        keywords(node, value, old, &mut Path::default(), 0, &mut errors);
        embedded(node, value, &mut Path::default(), 0, &mut errors);
        let mut old_duplicates = errors.nested();
        if let Some(old) = old {
            unique(node, old, &mut Path::default(), 0, &mut old_duplicates);
        }
        if old_duplicates.is_empty() {
            unique(node, value, &mut Path::default(), 0, &mut errors);
        }
        if budget.is_spent() {
            // What was found so far may be wrong: alternatives were left out.
            return vec![FieldError::invalid("<nil>", &Value::from(""), BUDGET_SPENT)];
        }
        errors.errors
    }
}

/// How many checks one validation may make. A schema may apply thousands of alternatives to each item of a list, so that
/// the work is a multiple of the request; the largest object with a few alternatives per value is within the budget.
const VALIDATION_BUDGET: u64 = 2_000_000;

/// kube-apiserver has this error for the rules of a schema.
const BUDGET_SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// How many bytes of a string one check may read.
const BYTES_PER_CHECK: usize = 64;

/// How many values an `enum` may have to be searched without an index.
pub(super) const UNINDEXED_CHOICES: usize = 16;

/// The checks that a validation may still make.
struct Budget(Cell<u64>);

impl Budget {
    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// The errors of a pass, up to the limit, and the budget that all passes share.
struct Report<'b> {
    errors: Vec<FieldError>,
    /// How many values were checked. The alternative with the most is the closest.
    checked: usize,
    budget: &'b Budget,
}

impl<'b> Report<'b> {
    fn new(budget: &'b Budget) -> Self {
        Report { errors: Vec::new(), checked: 0, budget }
    }

    /// Returns an empty report on the same budget.
    fn nested(&self) -> Self {
        Report::new(self.budget)
    }

    fn push(&mut self, error: FieldError) {
        if !is_full(&self.errors) {
            self.errors.push(error);
        }
    }

    fn extend(&mut self, other: Report<'_>) {
        self.checked += other.checked;
        other.errors.into_iter().for_each(|error| self.push(error));
    }

    fn len(&self) -> usize {
        self.errors.len()
    }

    fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Takes this many checks from the budget. Returns whether the pass continues: the budget is not spent, and further
    /// errors would be reported.
    fn charge(&self, checks: usize) -> bool {
        let left = self.budget.0.get().saturating_sub(checks as u64);
        self.budget.0.set(left);
        left > 0 && !is_full(&self.errors)
    }
}

/// Checks the keywords of one node, in the order of their errors: type, junctors, the keywords of the value's own
/// type, `enum`, fields. `old` is the value before the update, if it can be identified.
fn keywords(
    node: &SchemaNode,
    value: &Value,
    old: Option<&Value>,
    path: &mut Path,
    depth: usize,
    errors: &mut Report<'_>,
) {
    if !errors.charge(1 + node.required.len()) || old == Some(value) {
        return;
    }
    if depth > MAX_DEPTH {
        errors.push(FieldError::invalid(
            path.field(),
            &Value::from(""),
            format!("nests deeper than {MAX_DEPTH} levels"),
        ));
        return;
    }
    errors.checked += 1;
    check_type(node, value, path, errors);
    if value.is_null() {
        check_choices(node, value, path, errors);
        return;
    }
    if let Some(rules) = &node.rules {
        junctors(rules, value, old, path, depth, errors);
        match value {
            Value::String(text) if errors.charge(text.len() / BYTES_PER_CHECK) => {
                check_string(rules, text, value, path, errors);
            }
            Value::Number(number) => check_number(node, rules, number, path, errors),
            _ => {}
        }
    }
    if let Value::Array(items) = value {
        if let Some(schema) = &node.items {
            let old_items = OldItems::new(node, old);
            for (index, item) in items.iter().enumerate() {
                let mark = path.push_index(index);
                keywords(schema.node(), item, old_items.find(item), path, depth + 1, errors);
                path.back(mark);
            }
        }
        if let Some(rules) = &node.rules {
            check_item_count(rules, items.len(), path, errors);
        }
    }
    check_choices(node, value, path, errors);
    if let Value::Object(object) = value {
        if let Some(rules) = &node.rules {
            check_property_count(rules, object.len(), path, errors);
        }
        for (key, value) in object {
            let child = node.property(key).or(node.values.as_deref());
            if let Some(schema) = child {
                let mark = path.push(key);
                let old = old.and_then(|old| old.get(key));
                keywords(schema.node(), value, old, path, depth + 1, errors);
                path.back(mark);
            } else if node.rules.as_ref().is_some_and(|rules| rules.closed) {
                let text = format!("{}.{key} in body is a forbidden property", path.as_str());
                errors.push(FieldError::invalid(path.field(), &Value::from(key.as_str()), text));
            }
        }
        for name in &node.required {
            if !object.contains_key(name.as_ref()) {
                errors.push(FieldError::required(path.child(name), ""));
            }
        }
    }
}

/// The items of a list before the update. Only the items of maps can be identified.
struct OldItems<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    fn new(node: &'a SchemaNode, old: Option<&'a Value>) -> Self {
        let (List::Map(keys), Some(Value::Array(old))) = (&node.list, old) else {
            return OldItems { keys: &[], items: HashMap::new() };
        };
        // The first of several items with one key is inserted last.
        let items = old.iter().rev().filter(|item| item.is_object());
        OldItems { keys, items: items.map(|item| (key_of(item, keys).to_string(), item)).collect() }
    }

    fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key_of(item, self.keys).to_string()).copied()
    }
}

fn check_type(node: &SchemaNode, value: &Value, path: &Path, errors: &mut Report<'_>) {
    let expected = match node.form {
        Form::Object => "object",
        Form::Array => "array",
        Form::String => "string",
        Form::Integer => "integer",
        Form::Number => "number",
        Form::Boolean => "boolean",
        Form::IntOrString => "integer,string",
        _ => return,
    };
    let found = match value {
        Value::Null if node.nullable => return,
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_integer(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = expected == found
        || (node.form == Form::Number && found == "integer")
        || (node.form == Form::IntOrString && matches!(found, "integer" | "string"));
    if !fits {
        let text = format!("{} in body must be of type {expected}: {found:?}", path.as_str());
        errors.push(FieldError::type_invalid(path.field(), found, text));
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn check_string(rules: &Rules, text: &str, value: &Value, path: &Path, errors: &mut Report<'_>) {
    let length = || text.chars().count() as u64;
    if let Some(limit) = rules.max_length.filter(|limit| length() > *limit) {
        errors.push(FieldError::too_long(path.field(), limit));
    }
    if let Some(limit) = rules.min_length.filter(|limit| length() < *limit) {
        let detail = format!("{} in body should be at least {limit} chars long", path.as_str());
        errors.push(FieldError::invalid(path.field(), value, detail));
    }
    if let Some(pattern) = &rules.pattern {
        let fault = match pattern.compiled() {
            Ok(compiled) if !errors.charge(compiled.cost(text)) || compiled.is_match(text) => None,
            Ok(_) => Some(pattern.source().to_owned()),
            Err(fault) => Some(format!("{}, but pattern is invalid: {fault}", pattern.source())),
        };
        if let Some(fault) = fault {
            let detail = format!("{} in body should match '{fault}'", path.as_str());
            errors.push(FieldError::invalid(path.field(), value, detail));
        }
    }
    if let Some(format) = &rules.format
        && !formats::accepts(format, text)
    {
        let detail = format!("{} in body must be of type {format}: {text:?}", path.as_str());
        errors.push(FieldError::type_invalid(path.field(), text, detail));
    }
}

fn check_number(node: &SchemaNode, rules: &Rules, number: &Number, path: &Path, errors: &mut Report<'_>) {
    let value = Value::Number(number.clone());
    let place = path.as_str();
    let mut fail = |detail: String| {
        errors.push(FieldError::invalid(path.field(), &value, detail));
    };
    let as_float = number.as_f64().unwrap_or(f64::NAN);
    let bounds = [
        (rules.minimum, rules.exclusive_minimum, "greater than"),
        (rules.maximum, rules.exclusive_maximum, "less than"),
    ];
    if let Some(factor) = rules.multiple_of.filter(|factor| *factor > 0.0) {
        let multiple = match number.as_i64() {
            Some(integer) if factor.fract() == 0.0 => integer.checked_rem(factor as i64) == Some(0),
            _ if factor < 1.0 => (1.0 / factor * as_float).fract() == 0.0,
            _ => (as_float / factor).fract() == 0.0,
        };
        if !multiple {
            fail(format!("{place} in body should be a multiple of {}", go_float(factor)));
        }
    } else if let Some(factor) = rules.multiple_of {
        fail(format!("factor MultipleOf declared for {place} must be positive: {}", go_float(factor)));
    }
    for (bound, exclusive, words) in bounds {
        let Some(bound) = bound else { continue };
        // An integer is compared with the whole part of the bound.
        let order = match number.as_i64() {
            Some(integer) => Some(integer.cmp(&(bound as i64))),
            None => as_float.partial_cmp(&bound),
        };
        let within = match order {
            Some(std::cmp::Ordering::Equal) => !exclusive,
            Some(order) => order.is_gt() == (words == "greater than"),
            None => false,
        };
        if !within {
            let bound = if number.is_i64() { (bound as i64).to_string() } else { go_float(bound) };
            let or_equal = if exclusive { "" } else { " or equal to" };
            fail(format!("{place} in body should be {words}{or_equal} {bound}"));
        }
    }
    if node.form == Form::Integer
        && let Some(format @ ("int32" | "int64")) = rules.format.as_deref()
    {
        let fits = match (format, number.as_i64()) {
            ("int32", Some(integer)) => i32::try_from(integer).is_ok(),
            (_, Some(_)) => true,
            (_, None) => number.is_f64(),
        };
        if !fits {
            let text = format!("Checked value must be of type integer with format {format} in {}", path.as_str());
            errors.push(FieldError::invalid("<nil>", &Value::from(""), text));
        }
    }
}

/// Formats a float like Go's `%v`.
fn go_float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        if let Some((mantissa, exponent)) = text.split_once('e') {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            return format!("{mantissa}e{sign}{digits:0>2}");
        }
    }
    value.to_string()
}

fn check_item_count(rules: &Rules, count: usize, path: &Path, errors: &mut Report<'_>) {
    if let Some(limit) = rules.min_items.filter(|limit| (count as u64) < *limit) {
        let detail = format!("{} in body should have at least {limit} items", path.as_str());
        errors.push(FieldError::invalid(path.field(), &Value::from(count), detail));
    }
    if let Some(limit) = rules.max_items.filter(|limit| count as u64 > *limit) {
        errors.push(FieldError::too_many(path.field(), count, limit));
    }
}

fn check_property_count(rules: &Rules, count: usize, path: &Path, errors: &mut Report<'_>) {
    if let Some(limit) = rules.min_properties.filter(|limit| (count as u64) < *limit) {
        let detail = format!("{} in body should have at least {limit} properties", path.as_str());
        errors.push(FieldError::invalid(path.field(), &Value::from(count), detail));
    }
    if let Some(limit) = rules.max_properties.filter(|limit| count as u64 > *limit) {
        errors.push(FieldError::too_many(path.field(), count, limit));
    }
}

fn check_choices(node: &SchemaNode, value: &Value, path: &Path, errors: &mut Report<'_>) {
    let known = match &node.choice_index {
        Some(index) => index.contains(value.to_string().as_str()),
        None => node.choices.is_empty() || node.choices.contains(value),
    };
    if known {
        return;
    }
    // The error lists no more than this, and shows that there are more.
    let listed = node.choices.iter().take(MAX_SUPPORTED + 1);
    if !errors.charge(listed.len()) {
        return;
    }
    let texts: Vec<String> =
        listed.map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    errors.push(FieldError::not_supported(path.field(), value, &texts));
}

/// Checks `anyOf`, `oneOf`, `allOf` and `not`. When no alternative matches, reports the errors of the closest one.
fn junctors(rules: &Rules, value: &Value, old: Option<&Value>, path: &mut Path, depth: usize, errors: &mut Report<'_>) {
    if !rules.any_of.is_empty() {
        let (fitting, closest) = alternatives(&rules.any_of, value, old, path, depth, errors);
        if fitting == 0 {
            errors.push(summary(path, "must validate at least one schema (anyOf)"));
            errors.extend(closest);
        }
    }
    if !rules.one_of.is_empty() {
        let (fitting, closest) = alternatives(&rules.one_of, value, old, path, depth, errors);
        if fitting != 1 {
            let found = match fitting {
                0 => "Found none valid".to_owned(),
                several => format!("Found {several} valid alternatives"),
            };
            let text = format!("must validate one and only one schema (oneOf). {found}");
            errors.push(summary(path, &text));
            if fitting == 0 {
                errors.extend(closest);
            }
        }
    }
    let mut fitting = 0;
    for schema in &rules.all_of {
        let before = errors.len();
        keywords(schema.node(), value, old, path, depth + 1, errors);
        fitting += usize::from(errors.len() == before);
    }
    if fitting != rules.all_of.len() {
        let none = if fitting == 0 { ". None validated" } else { "" };
        errors.push(summary(path, &format!("must validate all the schemas (allOf){none}")));
    }
    if let Some(schema) = &rules.not {
        let mut faults = errors.nested();
        keywords(schema.node(), value, old, path, depth + 1, &mut faults);
        if faults.is_empty() {
            errors.push(summary(path, "must not validate the schema (not)"));
        }
    }
}

/// Returns how many alternatives match, and the errors of the closest one.
fn alternatives<'b>(
    schemas: &[Schema],
    value: &Value,
    old: Option<&Value>,
    path: &mut Path,
    depth: usize,
    report: &Report<'b>,
) -> (usize, Report<'b>) {
    let (mut fitting, mut closest) = (0, None::<Report<'b>>);
    for schema in schemas {
        let mut faults = report.nested();
        keywords(schema.node(), value, old, path, depth + 1, &mut faults);
        if faults.is_empty() {
            fitting += 1;
        } else if closest.as_ref().is_none_or(|known| faults.checked > known.checked) {
            closest = Some(faults);
        }
        if report.budget.is_spent() {
            break;
        }
    }
    (fitting, closest.unwrap_or_else(|| report.nested()))
}

/// Returns the error of a junctor as a whole, which names its path only in the text.
fn summary(path: &Path, text: &str) -> FieldError {
    FieldError::invalid("<nil>", &Value::from(""), format!("{:?} {text}", path.as_str()))
}

/// Checks `apiVersion`, `kind` and `metadata` of embedded resources.
fn embedded(node: &SchemaNode, value: &Value, path: &mut Path, depth: usize, errors: &mut Report<'_>) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(object) => {
            // The server validates the root's own metadata.
            if node.embedded_resource && depth > 0 {
                for name in ["apiVersion", "kind"] {
                    let detail = match object.get(name) {
                        None => {
                            errors.push(FieldError::required(path.child(name), ""));
                            continue;
                        }
                        Some(Value::String(text)) if text.is_empty() => "must not be empty",
                        Some(Value::String(_)) => continue,
                        Some(_) => "must be a string",
                    };
                    let value = object.get(name).unwrap_or(&Value::Null);
                    errors.push(FieldError::invalid(path.child(name), value, detail));
                }
                if let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_object()) {
                    errors.push(FieldError::invalid(path.child("metadata"), metadata, "must be an object"));
                }
            }
            for (key, value) in object {
                let (child, mark) = match (node.property(key), &node.values) {
                    (Some(schema), _) => (schema, path.push(key)),
                    (None, Some(schema)) => (schema.as_ref(), path.push_key(key)),
                    (None, None) => continue,
                };
                embedded(child.node(), value, path, depth + 1, errors);
                path.back(mark);
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let mark = path.push_index(index);
                embedded(schema.node(), item, path, depth + 1, errors);
                path.back(mark);
            }
        }
        _ => {}
    }
}

/// Checks that the items of sets, and the keys of the items of maps, are unique.
fn unique(node: &SchemaNode, value: &Value, path: &mut Path, depth: usize, errors: &mut Report<'_>) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let (child, mark) = match (node.property(key), &node.values) {
                    (Some(schema), _) => (schema, path.push(key)),
                    (None, Some(schema)) => (schema.as_ref(), path.push_key(key)),
                    (None, None) => continue,
                };
                unique(child.node(), value, path, depth + 1, errors);
                path.back(mark);
            }
        }
        Value::Array(items) => {
            match &node.list {
                List::Atomic => {}
                List::Set => duplicates(items, path, errors),
                List::Map(keys) => {
                    let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
                    if let Some((index, item)) = stray.and_then(|at| Some((at, items.get(at)?))) {
                        errors.push(FieldError::invalid(
                            format!("{}[{index}]", path.as_str()),
                            item,
                            "must be an object for an array of list-type map",
                        ));
                    } else {
                        let keys: Vec<Value> = items.iter().map(|item| key_of(item, keys)).collect();
                        duplicates(&keys, path, errors);
                    }
                }
            }
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let mark = path.push_index(index);
                unique(schema.node(), item, path, depth + 1, errors);
                path.back(mark);
            }
        }
        _ => {}
    }
}

/// Returns the key fields of an item.
fn key_of(item: &Value, keys: &[String]) -> Value {
    let mut key = json!({});
    if let (Some(key), Some(item)) = (key.as_object_mut(), item.as_object()) {
        for name in keys {
            if let Some(value) = item.get(name) {
                key.insert(name.clone(), value.clone());
            }
        }
    }
    key
}

/// Reports each duplicate value once, at its second position.
fn duplicates(items: &[Value], path: &Path, errors: &mut Report<'_>) {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{}[{index}]", path.as_str()), item));
        }
    }
}
