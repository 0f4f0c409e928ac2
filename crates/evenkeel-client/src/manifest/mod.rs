//! Manifests: files with several objects in YAML or JSON.
//!
//! ```
//! use evenkeel_client::manifest;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! let text = "\
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: a}
//! ---
//! apiVersion: v1
//! kind: List
//! items:
//! - {apiVersion: v1, kind: Secret, metadata: {name: b}}
//! ";
//! let objects = manifest::parse(text)?;
//! assert_eq!(objects.iter().map(|it| it.object.kind().unwrap()).collect::<Vec<_>>(), ["ConfigMap", "Secret"]);
//! assert!(objects[0].decode::<ConfigMap>()?.is_some());
//! # Ok::<(), evenkeel_client::manifest::ManifestError>(())
//! ```
//!
//! [`api_of`] maps an object to the API that applies it:
//!
//! ```
//! # async fn example(client: evenkeel_client::Client, text: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_client::discovery::RestMapper;
//! use evenkeel_client::manifest;
//!
//! let mapper = RestMapper::new(client.discovery().cached());
//! for item in manifest::parse(text)? {
//!     let api = manifest::api_of(&client, &mapper, &item.object).await?;
//!     api.apply(item.name(), "my-operator", &item.object).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod documents;
#[cfg(test)]
mod tests;

use evenkeel_core::{ResourceInfo, StaticScope};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::scope::Any;
use crate::api::{Api, Object as _, Unstructured};
use crate::client::Client;
use crate::discovery::{DiscoveryError, RestMapper};

/// The largest manifest.
const MAX_BYTES: usize = 16 << 20;
/// The largest number of documents, and of objects.
const MAX_OBJECTS: usize = 10_000;
/// The deepest nesting of lists in lists.
const MAX_LISTS: usize = 4;

/// An object of a manifest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManifestObject {
    /// The object. It has an API version and a kind.
    pub object: Unstructured,
    /// The number of its document in the text, from 1.
    pub document: usize,
    /// The line in which the document starts, from 1.
    pub line: usize,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text has more than 16 MiB, or more than 10,000 documents or objects.
    #[error("the manifest has more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A document is neither YAML nor JSON, or nested or expanded beyond the limits.
    #[error("document {document} of the manifest, line {line}: {problem}")]
    Syntax {
        /// The number of the document, from 1.
        document: usize,
        /// The line in the text, from 1.
        line: usize,
        /// What is wrong, without contents of the document.
        problem: String,
    },
    /// A document is no object, or an object has no API version or no kind.
    #[error("document {document} of the manifest, line {line}: {problem}")]
    NoObject {
        /// The number of the document, from 1.
        document: usize,
        /// The line in which the document starts, from 1.
        line: usize,
        /// What is missing.
        problem: String,
    },
    /// An object does not fit its type.
    #[error("document {document} of the manifest, line {line}: {object} cannot be decoded")]
    Decode {
        /// The number of the document, from 1.
        document: usize,
        /// The line in which the document starts, from 1.
        line: usize,
        /// The kind and name of the object.
        object: String,
        /// Why.
        source: serde_json::Error,
    },
    /// An object cannot be written.
    #[error("document {document} cannot be written: {problem}")]
    Encode {
        /// The number of the document, from 1.
        document: usize,
        /// Why.
        problem: String,
    },
}

/// Returns the objects of a manifest in their order: documents in YAML, separated by `---`, or in JSON, one after the
/// other. The items of a `List` take its place. Documents without content are skipped.
///
/// # Errors
/// Errors name the document and the line. Limits: 16 MiB, 10,000 documents and objects, 64 levels of nesting, 100,000
/// nodes that aliases expand to. A key that a mapping has twice is an error.
pub fn parse(text: &str) -> Result<Vec<ManifestObject>, ManifestError> {
    if text.len() > MAX_BYTES {
        return Err(ManifestError::TooLarge { what: "bytes", limit: MAX_BYTES });
    }
    let mut objects = Vec::new();
    for found in documents::read(text)? {
        flatten(found.value, found.document, found.line, 0, &mut objects)?;
    }
    Ok(objects)
}

/// Adds an object, or the items of a list.
fn flatten(
    value: Value,
    document: usize,
    line: usize,
    depth: usize,
    objects: &mut Vec<ManifestObject>,
) -> Result<(), ManifestError> {
    let problem = |problem: &str| ManifestError::NoObject { document, line, problem: problem.to_owned() };
    let Value::Object(mut members) = value else {
        return Err(problem("it is no object; an object is a mapping with apiVersion and kind"));
    };
    let is_set = |key: &str| members.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !is_set("apiVersion") || !is_set("kind") {
        return Err(problem("an object needs apiVersion and kind"));
    }
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    let (is_any_list, is_list_of_kind) = (kind == "List", kind.ends_with("List"));
    match members.get_mut("items") {
        Some(Value::Array(items)) if is_list_of_kind => {
            if depth == MAX_LISTS {
                return Err(problem("lists are nested too deeply"));
            }
            std::mem::take(items).into_iter().try_for_each(|item| flatten(item, document, line, depth + 1, objects))
        }
        None | Some(Value::Null) if is_any_list => Ok(()),
        _ => {
            if objects.len() == MAX_OBJECTS {
                return Err(ManifestError::TooLarge { what: "objects", limit: MAX_OBJECTS });
            }
            objects.push(ManifestObject { object: Unstructured(Value::Object(members)), document, line });
            Ok(())
        }
    }
}

/// Writes objects as documents in YAML, separated by `---`. Members are sorted, so that equal objects give equal texts.
/// [`parse`] reads them as they were.
///
/// # Errors
/// An object has no form in YAML, such as a map whose keys are not text.
pub fn to_yaml<T: Serialize>(objects: impl IntoIterator<Item = T>) -> Result<String, ManifestError> {
    let mut text = String::new();
    for (index, object) in objects.into_iter().enumerate() {
        let document = index + 1;
        let failed = |problem: String| ManifestError::Encode { document, problem };
        // Through a value, whose members are sorted.
        let value = serde_json::to_value(object).map_err(|error| failed(error.to_string()))?;
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let yaml = serde_saphyr::to_string_with_options(&value, options).map_err(|error| failed(error.to_string()))?;
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&yaml);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

impl ManifestObject {
    /// Returns the name of the object; empty if it has none.
    pub fn name(&self) -> &str {
        self.object.get("metadata.name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the object as a type; `None` if its API version or kind is another.
    ///
    /// # Errors
    /// The object does not fit the type.
    pub fn decode<K>(&self) -> Result<Option<K>, ManifestError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
        K::Scope: StaticScope,
    {
        let info = ResourceInfo::of::<K>();
        let (version, kind) = (info.api_version(), info.kind());
        if self.object.api_version() != Some(version) || self.object.kind() != Some(kind) {
            return Ok(None);
        }
        K::deserialize(&self.object.0).map(Some).map_err(|source| ManifestError::Decode {
            document: self.document,
            line: self.line,
            object: format!("{kind} {:?}", self.name()),
            source,
        })
    }
}

/// Returns the API of an object's kind, in its namespace. An object of a namespaced kind without a namespace is in the
/// default namespace of the client's configuration.
///
/// # Errors
/// The server does not serve the kind, or discovery failed.
pub async fn api_of(
    client: &Client,
    mapper: &RestMapper,
    object: &Unstructured,
) -> Result<Api<Unstructured, Any>, DiscoveryError> {
    let version = object.api_version().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let info = mapper.mapping(group, object.kind().unwrap_or_default(), &[version]).await?;
    let namespace = object.namespace();
    let namespace = namespace.as_deref().unwrap_or(&client.config().namespace);
    Ok(client.dynamic(&info).namespace(namespace))
}
