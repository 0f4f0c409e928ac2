//! [`Unstructured`]: objects without a Rust type; and [`PartialObjectMetadata`]: the metadata of objects.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::Object;

/// An object as a JSON value, for kinds that are only known at run time.
///
/// ```
/// use evenkeel_client::Unstructured;
/// use serde_json::json;
///
/// let mut foo = Unstructured::from(json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}));
/// foo.set("spec.replicas", json!(3)).unwrap();
/// assert_eq!(foo.get("spec.replicas").and_then(|value| value.as_i64()), Some(3));
/// assert_eq!(foo.kind(), Some("Foo"));
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unstructured(pub Value);

impl Unstructured {
    /// Returns the value at a path of member names, such as `spec.template.metadata`. Members with dots in their names
    /// are reached through the methods of [`Value`].
    pub fn get(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.0, |value, member| value.get(member))
    }

    /// Sets the value at a path of member names, creating objects on the path. Returns the value as an error if
    /// something on the path is no object.
    pub fn set(&mut self, path: &str, value: Value) -> Result<(), Value> {
        let mut place = &mut self.0;
        for member in path.split('.') {
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            let Value::Object(members) = place else { return Err(value) };
            place = members.entry(member).or_insert(Value::Null);
        }
        *place = value;
        Ok(())
    }

    /// Returns the kind, if the object has one.
    pub fn kind(&self) -> Option<&str> {
        self.0.get("kind")?.as_str()
    }

    /// Returns the API version, if the object has one.
    pub fn api_version(&self) -> Option<&str> {
        self.0.get("apiVersion")?.as_str()
    }

    fn metadata(&self, member: &str) -> Option<&str> {
        self.0.get("metadata")?.get(member)?.as_str().filter(|text| !text.is_empty())
    }
}

impl Object for Unstructured {
    fn name(&self) -> Option<Cow<'_, str>> {
        self.metadata("name").map(Cow::Borrowed)
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        self.metadata("namespace").map(Cow::Borrowed)
    }

    fn has_managed_fields(&self) -> bool {
        let fields = self.0.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        fields.and_then(Value::as_array).is_some_and(|fields| !fields.is_empty())
    }
}

impl From<Value> for Unstructured {
    fn from(value: Value) -> Self {
        Unstructured(value)
    }
}

impl fmt::Debug for Unstructured {
    /// Shows the name of the object and none of its content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstructured")
            .field("api_version", &self.api_version())
            .field("kind", &self.kind())
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// The metadata of an object of any kind. Servers that support it send nothing else, which costs them and the network
/// less.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartialObjectMetadata {
    /// The API version; `meta.k8s.io/v1` from a server that supports it.
    pub api_version: String,
    /// The kind; `PartialObjectMetadata` from such a server.
    pub kind: String,
    /// The metadata.
    pub metadata: ObjectMeta,
}
