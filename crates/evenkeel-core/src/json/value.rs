//! [`JsonValue`]: one value of a JSON text, still as text.

use std::borrow::Cow;
use std::fmt;

use super::{JsonError, Scanner, Segment, Shape, segments};

/// A value inside a JSON text, read when it is asked.
///
/// ```
/// use evenkeel_core::json::JsonValue;
///
/// let text = r#"{"spec": {"replicas": 3, "containers": [{"image": "web:1"}]}}"#;
/// assert_eq!(JsonValue::at_path(text, "spec.replicas").and_then(|value| value.as_i64()), Some(3));
/// assert_eq!(JsonValue::at_path(text, "spec.containers[0].image").unwrap().text(), "web:1");
/// assert_eq!(JsonValue::at_path(text, "spec.containers[1]"), None);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JsonValue<'a>(Cow<'a, str>);

impl<'a> JsonValue<'a> {
    /// The value at a path such as `spec.containers[0].image` or `metadata.labels[app.kubernetes.io/name]`.
    ///
    /// `None` if there is no such value or it is null, which in Kubernetes is the same, or if the path is not well-formed.
    pub fn at_path(text: &'a str, path: &str) -> Option<Self> {
        Self::look_up(text, segments(path)).ok().flatten()
    }

    pub(crate) fn look_up<'p>(
        text: &'a str,
        path: impl Iterator<Item = Option<Segment<'p>>>,
    ) -> Result<Option<Self>, JsonError> {
        let mut scanner = Scanner::of_str(text);
        for segment in path {
            let found = match segment {
                None => false,
                Some(Segment::Member(name)) => scanner.find_member(name)?,
                Some(Segment::Bracketed(inside)) => match scanner.shape()? {
                    Shape::Array => match inside.parse() {
                        Ok(index) => scanner.find_element(index)?,
                        Err(_) => false,
                    },
                    _ => scanner.find_member(inside)?,
                },
            };
            if !found {
                return Ok(None);
            }
        }
        let value = scanner.skip()?;
        Ok((value != "null").then_some(JsonValue(Cow::Borrowed(value))))
    }

    /// A string.
    pub(crate) fn of_string(text: &str) -> JsonValue<'static> {
        JsonValue(Cow::Owned(serde_json::Value::from(text).to_string()))
    }

    /// The same value in a text of its own.
    pub fn into_owned(self) -> JsonValue<'static> {
        JsonValue(Cow::Owned(self.0.into_owned()))
    }

    /// The value's own text: strings have their quotes.
    pub fn json(&self) -> &str {
        &self.0
    }

    /// The value if it is a string.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        // Asked of whatever an index finds: what is no string is not worth an error.
        self.0.starts_with('"').then(|| Scanner::of_str(&self.0).string().ok())?
    }

    /// The value if it is a whole number of 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        Scanner::of_str(&self.0).integer().ok()
    }

    /// The value if it is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        Scanner::of_str(&self.0).bool().ok()
    }

    /// The value as an index would have it: a string without its quotes, anything else as it is written.
    pub fn text(&self) -> Cow<'_, str> {
        self.as_str().unwrap_or(Cow::Borrowed(&self.0))
    }
}

impl fmt::Debug for JsonValue<'_> {
    /// The size, not the contents: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonValue({} bytes)", self.0.len())
    }
}
