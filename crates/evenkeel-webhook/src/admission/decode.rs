//! Decoding of the objects of a review.

use evenkeel_core::json::JsonValue;
use serde::de::DeserializeOwned;

/// An object of a review does not fit its type.
#[derive(Debug, thiserror::Error)]
#[error("{field} does not fit its type at {path}: {problem}")]
pub struct DecodeObjectError {
    /// `object`, `oldObject` or `options`.
    field: &'static str,
    /// The path of the value at fault.
    path: String,
    /// Why it does not fit, without contents of the object.
    problem: String,
}

impl DecodeObjectError {
    /// Returns the path of the value at fault, such as `spec.replicas`; `.` for the whole object.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether a field is missing that the type requires.
    pub(crate) fn is_missing_field(&self) -> bool {
        self.problem.starts_with("missing field")
    }

    /// Returns whether the object has no `spec`, which its type requires.
    pub(crate) fn is_missing_spec(&self) -> bool {
        self.path == "." && self.problem == "missing field `spec`"
    }
}

/// Decodes JSON. The path of an error is computed by decoding again, so that it costs nothing in the usual case.
pub(crate) fn decode<T: DeserializeOwned>(field: &'static str, json: &[u8]) -> Result<T, DecodeObjectError> {
    // A text is checked once, bytes string by string.
    let decoded = match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    };
    let error = match decoded {
        Ok(object) => return Ok(object),
        Err(error) => error,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let path = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err();
    let path = path.map_or_else(|| ".".to_owned(), |error| error.path().to_string());
    Err(DecodeObjectError { field, path, problem: without_contents(&error.to_string()) })
}

/// Decodes the object for the functions of a hook: without `metadata.managedFields`, which few of them read, and which take as
/// long to decode as all the rest of a pod.
pub(super) fn decode_for_hook<T: DeserializeOwned>(field: &'static str, json: &[u8]) -> Result<T, DecodeObjectError> {
    match std::str::from_utf8(json).ok().and_then(without_managed_fields) {
        Some(lighter) => decode(field, lighter.as_bytes()),
        None => decode(field, json),
    }
}

/// Returns the text with null for `metadata.managedFields`; `None` if there are none.
fn without_managed_fields(text: &str) -> Option<String> {
    let found = JsonValue::at_path(text, "metadata.managedFields").ok()??;
    // The value is a slice of the text.
    let start = found.json().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some([text.get(..start)?, "null", text.get(start + found.json().len()..)?].concat())
}

/// Returns serde's message without the contents of strings, which may be secret, and without the position, which the path names.
fn without_contents(text: &str) -> String {
    let text = text.rfind(" at line ").map_or(text, |at| text.get(..at).unwrap_or(text));
    match (text.find(" \""), text.rfind('"')) {
        (Some(start), Some(end)) if start + 1 < end => {
            [text.get(..start).unwrap_or_default(), text.get(end + 1..).unwrap_or_default()].concat()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn managed_fields_are_left_out_for_hooks_and_nothing_else() {
        let json = r#"{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}] ,"name":"a"},"spec":{"containers":[]}}"#;
        let lighter = without_managed_fields(json).unwrap();
        assert_eq!(lighter, r#"{"metadata":{"managedFields":null ,"name":"a"},"spec":{"containers":[]}}"#);
        let pod: Pod = decode_for_hook("object", json.as_bytes()).unwrap();
        assert_eq!((pod.metadata.managed_fields, pod.metadata.name.as_deref()), (None, Some("a")));
        let pod: Pod = decode("object", json.as_bytes()).unwrap();
        assert!(pod.metadata.managed_fields.is_some());

        for same in [
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"managedFields":null}}"#,
            r#"{"managedFields":[1]}"#,
            "3",
            "{",
        ] {
            assert_eq!(without_managed_fields(same), None, "{same}");
        }
    }

    #[test]
    fn an_error_beside_managed_fields_has_its_path() {
        let json = br#"{"metadata":{"managedFields":[{}]},"spec":{"containers":[{"name":7}]}}"#;
        let error = decode_for_hook::<Pod>("object", json).unwrap_err();
        assert_eq!(error.path(), "spec.containers[0].name");
    }
}
