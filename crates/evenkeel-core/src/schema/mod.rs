//! Schemas of custom resources: structural schemas from types that implement [`JsonSchema`].
//!
//! The attribute `custom_resource` of evenkeel generates calls of this module. A program needs it for a schema that it writes by
//! hand, or to test one:
//!
//! ```
//! use evenkeel_core::schema::ObjectSchema;
//! use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
//!
//! let schema = ObjectSchema::of::<Quantity>().build().to_value();
//! assert_eq!(schema["properties"]["spec"]["x-kubernetes-int-or-string"], true);
//! assert_eq!(schema["required"], serde_json::json!(["spec"]));
//! ```
//!
//! # Guarantees
//!
//! - The schema is structural for every type: references are resolved, every field has a type, and value validations contain no
//!   structure. What has no structural form keeps its value unvalidated (`x-kubernetes-preserve-unknown-fields`).
//! - Same type, same schema.
//! - No type causes a panic. A type that contains itself is cut where it would repeat.
//!
//! | Rust | schema |
//! |---|---|
//! | `Time`, `MicroTime` | `string`, `date-time` |
//! | `IntOrString`, an untagged enum of an integer and a string | `x-kubernetes-int-or-string` |
//! | `Quantity` | `x-kubernetes-int-or-string` with the pattern of quantities |
//! | `ObjectMeta` within a type | name, namespace, labels, annotations and finalizers: the fields that are set in templates |
//! | `RawExtension`, `JSON`, `serde_json::Value` | any value, kept as it is |
//! | `Option<T>` | nullable and not required |
//! | `BTreeSet<T>`, `HashSet<T>` of scalars | a list of the type `set` |
//! | an enum without fields | a string with the names as `enum` |
//! | an externally tagged enum | an object with one property per variant, exactly one of them required |
//! | an internally or adjacently tagged enum | an object with the properties of all variants, and the names as `enum` of the tag |
//! | `u8` to `u64`, `i8`, `i16` | integers with bounds, without the formats that Kubernetes does not know |

mod inline;
mod structural;
#[cfg(test)]
mod tests;
mod union;

use kube_core::cel::MergeStrategy;
pub use kube_core::{ListMerge, MapMerge, Message, Reason, Rule, StructMerge};
use kube_core::{merge_strategy, validate};
use schemars::generate::SchemaSettings;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Builds the schema of a kind from the types of its `spec` and `status`.
#[derive(Debug)]
pub struct ObjectSchema {
    generator: SchemaGenerator,
    spec: Schema,
    status: Option<Schema>,
    description: Option<String>,
    has_flat_spec: bool,
    rules: Vec<Rule>,
}

impl ObjectSchema {
    /// Returns a builder for objects whose `spec` is a `Spec`.
    pub fn of<Spec: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.transforms.clear();
        });
        let mut generator = settings.into_generator();
        let spec = generator.subschema_for::<Spec>();
        ObjectSchema { generator, spec, status: None, description: None, has_flat_spec: false, rules: Vec::new() }
    }

    /// Adds a `status`, which may be absent.
    #[must_use]
    pub fn status<Status: JsonSchema>(mut self) -> Self {
        self.status = Some(self.generator.subschema_for::<Option<Status>>());
        self
    }

    /// Sets the description of the kind.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Adds a CEL rule for the whole object. It can read `metadata.name`, `spec` and `status`.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<Rule>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// Puts the fields of `Spec` beside `metadata` instead of below `spec`.
    #[must_use]
    pub fn flat_spec(mut self) -> Self {
        self.has_flat_spec = true;
        self
    }

    /// Returns the structural schema.
    pub fn build(mut self) -> Schema {
        let definitions = self.generator.take_definitions(false);
        let resolve = |schema: Schema| inline::resolve(schema.to_value(), &definitions);
        let spec = resolve(self.spec);
        let mut root = if self.has_flat_spec {
            spec
        } else {
            json!({"type": "object", "properties": {"spec": spec}, "required": ["spec"]})
        };
        if let (Some(status), Some(root)) = (self.status, root.as_object_mut()) {
            let properties = root.entry("properties").or_insert_with(|| json!({}));
            properties["status"] = resolve(status);
        }
        structural::rewrite_root(&mut root);
        let mut root = root.as_object().cloned().unwrap_or_default();
        if let Some(text) = self.description {
            root.insert("description".to_owned(), text.into());
        }
        let mut schema = Schema::from(root);
        for rule in self.rules {
            add_rule(&mut schema, rule);
        }
        schema
    }
}

/// Returns a transform that adds a CEL rule to a schema.
pub fn rule(rule: impl Into<Rule>) -> impl Transform {
    let rule = rule.into();
    move |schema: &mut Schema| add_rule(schema, rule.clone())
}

/// Returns a transform that sets how server-side apply merges a list, a map or an object.
pub fn merge(strategy: impl Into<MergeStrategy>) -> impl Transform {
    let mut strategy = Some(strategy.into());
    move |schema: &mut Schema| {
        let Some(strategy) = strategy.take() else { return };
        let mut keywords = Value::Object(Map::new());
        if merge_strategy(&mut keywords, strategy).is_ok()
            && let Value::Object(keywords) = keywords
        {
            // Kubernetes knows structs as maps.
            let as_map =
                |key: String| if key == "x-kubernetes-struct-type" { "x-kubernetes-map-type".to_owned() } else { key };
            schema.ensure_object().extend(keywords.into_iter().map(|(key, value)| (as_map(key), value)));
        }
    }
}

/// Adds a rule. A rule consists of texts and always serialises.
fn add_rule(schema: &mut Schema, rule: Rule) {
    let _ = validate(schema, rule);
}

/// Evaluates a rule with the names of its parts in scope.
#[doc(hidden)]
#[macro_export]
macro_rules! __schema_as_rule {
    ($rule:expr) => {{
        #[allow(unused_imports)]
        use $crate::schema::{Message, Reason, Rule};
        $rule
    }};
}

/// Returns the transform of a rule.
#[doc(hidden)]
#[macro_export]
macro_rules! __schema_rule {
    ($rule:expr) => {
        $crate::schema::rule($crate::__schema_as_rule!($rule))
    };
}

/// Returns the transform of a merge strategy.
#[doc(hidden)]
#[macro_export]
macro_rules! __schema_merge {
    ($strategy:expr) => {
        $crate::schema::merge({
            #[allow(unused_imports)]
            use $crate::schema::{ListMerge, MapMerge, StructMerge};
            $strategy
        })
    };
}
