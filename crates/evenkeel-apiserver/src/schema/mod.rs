//! Schemas of built-in kinds and of custom resources, in one form.
//!
//! A [`Schema`] is a node that knows the shape of a JSON value. The schemas of built-in kinds come from the OpenAPI
//! document of the release that the server answers like; they are read node by node when first looked into, and live as
//! long as the process. The schemas of custom resources come from their definitions, and live as long as those.
//!
//! On top of the nodes stand the passes over values: [`Schema::decode_builtin`] (what a typed decoder and encoder make of
//! an object), [`Schema::validate_builtin`], and for custom resources [`Schema::prune`], [`Schema::apply_defaults`] and
//! [`Schema::validate`].

mod builtin;
mod check;
mod decode;
mod defaults;
mod formats;
pub(crate) mod json;
pub(crate) mod path;
mod prune;
mod quantity;
mod structural;

mod time;
mod validate;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

pub(crate) use decode::DecodeFault;
pub(crate) use formats::is_known as is_known_format;
pub(crate) use structural::{SchemaFault, compile_pattern};

/// How deep values and schemas may nest. Deeper ones are refused, or left alone by passes that cannot refuse.
pub(crate) const MAX_DEPTH: usize = 128;

/// How many faults of one kind are reported of one object.
pub(crate) const MAX_REPORTS: usize = 100;

/// How the items of a list are identified when two managers own parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType<'a> {
    /// The list is one value.
    Atomic,
    /// Items are scalars and stand for themselves.
    Set,
    /// Items are objects, identified by these keys.
    Map(&'a [String]),
}

/// What server-side apply can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoughKind {
    Any,
    Map,
    List,
    Text,
    Numeric,
    Boolean,
    /// Any of the last three.
    Scalar,
}

/// What a strategic merge patch does with a value that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy<'a> {
    /// Objects are merged, everything else is replaced.
    Default,
    /// The list is merged: objects by this field, scalars by their value.
    Merge(Option<&'a str>),
    /// The value is replaced, even if it is an object.
    Replace,
}

/// One node of a schema.
#[derive(Default)]
pub(crate) struct Schema {
    /// The OpenAPI name of a built-in type; empty for nodes that have none.
    id: &'static str,
    /// The JSON to compile on first use; nodes that are complete from the start have none.
    text: &'static str,
    node: OnceLock<Node>,
}

impl Schema {
    /// The schema of a built-in type, by its OpenAPI name, e.g. `io.k8s.api.core.v1.Pod`.
    pub(crate) fn builtin(id: &str) -> Option<&'static Schema> {
        builtin::lookup(id)
    }

    /// The schema of a custom resource, from `openAPIV3Schema` of one version of its definition.
    pub(crate) fn structural(open_api: &Value) -> Result<Schema, SchemaFault> {
        structural::compile(open_api)
    }

    /// The schema of a part of a custom resource: nothing is taken for granted of its root.
    pub(crate) fn fragment(open_api: &Value) -> Result<Schema, SchemaFault> {
        structural::compile_fragment(open_api)
    }

    /// The schema of a field of an object: a declared property, else the schema of the map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        let shape = self.shape();
        shape.property(name).or(shape.values.as_deref())
    }

    /// Whether a field is a declared property, rather than a key of a map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.shape().property(name).is_some()
    }

    /// Whether a field of a built-in struct is written as `null` when it is not set.
    pub(crate) fn writes_null(&self, name: &str) -> bool {
        self.shape().nulls.iter().any(|null| **null == *name)
    }

    /// Whether an object may have fields that are not declared.
    pub(crate) fn takes_any_field(&self) -> bool {
        let shape = self.shape();
        shape.properties.is_empty() || shape.open || shape.values.is_some() || shape.preserve_unknown
    }

    /// The rough kind of value that stands here.
    pub(crate) fn rough_kind(&self) -> RoughKind {
        match self.shape().form {
            Form::Any | Form::ObjectOrElse => RoughKind::Any,
            Form::Object => RoughKind::Map,
            Form::Array => RoughKind::List,
            Form::String | Form::Bytes | Form::Time | Form::MicroTime => RoughKind::Text,
            Form::Integer | Form::Integer32 | Form::Number => RoughKind::Numeric,
            Form::Boolean => RoughKind::Boolean,
            Form::IntOrString | Form::Quantity => RoughKind::Scalar,
        }
    }

    /// The schema of a list's items.
    pub(crate) fn items(&self) -> Option<&Schema> {
        self.shape().items.as_deref()
    }

    /// How a list's items are identified.
    pub(crate) fn list_type(&self) -> ListType<'_> {
        match &self.node().list {
            List::Atomic => ListType::Atomic,
            List::Set => ListType::Set,
            List::Map(keys) => ListType::Map(keys),
        }
    }

    /// What a strategic merge patch does with the value.
    pub(crate) fn patch_strategy(&self) -> PatchStrategy<'_> {
        match &self.node().patch {
            Patching::Default => PatchStrategy::Default,
            Patching::Merge(key) => PatchStrategy::Merge(key.as_deref()),
            Patching::Replace => PatchStrategy::Replace,
        }
    }

    /// Whether an object is owned as a whole.
    pub(crate) fn is_atomic_map(&self) -> bool {
        self.node().atomic || self.shape().atomic
    }

    /// The value that a reader sees when the field is absent.
    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.node().default.as_ref()
    }

    fn owned(node: Node) -> Schema {
        Schema { node: OnceLock::from(node), ..Schema::default() }
    }

    /// What stands at this place: its default, how its list merges.
    fn node(&self) -> &Node {
        self.node.get_or_init(|| builtin::compile(self.id, self.text))
    }

    /// What the value looks like, followed through the reference to a named type where this node is one.
    fn shape(&self) -> &Node {
        let node = self.node();
        match node.target {
            Some(target) => target.node(),
            None => node,
        }
    }
}

/// Types may contain themselves, so only names are printed.
impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, self.node.get().and_then(|node| node.target)) {
            ("", Some(target)) => write!(f, "Schema({})", target.id),
            ("", None) => f.write_str("Schema(inline)"),
            (id, _) => write!(f, "Schema({id})"),
        }
    }
}

/// What a node says of its value.
#[derive(Debug, Default)]
struct Node {
    form: Form,
    /// A named type that describes the value in place of this node.
    target: Option<&'static Schema>,
    /// The type of the object in [`Form::ObjectOrElse`].
    alternative: Option<&'static Schema>,
    /// Declared properties, sorted by name.
    properties: Vec<(Box<str>, Schema)>,
    /// `additionalProperties` with a schema.
    values: Option<Box<Schema>>,
    /// `additionalProperties: true`.
    open: bool,
    items: Option<Box<Schema>>,
    required: Vec<Box<str>>,
    default: Option<Value>,
    /// `enum`.
    choices: Vec<Value>,
    list: List,
    patch: Patching,
    atomic: bool,
    nullable: bool,
    preserve_unknown: bool,
    embedded_resource: bool,
    /// Properties of a built-in struct that its encoder writes as `null` when they are not set.
    nulls: Vec<Box<str>>,
    /// What only custom resources are checked for.
    rules: Option<Box<structural::Rules>>,
}

impl Node {
    fn property(&self, name: &str) -> Option<&Schema> {
        self.properties
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(name))
            .ok()
            .and_then(|at| self.properties.get(at))
            .map(|(_, schema)| schema)
    }
}

/// Which JSON values a node takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    /// An integer of 32 bits.
    Integer32,
    Number,
    Boolean,
    IntOrString,
    /// Base64 of arbitrary bytes.
    Bytes,
    /// A time with whole seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    Quantity,
    /// An object of a known type, or any other value.
    ObjectOrElse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Patching {
    #[default]
    Default,
    Merge(Option<Box<str>>),
    Replace,
}
