//! [`JsonValue`]: one value of a JSON text, still as text.

use std::borrow::Cow;
use std::fmt;

use super::{JsonError, JsonType, PathSegment, Scanner, plain_length};

/// A value inside a JSON text, parsed on access.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::{Obj, ResourceInfo};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let info = Arc::new(ResourceInfo::of::<Deployment>());
/// let web = Obj::<Deployment>::from_json(&info, r#"{"metadata": {"name": "web"}, "spec": {"replicas": 3, "paused": true}}"#)?;
/// assert_eq!(web.path("spec.replicas")?.and_then(|value| value.as_i64()), Some(3));
/// assert_eq!(web.path("spec.paused")?.unwrap().text(), "true");
/// assert_eq!(web.path("spec.strategy")?, None);
/// assert!(web.path("spec.template[").is_err());
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JsonValue<'a>(pub(super) Cow<'a, str>);

impl<'a> JsonValue<'a> {
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
        if plain_length(text.as_bytes()) == text.len() {
            return JsonValue(Cow::Owned(["\"", text, "\""].concat()));
        }
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
