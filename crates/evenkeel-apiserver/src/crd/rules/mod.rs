//! The rules of definitions: `x-kubernetes-validations` (CEL-001 to CEL-042).
//!
//! [`check`] compiles every rule when a definition is written, and reports what does not compile or may cost too much.
//! [`RuleTree`] holds the compiled rules of a served version; [`RuleTree::validate`] runs them over an object. A definition
//! without rules has no tree.

pub(super) mod check;
mod declare;
mod evaluate;
mod field_path;

use std::collections::BTreeMap;

use evenkeel_cel::{DeclType, Environment, Program};
use serde_json::{Map, Value};

use super::{flag, list, text, texts};

/// The error of an object that does not fulfil a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleReason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// A compiled rule.
#[derive(Debug)]
struct CompiledRule {
    program: Program,
    message_program: Option<Program>,
    uses_old: bool,
    optional_old: bool,
    /// The trimmed message; empty if there is none.
    message: String,
    /// The trimmed rule.
    source: String,
    reason: RuleReason,
    /// The path below the node that errors name.
    field_path: Option<String>,
}

/// The rules of a schema and of everything below it.
#[derive(Debug)]
pub(crate) struct RuleTree {
    rules: Vec<CompiledRule>,
    /// The type of `self`, if there are rules.
    decl: Option<DeclType>,
    /// The `type` of the schema.
    kind: Box<str>,
    properties: BTreeMap<Box<str>, RuleTree>,
    values: Option<Box<RuleTree>>,
    items: Option<Box<RuleTree>>,
    /// The keys that identify the items of a list of type map.
    keys: Vec<String>,
    /// Whether the fields of an object have old values: not if the object is replaced as a whole.
    has_old_fields: bool,
}

impl RuleTree {
    /// Compiles the rules of a schema; `None` if it has none. Rules that do not compile are left out: admission rejects
    /// them.
    pub(crate) fn compile(schema: &Value, is_resource: bool) -> Option<RuleTree> {
        if !has_rules(schema) {
            return None;
        }
        let own = list(schema, &["x-kubernetes-validations"]);
        let decl = if own.is_empty() { None } else { declare::declared(schema, is_resource) };
        let rules = match &decl {
            Some(decl) => own.iter().filter_map(|rule| compiled(rule, schema, decl)).collect(),
            None => Vec::new(),
        };
        let child = |schema: &Value| Self::compile(schema, is_embedded(schema));
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Some(RuleTree {
            rules,
            decl,
            kind: text(schema, &["type"]).into(),
            properties: properties.filter_map(|(name, schema)| Some((name.as_str().into(), child(schema)?))).collect(),
            values: schema.get("additionalProperties").and_then(child).map(Box::new),
            items: schema.get("items").and_then(child).map(Box::new),
            keys: match text(schema, &["x-kubernetes-list-type"]) {
                "map" => texts(schema, &["x-kubernetes-list-map-keys"]).map(str::to_owned).collect(),
                _ => Vec::new(),
            },
            has_old_fields: text(schema, &["x-kubernetes-map-type"]) != "atomic",
        })
    }
}

/// Returns whether a schema has rules on its spine.
pub(super) fn has_rules(schema: &Value) -> bool {
    !list(schema, &["x-kubernetes-validations"]).is_empty() || children(schema).any(|(_, child)| has_rules(child))
}

/// Returns an estimate of the memory of the compiled rules.
pub(super) fn memory_of(schema: &Value) -> usize {
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Object(members) => members.values().map(values).sum(),
            Value::Array(items) => items.iter().map(values).sum(),
            _ => 0,
        }
    }
    let own = list(schema, &["x-kubernetes-validations"]);
    let programs: usize =
        own.iter().map(|rule| text(rule, &["rule"]).len() + text(rule, &["messageExpression"]).len()).sum();
    let declared = if own.is_empty() { 0 } else { values(schema) };
    programs * BYTES_PER_CHARACTER
        + declared * BYTES_PER_DECLARATION
        + children(schema).map(|(_, child)| memory_of(child)).sum::<usize>()
}

/// The memory of a program, per character of its source.
const BYTES_PER_CHARACTER: usize = 48;

/// The memory of the declared types of a rule, per value of the schema.
const BYTES_PER_DECLARATION: usize = 64;

fn is_embedded(schema: &Value) -> bool {
    flag(schema, &["x-kubernetes-embedded-resource"])
}

/// A step from a schema to one below it.
#[derive(Clone, Copy)]
enum ChildStep<'a> {
    Property(&'a str),
    Values,
    Items,
}

/// Returns the schemas directly below, without those of alternatives.
fn children(schema: &Value) -> impl Iterator<Item = (ChildStep<'_>, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let single = |key: &str, step| schema.get(key).filter(|child| child.is_object()).map(|child| (step, child));
    single("additionalProperties", ChildStep::Values)
        .into_iter()
        .chain(properties.map(|(name, child)| (ChildStep::Property(name), child)))
        .chain(single("items", ChildStep::Items))
}

/// Returns the environment of the rules of a node.
fn environment(decl: &DeclType, optional_old: bool) -> Environment {
    let environment = Environment::new().with_json("self", decl.clone());
    if optional_old {
        environment.with_optional_json("oldSelf", decl.clone())
    } else {
        environment.with_json("oldSelf", decl.clone())
    }
}

fn compiled(rule: &Value, schema: &Value, decl: &DeclType) -> Option<CompiledRule> {
    let optional_old = flag(rule, &["optionalOldSelf"]);
    let environment = environment(decl, optional_old);
    let program = environment.compile(text(rule, &["rule"])).ok()?.into_program();
    let message_program = match text(rule, &["messageExpression"]) {
        "" => None,
        expression => environment.compile(expression).ok().map(evenkeel_cel::Compiled::into_program),
    };
    Some(CompiledRule {
        uses_old: program.references("oldSelf"),
        program,
        message_program,
        optional_old,
        message: text(rule, &["message"]).trim().to_owned(),
        source: text(rule, &["rule"]).trim().to_owned(),
        reason: match text(rule, &["reason"]) {
            "FieldValueForbidden" => RuleReason::Forbidden,
            "FieldValueRequired" => RuleReason::Required,
            "FieldValueDuplicate" => RuleReason::Duplicate,
            _ => RuleReason::Invalid,
        },
        field_path: match text(rule, &["fieldPath"]) {
            "" => None,
            path => field_path::resolve(path, schema),
        },
    })
}
