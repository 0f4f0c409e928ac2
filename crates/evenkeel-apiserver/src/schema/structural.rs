//! Compiles `openAPIV3Schema` of a CustomResourceDefinition into a [`Schema`].

use serde_json::{Map, Value};

use super::builtin::{list, strings};
use super::validate::UNINDEXED_CHOICES;
use super::{Form, MAX_DEPTH, Schema, SchemaNode};
use crate::limits::json_size;
use evenkeel_cel::regexp::Pattern;

/// Why a schema cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaFault {
    /// A value in place of a schema is not an object.
    #[error("a schema must be an object")]
    NotAnObject,
    /// The schema nests too deep.
    #[error("the schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// The keywords that only validation uses.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) format: Option<Box<str>>,
    pub(super) pattern: Option<Pattern>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    /// `additionalProperties: false`.
    pub(super) closed: bool,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Schema>,
}

impl Rules {
    fn is_empty(&self) -> bool {
        let Rules {
            format,
            pattern,
            minimum,
            maximum,
            exclusive_minimum: _,
            exclusive_maximum: _,
            multiple_of,
            min_length,
            max_length,
            min_items,
            max_items,
            min_properties,
            max_properties,
            closed,
            all_of,
            any_of,
            one_of,
            not,
        } = self;
        format.is_none()
            && pattern.is_none()
            && [minimum, maximum, multiple_of].iter().all(|rule| rule.is_none())
            && [min_length, max_length, min_items, max_items, min_properties, max_properties]
                .iter()
                .all(|rule| rule.is_none())
            && !closed
            && [all_of, any_of, one_of].iter().all(|rule| rule.is_empty())
            && not.is_none()
    }
}

/// Compiles the schema of a whole custom resource: adds the fields of every object where the schema omits them.
pub(super) fn compile(open_api: &Value) -> Result<Schema, SchemaFault> {
    let mut root = read(open_api, 0)?;
    root.embedded_resource = true;
    declare_metadata(&mut root);
    Ok(Schema::owned(root))
}

/// Compiles a schema without additions.
pub(super) fn compile_fragment(open_api: &Value) -> Result<Schema, SchemaFault> {
    read(open_api, 0).map(Schema::owned)
}

fn read(source: &Value, depth: usize) -> Result<SchemaNode, SchemaFault> {
    let source = source.as_object().ok_or(SchemaFault::NotAnObject)?;
    if depth > MAX_DEPTH {
        return Err(SchemaFault::TooDeep);
    }
    let child = |source: &Value| read(source, depth + 1).map(Schema::owned);
    let children = |key: &str| -> Result<Vec<Schema>, SchemaFault> {
        source.get(key).and_then(Value::as_array).into_iter().flatten().map(child).collect()
    };
    let flag = |key: &str| source.get(key).and_then(Value::as_bool).unwrap_or(false);

    let mut node = SchemaNode {
        form: form(source),
        required: strings(source.get("required")).map(Box::from).collect(),
        default: source.get("default").filter(|value| !value.is_null()).cloned(),
        choices: source.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        list: list(source),
        atomic: source.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        nullable: flag("nullable"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag("x-kubernetes-embedded-resource"),
        ..SchemaNode::default()
    };
    let mut rules = keywords(source);
    rules.all_of = children("allOf")?;
    rules.any_of = children("anyOf")?;
    rules.one_of = children("oneOf")?;
    rules.not = source.get("not").map(child).transpose()?;
    if let Some(items @ Value::Object(_)) = source.get("items") {
        node.items = Some(Box::new(child(items)?));
    }
    match source.get("additionalProperties") {
        Some(Value::Bool(true)) => node.open = true,
        Some(Value::Bool(false)) => rules.closed = true,
        Some(values @ Value::Object(_)) => node.values = Some(Box::new(child(values)?)),
        _ => {}
    }
    if let Some(Value::Object(properties)) = source.get("properties") {
        node.properties = properties
            .iter()
            .map(|(name, source)| Ok((Box::from(name.as_str()), child(source)?)))
            .collect::<Result<_, SchemaFault>>()?;
    }
    node.default_size = node.default.as_ref().map_or(0, json_size);
    node.defaulted = node
        .properties
        .iter()
        .filter(|(_, schema)| schema.default_value().is_some())
        .map(|(name, _)| name.clone())
        .collect();
    node.defaulted.sort_unstable();
    if node.choices.len() > UNINDEXED_CHOICES {
        node.choice_index = Some(node.choices.iter().map(|choice| choice.to_string().into_boxed_str()).collect());
    }
    if node.embedded_resource {
        declare_metadata(&mut node);
    }
    if !rules.is_empty() {
        node.rules = Some(Box::new(rules));
    }
    Ok(node)
}

fn form(source: &Map<String, Value>) -> Form {
    if source.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true) {
        return Form::IntOrString;
    }
    match source.get("type").and_then(Value::as_str) {
        Some("object") => Form::Object,
        Some("array") => Form::Array,
        Some("string") => Form::String,
        Some("integer") => Form::Integer,
        Some("number") => Form::Number,
        Some("boolean") => Form::Boolean,
        _ => Form::Any,
    }
}

fn keywords(source: &Map<String, Value>) -> Rules {
    let number = |key: &str| source.get(key).and_then(Value::as_f64);
    let count = |key: &str| source.get(key).and_then(Value::as_u64);
    let flag = |key: &str| source.get(key).and_then(Value::as_bool).unwrap_or(false);
    let text = |key: &str| source.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Box::from);
    Rules {
        format: text("format"),
        pattern: text("pattern").map(Pattern::new),
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        ..Rules::default()
    }
}

/// Adds `apiVersion`, `kind` and `metadata` to the node of a whole object, so that its metadata merges like any other.
fn declare_metadata(node: &mut SchemaNode) {
    for name in ["apiVersion", "kind"] {
        node.properties.add(name, Schema::owned(SchemaNode { form: Form::String, ..SchemaNode::default() }));
    }
    let target = Schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    match node.properties.get_mut("metadata") {
        // The definition's rules for the name stay with the node for validation.
        Some(schema) => {
            if let Some(node) = schema.node.get_mut() {
                node.target = target;
            }
        }
        None => {
            let metadata = SchemaNode { form: Form::Object, target, ..SchemaNode::default() };
            node.properties.add("metadata", Schema::owned(metadata));
        }
    }
}
