//! [`JsonValue`]: one value of a JSON text, still as text.

use std::borrow::Cow;
use std::fmt;

use super::{JsonError, JsonPath, JsonType, PathError, PathSegment, Scanner};

/// A value inside a JSON text, parsed on access.
///
/// ```
/// use evenkeel_core::json::JsonValue;
///
/// let text = r#"{"spec": {"replicas": 3, "containers": [{"image": "web:1"}]}}"#;
/// assert_eq!(JsonValue::at_path(text, "spec.replicas")?.and_then(|value| value.as_i64()), Some(3));
/// assert_eq!(JsonValue::at_path(text, "spec.containers[0].image")?.unwrap().text(), "web:1");
/// assert_eq!(JsonValue::at_path(text, "spec.containers[1]")?, None);
/// assert!(JsonValue::at_path(text, "spec.containers[").is_err());
/// # Ok::<(), evenkeel_core::json::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JsonValue<'a>(Cow<'a, str>);

impl<'a> JsonValue<'a> {
    /// Returns the value at a path such as `spec.containers[0].image`, `metadata.labels[app.kubernetes.io/name]` or
    /// `metadata.annotations['example.com/a b']`.
    ///
    /// Returns `None` if there is no such value, if it is null, which means the same in Kubernetes, and if the text is no JSON.
    pub fn at_path(text: &'a str, path: &str) -> Result<Option<Self>, PathError> {
        Ok(Self::look_up(text, JsonPath::parse(path)?.segments()).ok().flatten())
    }

    pub(crate) fn look_up<'p>(
        text: &'a str,
        path: impl Iterator<Item = PathSegment<'p>>,
    ) -> Result<Option<Self>, JsonError> {
        let mut scanner = Scanner::of_str(text);
        for segment in path {
            let found = match (scanner.value_type()?, segment.member(), segment.index()) {
                (JsonType::Array, _, Some(index)) => scanner.find_element(index)?,
                (JsonType::Object, Some(name), _) => scanner.find_member(name)?,
                _ => false,
            };
            if !found {
                return Ok(None);
            }
        }
        let value = scanner.skip()?;
        Ok((value != "null").then_some(JsonValue(Cow::Borrowed(value))))
    }

    pub(crate) fn of_string(text: &str) -> JsonValue<'static> {
        JsonValue(Cow::Owned(serde_json::Value::from(text).to_string()))
    }

    /// Copies the value into a text of its own.
    pub fn into_owned(self) -> JsonValue<'static> {
        JsonValue(Cow::Owned(self.0.into_owned()))
    }

    /// Returns the JSON of the value. Strings include their quotes.
    pub fn json(&self) -> &str {
        &self.0
    }

    /// Returns the value of a string.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        // Indexes call this for every value: other types must not cost an error.
        self.0.starts_with('"').then(|| Scanner::of_str(&self.0).string().ok())?
    }

    /// Returns the value of a 64-bit integer.
    pub fn as_i64(&self) -> Option<i64> {
        Scanner::of_str(&self.0).integer().ok()
    }

    /// Returns the value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        Scanner::of_str(&self.0).bool().ok()
    }

    /// Returns the value as an index key: a string without its quotes, any other value as JSON.
    pub fn text(&self) -> Cow<'_, str> {
        self.as_str().unwrap_or(Cow::Borrowed(&self.0))
    }
}

impl fmt::Debug for JsonValue<'_> {
    /// Prints the size, not the contents: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonValue({} bytes)", self.0.len())
    }
}
