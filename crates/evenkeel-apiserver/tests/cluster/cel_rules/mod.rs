//! CEL rules of definitions.

mod costs;
mod definitions;
mod language;
mod messages;
mod transitions;

use serde_json::{Value, json};

use crate::api::{Api, TestResponse};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SAMPLES: &str = "/apis/rules.evenkeel.dev/v1/namespaces/default/samples";
const SAMPLE: &str = "/apis/rules.evenkeel.dev/v1/namespaces/default/samples/a";

/// Returns a definition whose objects have this schema.
fn definition(schema: Value) -> Value {
    let name = |text: &str| format!("{text}s.rules.evenkeel.dev");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name("sample")},
           "spec": {"group": "rules.evenkeel.dev", "scope": "Namespaced", "names": {"plural": "samples", "kind": "Sample"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                                  "subresources": {"status": {}}}]}})
}

/// Returns the schema of an object whose `spec` has this schema.
fn with_spec(spec: Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}})
}

/// Returns the schema of a spec with properties and rules.
fn spec(properties: Value, rules: Value) -> Value {
    with_spec(json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules}))
}

fn sample(spec: Value) -> Value {
    json!({"apiVersion": "rules.evenkeel.dev/v1", "kind": "Sample", "metadata": {"name": "a"}, "spec": spec})
}

/// Starts a server with a definition of this schema.
async fn serving(schema: Value) -> Api {
    let api = Api::start().await;
    api.post(DEFINITIONS, &definition(schema)).await.expect(201);
    api
}

/// Returns the errors of a spec without the part that all have.
async fn errors(api: &Api, spec: Value) -> String {
    let response = api.post(SAMPLES, &sample(spec)).await;
    detail(&response)
}

fn detail(response: &TestResponse) -> String {
    let message = response.refusal(422, "Invalid");
    message.split_once(" is invalid: ").map_or(message, |(_, detail)| detail).to_owned()
}

/// Returns the errors of a definition with this schema, without the path of the schema.
async fn definition_errors(schema: Value) -> String {
    let api = Api::start().await;
    let response = api.post(DEFINITIONS, &definition(schema)).await;
    detail(&response).replace("spec.validation.openAPIV3Schema", "$")
}
