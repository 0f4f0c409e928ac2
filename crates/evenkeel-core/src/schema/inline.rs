//! Replaces references by what they refer to: a definition contains none.

use serde_json::{Map, Value, json};

/// The pattern of quantities, as Kubernetes publishes it.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Resolves all references of a schema. A type that contains itself becomes an unvalidated object where it would repeat.
pub(super) fn resolve(mut schema: Value, definitions: &Map<String, Value>) -> Value {
    Resolver { definitions, open: Vec::new() }.visit(&mut schema);
    schema
}

struct Resolver<'a> {
    definitions: &'a Map<String, Value>,
    /// The definitions around the current schema.
    open: Vec<&'a str>,
}

impl<'a> Resolver<'a> {
    fn visit(&mut self, schema: &mut Value) {
        // A property may have this name too; its value is no text.
        if schema.get("$ref").is_some_and(Value::is_string) {
            // Keywords beside a reference are those of the field and take precedence.
            let mut beside = std::mem::take(schema);
            let target = beside.as_object_mut().and_then(|object| object.remove("$ref")).unwrap_or_default();
            *schema = self.target(target.as_str().unwrap_or_default());
            merge(schema, beside);
            return;
        }
        match schema {
            Value::Object(object) => object.values_mut().for_each(|value| self.visit(value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.visit(item)),
            _ => {}
        }
    }

    fn target(&mut self, reference: &str) -> Value {
        let name = reference.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
        if let Some(known) = known(&name) {
            return known;
        }
        let Some((name, definition)) = self.definitions.get_key_value(&name) else {
            return anything();
        };
        if self.open.contains(&name.as_str()) {
            return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        self.open.push(name);
        let mut definition = definition.clone();
        self.visit(&mut definition);
        self.open.pop();
        definition
    }
}

/// Adds keywords to a schema. Properties, required ones and CEL rules are added, all others replaced.
pub(super) fn merge(schema: &mut Value, keywords: Value) {
    let (Value::Object(schema), Value::Object(keywords)) = (schema, keywords) else {
        return;
    };
    for (key, value) in keywords {
        match (schema.get_mut(&key), value) {
            (Some(Value::Object(properties)), Value::Object(more)) if key == "properties" => properties.extend(more),
            (Some(Value::Array(items)), Value::Array(more))
                if key == "required" || key == "x-kubernetes-validations" =>
            {
                let new: Vec<Value> = more.into_iter().filter(|item| !items.contains(item)).collect();
                items.extend(new);
            }
            (_, value) => {
                schema.insert(key, value);
            }
        }
    }
}

/// Returns a schema that accepts and keeps any value.
pub(super) fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of a type of Kubernetes whose published schema would lose data or accept too much.
fn known(name: &str) -> Option<Value> {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let name = name.strip_prefix("io.k8s.")?;
    Some(match name {
        "apimachinery.pkg.api.resource.Quantity" => json!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY}),
        "apimachinery.pkg.apis.meta.v1.ObjectMeta" => json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "namespace": {"type": "string"},
                "labels": texts(),
                "annotations": texts(),
                "finalizers": {"type": "array", "items": {"type": "string"}},
            },
        }),
        "apimachinery.pkg.runtime.RawExtension" | "apimachinery.pkg.apis.meta.v1.FieldsV1" => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => anything(),
        _ => return None,
    })
}
