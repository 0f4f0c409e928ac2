//! Schemas of built-in kinds and of custom resources, in one form.
//!
//! A [`Schema`] is a node that describes a JSON value. The schemas of built-in kinds are those of the release's
//! OpenAPI document; each node is compiled on first access and lives as long as the process. The schemas of custom
//! resources are compiled from their definitions, and live as long as those.
//!
//! The passes over values are built on the nodes: [`Schema::decode_builtin`] (the effect of a typed decoder and
//! encoder), [`Schema::validate_builtin`], and for custom resources [`Schema::prune`], [`Schema::apply_defaults`] and
//! [`Schema::validate`].

mod builtin;
mod check;
mod declare;
mod decode;
mod defaults;
mod formats;
pub(crate) mod json;
pub(crate) mod path;
mod properties;
mod prune;
mod structural;

mod time;
mod validate;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;

use properties::Properties;

pub(crate) use decode::DecodeFault;
pub(crate) use defaults::DefaultsTooLarge;
pub(crate) use evenkeel_cel::regexp::{MAX_DEFINITION_PATTERN_BYTES, MAX_PATTERN_BYTES, PatternFault, pattern_bytes};
pub(crate) use evenkeel_core::formats::is_known as is_known_format;
pub(crate) use structural::SchemaFault;

/// The nesting limit of values and schemas. Deeper ones are rejected, or skipped by passes that return no errors.
pub(crate) const MAX_DEPTH: usize = 128;

/// The limit of reported errors of one type per object.
pub(crate) const MAX_REPORTS: usize = 100;

/// How the items of a list are identified for field ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType<'a> {
    /// The list is one value.
    Atomic,
    /// Items are scalars, identified by their values.
    Set,
    /// Items are objects, identified by these keys.
    Map(&'a [String]),
}

/// The kinds of values that server-side apply distinguishes.
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

/// How a strategic merge patch treats an existing value.
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
    /// The JSON to compile on first use; empty for nodes that are compiled eagerly.
    text: &'static str,
    node: OnceLock<SchemaNode>,
}

impl Schema {
    /// Returns the schema of a built-in type, by its OpenAPI name, e.g. `io.k8s.api.core.v1.Pod`.
    pub(crate) fn builtin(id: &str) -> Option<&'static Schema> {
        builtin::lookup(id)
    }

    /// Compiles the schema of a custom resource, from `openAPIV3Schema` of one version of its definition.
    pub(crate) fn structural(open_api: &Value) -> Result<Schema, SchemaFault> {
        structural::compile(open_api)
    }

    /// Compiles the schema of a part of a custom resource, without adding object metadata.
    pub(crate) fn fragment(open_api: &Value) -> Result<Schema, SchemaFault> {
        structural::compile_fragment(open_api)
    }

    /// Returns the schema of a field of an object: a declared property, else the schema of the map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        let shape = self.shape();
        shape.property(name).or(shape.values.as_deref())
    }

    /// Returns whether a field is a declared property, rather than a key of a map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.shape().property(name).is_some()
    }

    /// Returns whether a field of a built-in struct is written as `null` when it is not set.
    pub(crate) fn writes_null(&self, name: &str) -> bool {
        self.shape().nulls.iter().any(|null| **null == *name)
    }

    /// Returns whether an object may have undeclared fields.
    pub(crate) fn takes_any_field(&self) -> bool {
        let shape = self.shape();
        shape.properties.is_empty() || shape.open || shape.values.is_some() || shape.preserve_unknown
    }

    /// Returns the kind of value as server-side apply distinguishes it.
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

    /// Returns the schema of a list's items.
    pub(crate) fn items(&self) -> Option<&Schema> {
        self.shape().items.as_deref()
    }

    /// Returns how a list's items are identified.
    pub(crate) fn list_type(&self) -> ListType<'_> {
        match &self.node().list {
            List::Atomic => ListType::Atomic,
            List::Set => ListType::Set,
            List::Map(keys) => ListType::Map(keys),
        }
    }

    /// Returns how a strategic merge patch treats the value.
    pub(crate) fn patch_strategy(&self) -> PatchStrategy<'_> {
        match &self.node().patch {
            Patching::Default => PatchStrategy::Default,
            Patching::Merge(key) => PatchStrategy::Merge(key.as_deref()),
            Patching::Replace => PatchStrategy::Replace,
        }
    }

    /// Returns whether an object is owned as a whole.
    pub(crate) fn is_atomic_map(&self) -> bool {
        self.node().atomic || self.shape().atomic
    }

    /// Returns the default of an absent field.
    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.node().default.as_ref()
    }

    fn owned(node: SchemaNode) -> Schema {
        Schema { node: OnceLock::from(node), ..Schema::default() }
    }

    /// Returns the node itself, with its default and merge strategy.
    fn node(&self) -> &SchemaNode {
        self.node.get_or_init(|| builtin::compile(self.id, self.text))
    }

    /// Returns the node that describes the value: the referenced type, where this node is a reference.
    fn shape(&self) -> &SchemaNode {
        let node = self.node();
        match node.target {
            Some(target) => target.node(),
            None => node,
        }
    }
}

/// Types may be recursive, so only names are printed.
impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, self.node.get().and_then(|node| node.target)) {
            ("", Some(target)) => write!(f, "Schema({})", target.id),
            ("", None) => f.write_str("Schema(inline)"),
            (id, _) => write!(f, "Schema({id})"),
        }
    }
}

/// The keywords of a node.
#[derive(Debug, Default)]
struct SchemaNode {
    form: Form,
    /// A named type that describes the value in place of this node.
    target: Option<&'static Schema>,
    /// The type of the object in [`Form::ObjectOrElse`].
    alternative: Option<&'static Schema>,
    properties: Properties,
    /// `additionalProperties` with a schema.
    values: Option<Box<Schema>>,
    /// `additionalProperties: true`.
    open: bool,
    items: Option<Box<Schema>>,
    required: Vec<Box<str>>,
    default: Option<Value>,
    /// The length of the default as JSON.
    default_size: usize,
    /// The names of the properties with a default.
    defaulted: Vec<Box<str>>,
    /// `enum`.
    choices: Vec<Value>,
    /// The `enum` of a property or of the map's values names the strings that it may have.
    has_choices: bool,
    /// The values of a long `enum` as JSON.
    choice_index: Option<HashSet<Box<str>>>,
    list: List,
    patch: Patching,
    atomic: bool,
    nullable: bool,
    preserve_unknown: bool,
    embedded_resource: bool,
    /// Properties of a built-in struct that its encoder writes as `null` when they are not set.
    nulls: Vec<Box<str>>,
    /// The keywords that only custom resources are validated against.
    rules: Option<Box<structural::Rules>>,
}

impl SchemaNode {
    fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name)
    }
}

/// The JSON values that a node accepts.
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
