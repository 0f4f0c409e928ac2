//! Methods of [`JsonValue`] for the other crates of evenkeel.

use super::{JsonPath, JsonValue, PathError};

impl<'a> JsonValue<'a> {
    /// Returns the value at a path such as `spec.containers[0].image`, `metadata.labels[app.kubernetes.io/name]` or
    /// `metadata.annotations['example.com/a b']`.
    ///
    /// Returns `None` if there is no such value, if it is null, which means the same in Kubernetes, and if the text is no JSON.
    pub fn at_path(text: &'a str, path: &str) -> Result<Option<Self>, PathError> {
        Ok(Self::look_up(text, JsonPath::parse(path)?.segments()).ok().flatten())
    }
}
