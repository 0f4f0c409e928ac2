mod builtin;
mod custom;
mod properties;

use serde_json::Value;

use super::*;

fn builtin(id: &str) -> &'static Schema {
    Schema::builtin(id).unwrap()
}

fn fault(id: &str, mut value: Value) -> String {
    builtin(id).decode_builtin(&mut value).unwrap_err().to_string()
}

fn structural(open_api: Value) -> Schema {
    Schema::structural(&open_api).unwrap()
}

fn errors(schema: &Schema, value: &Value) -> Vec<String> {
    schema.validate(value).iter().map(ToString::to_string).collect()
}
