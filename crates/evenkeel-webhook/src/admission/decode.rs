//! Decoding of the objects of a review.

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
}

/// Decodes JSON. The path of an error is computed by decoding again, so that it costs nothing in the usual case.
pub(crate) fn decode<T: DeserializeOwned>(field: &'static str, json: &[u8]) -> Result<T, DecodeObjectError> {
    let error = match serde_json::from_slice(json) {
        Ok(object) => return Ok(object),
        Err(error) => error,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let path = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err();
    let path = path.map_or_else(|| ".".to_owned(), |error| error.path().to_string());
    Err(DecodeObjectError { field, path, problem: without_contents(&error.to_string()) })
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
