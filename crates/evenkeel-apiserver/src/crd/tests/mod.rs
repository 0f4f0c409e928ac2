mod conditions;
mod definition;
mod structure;

use serde_json::{Value, json};

use super::admit;
use crate::schema::Schema;

const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";

const NOW: &str = "2026-01-01T00:00:00Z";

const LATER: &str = "2026-01-01T00:00:05Z";

/// The definition of the recorded scenario, as a client sends it.
fn foos() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.sample.evenkeel.dev"},
        "spec": {"group": "sample.evenkeel.dev", "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos", "shortNames": ["fo"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["deploymentName"], "properties": {
                        "deploymentName": {"type": "string", "minLength": 1},
                        "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 10}}},
                    "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}}}}}}]}})
}

fn decoded(mut definition: Value) -> Value {
    let unknown = Schema::builtin(CRD).unwrap().decode_builtin(&mut definition).unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    definition
}

fn admitted(definition: Value) -> Value {
    let mut definition = decoded(definition);
    let errors = admit::create(&mut definition);
    assert!(errors.is_empty(), "{errors:?}");
    definition
}

/// Returns the errors of admission after a change at a JSON pointer.
fn refused(pointer: &str, value: Value) -> Vec<String> {
    let mut definition = decoded(foos());
    *definition.pointer_mut(pointer).unwrap() = value;
    admit::create(&mut definition).iter().map(ToString::to_string).collect()
}
