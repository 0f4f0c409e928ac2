//! What API servers demand of a converted object. Sans-IO.

use serde_json::{Map, Value};

use super::review::ObjectHead;

/// Sets kind and version of a converted object, and checks that it is still the same object.
pub(super) fn finish(converted: &mut Value, original: &ObjectHead<'_>, api_version: &str) -> Result<(), String> {
    let Value::Object(object) = converted else { return Err("the converted object is no object".to_owned()) };
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), (*original.kind).into());
    let Some(Value::Object(metadata)) = object.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    for (field, expected) in [
        ("name", &original.metadata.name),
        ("namespace", &original.metadata.namespace),
        ("uid", &original.metadata.uid),
    ] {
        let found = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if found != *expected {
            return Err(format!("the converter has changed metadata.{field} from {expected:?} to {found:?}"));
        }
    }
    check_texts(metadata, "labels")?;
    check_texts(metadata, "annotations")
}

fn check_texts(metadata: &Map<String, Value>, field: &str) -> Result<(), String> {
    let problem = match metadata.get(field) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(texts)) => match texts.iter().find(|(_, value)| !value.is_string()) {
            None => return Ok(()),
            Some((key, _)) => format!("metadata.{field}[{key}] is no string"),
        },
        Some(_) => format!("metadata.{field} is no object"),
    };
    Err(format!("the converter has made an invalid object: {problem}"))
}
