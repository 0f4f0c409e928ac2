//! How objects look to the client: its version of the resource, whole, as metadata, or as rows of a table.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::convert;
use super::indent::indent;
use crate::negotiate::{Media, MetaVersion, Representation, Transform};
use crate::registry::Resource;
use crate::store::Record;
use crate::table::{self, Printer};

/// What a row of a Table carries besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// A way to show the objects of one resource.
pub(super) struct View {
    pub(super) resource: Arc<Resource>,
    pub(super) representation: Representation,
    pub(super) include: IncludeObject,
    /// For the ages in a table: the time of the request, or of the event that a watch shows.
    pub(super) now: Timestamp,
    /// `{"kind":"…","apiVersion":"…",` of this resource.
    prefix: String,
    printer: Option<Printer>,
}

impl View {
    pub(super) fn new(
        resource: Arc<Resource>,
        representation: Representation,
        include: IncludeObject,
        now: Timestamp,
    ) -> Self {
        let prefix = format!(
            "{{\"kind\":{},\"apiVersion\":{},",
            Value::from(resource.kind.as_str()),
            Value::from(resource.api_version())
        );
        let printer = matches!(representation.transform, Transform::Table(_)).then(|| Printer::new(&resource));
        View { resource, representation, include, now, prefix, printer }
    }

    /// The version of the transformed forms.
    pub(super) fn meta_version(&self) -> &'static str {
        match self.representation.transform {
            Transform::None => MetaVersion::V1.api_version(),
            Transform::Table(version)
            | Transform::PartialObjectMetadata(version)
            | Transform::PartialObjectMetadataList(version) => version.api_version(),
        }
    }

    /// Whether the stored bytes are what the client wants to see.
    pub(super) fn is_stored_form(&self, record: &Record) -> bool {
        record.json().starts_with(self.prefix.as_bytes()) && !self.is_stale(record)
    }

    /// The schema has changed since the object was written, so defaults may be missing (CRD-6).
    fn is_stale(&self, record: &Record) -> bool {
        self.resource.custom.as_ref().is_some_and(|custom| custom.schema_stamp != record.facts.schema_stamp)
    }

    /// The whole object as JSON, in the client's version. `at` replaces the resource version.
    pub(super) fn json(&self, record: &Record, at: Option<u64>) -> Bytes {
        if self.is_stored_form(record) {
            return at.map_or_else(|| record.json().clone(), |revision| record.json_at(revision));
        }
        render(self.value(record, at))
    }

    /// The object as a tree, in the client's version.
    pub(super) fn value(&self, record: &Record, at: Option<u64>) -> Value {
        let mut value = convert::to_version(record.value(), &self.resource);
        if self.is_stale(record)
            && let Some(schema) = self.resource.schema()
        {
            schema.apply_defaults(&mut value);
        }
        if let Some(revision) = at {
            value["metadata"]["resourceVersion"] = revision.to_string().into();
        }
        value
    }

    /// Appends the object as an item of a list: items of typed lists have no kind and no version (NEG-10).
    pub(super) fn item(&self, record: &Record, out: &mut Vec<u8>) {
        if self.resource.custom.is_some() {
            out.extend_from_slice(&self.json(record, None));
        } else if self.is_stored_form(record) {
            out.push(b'{');
            out.extend_from_slice(record.body());
        } else {
            let mut value = self.value(record, None);
            if let Some(fields) = value.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            out.extend_from_slice(value.to_string().as_bytes());
        }
    }

    /// The object as PartialObjectMetadata.
    pub(super) fn metadata(&self, record: &Record, at: Option<u64>) -> Bytes {
        let version = self.meta_version();
        let mut out =
            format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{version}\",\"metadata\":").into_bytes();
        match at {
            None => out.extend_from_slice(record.metadata()),
            Some(revision) => out.extend_from_slice(&record.metadata_at(revision)),
        }
        out.push(b'}');
        out.into()
    }

    /// The object as a row of a Table.
    pub(super) fn row(&self, record: &Record, at: Option<u64>) -> Value {
        self.row_of(self.value(record, at), self.include)
    }

    /// A row for an object in the client's version.
    pub(super) fn row_of(&self, object: Value, include: IncludeObject) -> Value {
        let cells = self.printer.as_ref().map(|printer| printer.cells(&object, self.now));
        let mut row = json!({"cells": cells.unwrap_or_default()});
        if let Some(conditions) = table::row_conditions(&self.resource.group, &self.resource.kind, &object) {
            row["conditions"] = conditions;
        }
        match include {
            IncludeObject::None => row["object"] = Value::Null,
            IncludeObject::Metadata => {
                row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": self.meta_version(),
                                       "metadata": object.get("metadata")});
            }
            IncludeObject::Object => row["object"] = object,
        }
        row
    }

    /// A Table of these rows. Column definitions are left out of later frames of a watch (WAT-26).
    pub(super) fn table(&self, rows: Vec<Value>, metadata: Value, columns: bool) -> Value {
        let columns = self.printer.as_ref().filter(|_| columns).map(Printer::columns);
        json!({"kind": "Table", "apiVersion": self.meta_version(), "metadata": metadata,
               "columnDefinitions": columns, "rows": rows})
    }

    /// One object as the body of a response.
    pub(super) fn single(&self, record: &Record, at: Option<u64>) -> Bytes {
        let json = match self.representation.transform {
            Transform::Table(_) => {
                let metadata = json!({"resourceVersion": at.unwrap_or(record.revision).to_string()});
                self.table(vec![self.row(record, at)], metadata, true).to_string().into()
            }
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => self.metadata(record, at),
            Transform::None => self.json(record, at),
        };
        encode(json, self.representation)
    }
}

/// An object as JSON, its kind and version first (NEG-10).
pub(super) fn render(mut object: Value) -> Bytes {
    let mut text = String::from("{");
    for key in ["kind", "apiVersion"] {
        if let Some(value) = object.as_object_mut().and_then(|fields| fields.remove(key)) {
            text.push_str(&format!("\"{key}\":{value},"));
        }
    }
    let rest = object.to_string();
    let rest = rest.strip_prefix('{').unwrap_or(&rest);
    if rest == "}" && text.ends_with(',') {
        text.pop();
    }
    text.push_str(rest);
    text.into()
}

/// JSON as the client wants it: as it is, indented, or as YAML.
pub(super) fn encode(json: Bytes, representation: Representation) -> Bytes {
    match representation.media {
        Media::Json if representation.pretty => indent(&json).into(),
        Media::Json => json,
        Media::Yaml => {
            let value = serde_json::from_slice::<Value>(&json).ok();
            value.and_then(|value| serde_saphyr::to_string(&value).ok()).map_or(json, Bytes::from)
        }
    }
}
