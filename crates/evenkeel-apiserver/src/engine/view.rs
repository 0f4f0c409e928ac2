//! How objects look to the client: its version of the resource, whole, as metadata, or as rows of a table.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::{Reason, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::indent::indent;
use super::{convert, object};
use crate::negotiate::{Media, MetaVersion, Representation, Transform};
use crate::protobuf_response::{self, Text, Unwritable};
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
    /// Of this resource.
    api_version: String,
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
        let api_version = resource.api_version();
        let prefix = format!(
            "{{\"kind\":{},\"apiVersion\":{},",
            Value::from(resource.kind.as_str()),
            Value::from(api_version.as_str())
        );
        let printer = matches!(representation.transform, Transform::Table(_)).then(|| Printer::new(&resource));
        View { resource, representation, include, now, api_version, prefix, printer }
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

    /// The version and the kind of what is shown.
    pub(super) fn shown_as(&self) -> (&str, &str) {
        match self.representation.transform {
            Transform::None => (&self.api_version, &self.resource.kind),
            Transform::Table(_) => (self.meta_version(), "Table"),
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => {
                (self.meta_version(), "PartialObjectMetadata")
            }
        }
    }

    /// The version and the kind of a list of what is shown.
    pub(super) fn list_shown_as(&self) -> (&str, &str) {
        match self.representation.transform {
            Transform::None => (&self.api_version, &self.resource.list_kind),
            _ => (self.meta_version(), "PartialObjectMetadataList"),
        }
    }

    /// The object as a protobuf message, without its envelope.
    pub(super) fn message<'r>(&self, record: &'r Record, at: Option<u64>) -> Result<Cow<'r, [u8]>, Unwritable> {
        let (api_version, kind) = self.shown_as();
        let message = match self.representation.transform {
            Transform::None if !self.is_stored_form(record) => {
                protobuf_response::message(api_version, kind, &self.value(record, at))?
            }
            Transform::None => match (record.protobuf(), at) {
                (Some(message), None) => return Ok(Cow::Borrowed(message)),
                _ => protobuf_response::message(api_version, kind, &Text(&self.json(record, at)))?,
            },
            _ => protobuf_response::message(api_version, kind, &Text(&self.metadata(record, at)))?,
        };
        Ok(Cow::Owned(message))
    }

    /// The same, kept with the record for those who ask next, if it can be: for reads of what is there. News is shown
    /// to all watchers at once, and then no more.
    pub(super) fn kept_message<'r>(&self, record: &'r Record) -> Result<Cow<'r, [u8]>, Unwritable> {
        let message = self.message(record, None)?;
        Ok(match message {
            Cow::Owned(message) if self.keeps(record) => Cow::Borrowed(record.keep_protobuf(message)),
            other => other,
        })
    }

    /// Keeps the message of a record, if the client reads protobuf.
    pub(super) fn keep(&self, record: &Record) {
        if self.representation.media == Media::Protobuf
            && record.protobuf().is_none()
            && self.keeps(record)
            && let Err(why) = self.kept_message(record)
        {
            tracing::error!(%why, "an object has no protobuf form");
        }
    }

    /// Whether the message of a record is one that can be kept with it.
    fn keeps(&self, record: &Record) -> bool {
        self.representation.transform == Transform::None && self.is_stored_form(record)
    }

    /// One object as the body of a response.
    pub(super) fn single(&self, record: &Record, at: Option<u64>) -> Result<Bytes, Status> {
        if self.representation.media == Media::Protobuf {
            let (api_version, kind) = self.shown_as();
            let message = self.message(record, at).map_err(unwritable)?;
            return Ok(protobuf_response::envelope(api_version, kind, &message));
        }
        encode(self.as_json(record, at), self.representation)
    }

    /// An object that was not stored, and so has no resource version (DRY-2), as the body of a response.
    pub(super) fn unstored(&self, record: &Record) -> Result<Bytes, Status> {
        let mut object = value_of(&self.as_json(record, None));
        object::metadata_mut(&mut object).remove("resourceVersion");
        encode(render(object), self.representation)
    }

    fn as_json(&self, record: &Record, at: Option<u64>) -> Bytes {
        match self.representation.transform {
            Transform::Table(_) => {
                let metadata = json!({"resourceVersion": at.unwrap_or(record.revision).to_string()});
                self.table(vec![self.row(record, at)], metadata, true).to_string().into()
            }
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => self.metadata(record, at),
            Transform::None => self.json(record, at),
        }
    }
}

/// JSON that this server has written, as a tree.
fn value_of(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// The answer where something has no protobuf form: either no such thing has one (CTN-022), or this one should have.
pub(super) fn unwritable(why: Unwritable) -> Status {
    let message = format!("the answer cannot be written as protobuf: {why}");
    match why {
        Unwritable::UnknownKind { .. } => Status::failure(406, Reason::NOT_ACCEPTABLE, message),
        Unwritable::Message { .. } => Status::internal(message),
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

/// JSON as the client wants it: as it is, indented, as YAML, or as protobuf.
pub(crate) fn encode(json: Bytes, representation: Representation) -> Result<Bytes, Status> {
    Ok(match representation.media {
        Media::Json if representation.pretty => indent(&json).into(),
        Media::Json => json,
        Media::Yaml => serde_saphyr::to_string(&value_of(&json)).map_or(json, Bytes::from),
        Media::Protobuf => protobuf_response::object(&value_of(&json)).map_err(unwritable)?,
    })
}
