//! Schemas of custom resources that the server admits.

use evenkeel_apiserver::internals::{CustomSchema, admit_definition};
use serde_json::{Value, json};

/// Returns a definition with this schema.
pub(super) fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.b.c"},
        "spec": {
            "group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Compiles a schema if the server admits it.
pub(super) fn admitted_schema(schema: &Value) -> Option<CustomSchema> {
    let mut definition = definition(schema);
    admit_definition(&mut definition).is_empty().then_some(())?;
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
    Some(CustomSchema::compile(schema).expect("an admitted schema can be compiled"))
}
