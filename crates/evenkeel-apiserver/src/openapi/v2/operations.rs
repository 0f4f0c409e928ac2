//! Turns the paths of OpenAPI v3 into those of v2: bodies are parameters there, and media types are lists of the operation.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schemas::V2_REFERENCE;

/// The prefix of references to shared parameters.
const PARAMETER: &str = "#/parameters/";

/// Parameters that are written with every operation, although many have them: kubectl searches operations for them.
const UNSHARED: [&str; 3] = ["dryRun", "fieldValidation", "name"];

/// The parameters that operations share, by name.
#[derive(Debug, Default)]
pub(super) struct SharedParameters(pub(super) BTreeMap<String, Value>);

impl SharedParameters {
    /// Turns the operations of a path into their v2 form.
    pub(super) fn path_item(&mut self, v3: &Value) -> Value {
        let mut item = Map::new();
        for method in ["get", "put", "post", "delete", "patch"] {
            if let Some(operation) = v3.get(method) {
                item.insert(method.to_owned(), self.operation(operation));
            }
        }
        let parameters = v3.get("parameters").and_then(Value::as_array);
        let parameters: Vec<Value> = parameters.into_iter().flatten().map(|v3| self.parameter(v3)).collect();
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), parameters.into());
        }
        Value::Object(item)
    }

    fn operation(&mut self, v3: &Value) -> Value {
        let mut parameters = Vec::new();
        let body = v3.get("requestBody");
        if let Some(body) = body {
            let mut parameter = json!({"in": "body", "name": "body", "schema": schema_of(body)});
            if body["required"] == true {
                parameter["required"] = true.into();
            }
            parameters.push(parameter);
        }
        let others = v3.get("parameters").and_then(Value::as_array);
        parameters.extend(others.into_iter().flatten().map(|v3| self.parameter(v3)));
        let ok = &v3["responses"]["200"];
        let mut operation = json!({
            "tags": v3["tags"],
            "operationId": v3["operationId"],
            "consumes": body.map_or_else(|| json!(["*/*"]), media_types),
            "produces": media_types(ok),
            "responses": {
                "200": {"description": "OK", "schema": schema_of(ok)},
                "401": {"description": "Unauthorized"},
            },
            "schemes": ["https"],
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        for key in ["x-kubernetes-action", "x-kubernetes-group-version-kind"] {
            operation[key] = v3[key].clone();
        }
        operation
    }

    fn parameter(&mut self, v3: &Value) -> Value {
        let name = v3["name"].as_str().unwrap_or_default();
        let mut parameter = json!({
            "name": name,
            "in": v3["in"],
            "type": v3["schema"]["type"],
            "uniqueItems": v3["schema"]["uniqueItems"],
        });
        if v3["required"] == true {
            parameter["required"] = true.into();
        }
        if UNSHARED.contains(&name) {
            return parameter;
        }
        self.0.entry(name.to_owned()).or_insert(parameter);
        json!({"$ref": format!("{PARAMETER}{name}")})
    }
}

/// Returns the media types of a request or response body.
fn media_types(body: &Value) -> Value {
    body["content"].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

/// Returns the schema of a request or response body, which is the same for all its media types.
fn schema_of(body: &Value) -> Value {
    let content = body["content"].as_object().and_then(|content| content.values().next());
    let schema = content.map_or(Value::Null, |content| content["schema"].clone());
    match schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        Some(name) => json!({"$ref": format!("{V2_REFERENCE}{name}")}),
        None => schema,
    }
}
