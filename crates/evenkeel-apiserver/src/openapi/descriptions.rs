//! Descriptions of built-in kinds, from an OpenAPI document of a cluster (OAV-004).
//!
//! The schemas of this server have none. A user who wants them, for example for `kubectl explain`, passes a document that
//! `kubectl get --raw /openapi/v2` has saved, or documents of `/openapi/v3`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::document::is_published;

/// The largest document. That of a cluster without custom resources has about 4 MB.
const MAX_BYTES: usize = 64 << 20;

/// The kind whose description of the fields that all kinds have is taken for custom resources.
const COMMON: &str = "io.k8s.api.core.v1.Pod";

/// An error of [`Builder::openapi`](crate::Builder::openapi).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The file cannot be read.
    #[error("cannot read the OpenAPI document {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is a directory, a pipe or a device.
    #[error("the OpenAPI document {} is not a regular file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The document is too large.
    #[error("the OpenAPI document has more than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The document is not JSON, or its definitions have another form.
    #[error("the OpenAPI document is not valid JSON of that form; save one with `kubectl get --raw /openapi/v2`")]
    Malformed(#[source] serde_json::Error),
    /// The document has neither definitions nor schemas.
    #[error(
        "this is not an OpenAPI document: it has neither `definitions` (v2) nor `components.schemas` (v3); save one with \
         `kubectl get --raw /openapi/v2`"
    )]
    NoDefinitions,
    /// The document describes none of the built-in kinds.
    #[error(
        "the OpenAPI document describes no built-in kind; save one of a cluster with `kubectl get --raw /openapi/v2`"
    )]
    NoDescriptions,
}

/// The descriptions of definitions and of their fields.
#[derive(Debug, Default)]
pub(crate) struct Descriptions(HashMap<Box<str>, Description>);

#[derive(Debug, Default)]
struct Description {
    of_kind: Option<Box<str>>,
    of_fields: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Deserialize)]
struct Document {
    definitions: Option<BTreeMap<String, Definition>>,
    components: Option<Components>,
}

#[derive(Deserialize)]
struct Components {
    schemas: Option<BTreeMap<String, Definition>>,
}

#[derive(Deserialize)]
struct Definition {
    description: Option<Box<str>>,
    properties: Option<BTreeMap<Box<str>, Property>>,
}

/// A schema, or the boolean that newer drafts allow.
#[derive(Deserialize)]
#[serde(untagged)]
enum Property {
    Schema { description: Option<Box<str>> },
    Other(IgnoredAny),
}

/// Reads a file of at most [`MAX_BYTES`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, OpenApiError> {
    let failed = |source| OpenApiError::Read { path: path.to_owned(), source };
    // A pipe would block, and a device would never end.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(OpenApiError::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

impl Descriptions {
    /// Adds the descriptions of a document. Definitions that this server does not publish are left out.
    pub(crate) fn add_document(&mut self, document: &[u8]) -> Result<(), OpenApiError> {
        if document.len() > MAX_BYTES {
            return Err(OpenApiError::TooLarge { limit: MAX_BYTES });
        }
        let document: Document = serde_json::from_slice(document).map_err(OpenApiError::Malformed)?;
        let schemas = document.components.and_then(|components| components.schemas);
        let definitions = document.definitions.or(schemas).ok_or(OpenApiError::NoDefinitions)?;
        let mut found = false;
        for (name, definition) in definitions.into_iter().filter(|(name, _)| is_published(name)) {
            let of_fields = definition.properties.into_iter().flatten().filter_map(|(name, property)| match property {
                Property::Schema { description } => Some((name, description?)),
                Property::Other(_) => None,
            });
            let description = Description { of_kind: definition.description, of_fields: of_fields.collect() };
            if description.of_kind.is_some() || !description.of_fields.is_empty() {
                found = true;
                self.0.insert(name.into(), description);
            }
        }
        if found { Ok(()) } else { Err(OpenApiError::NoDescriptions) }
    }

    /// Returns the descriptions, if there are any.
    pub(crate) fn shared(self) -> Option<Arc<Descriptions>> {
        (!self.0.is_empty()).then(|| Arc::new(self))
    }

    /// Adds the descriptions of a definition to its schema.
    pub(super) fn add_to(&self, name: &str, schema: &mut Value) {
        let Some(description) = self.0.get(name) else { return };
        if let Some(text) = &description.of_kind {
            describe(schema, text);
        }
        for (field, text) in &description.of_fields {
            if let Some(property) = schema.get_mut("properties").and_then(|properties| properties.get_mut(&**field)) {
                describe(property, text);
            }
        }
    }

    /// Describes the fields of a custom resource that all kinds have. Its definition describes the others.
    pub(super) fn add_common_to(&self, schema: &mut Value) {
        let Some(common) = self.0.get(COMMON) else { return };
        for field in ["apiVersion", "kind", "metadata"] {
            let property = schema.get_mut("properties").and_then(|properties| properties.get_mut(field));
            if let (Some(text), Some(property)) = (common.of_fields.get(field), property) {
                describe(property, text);
            }
        }
    }
}

fn describe(schema: &mut Value, text: &str) {
    if let Value::Object(schema) = schema {
        schema.insert("description".to_owned(), text.into());
    }
}
