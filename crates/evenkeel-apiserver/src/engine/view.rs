//! The form of objects in responses: the client's version of the resource, whole, as metadata, or as rows of a Table.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::{Reason, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::indent::{IndentedBody, indent};
use super::{convert, object};
use crate::http_types::Body;
use crate::memory::Memory;
use crate::negotiate::{Media, MetaVersion, Representation, Transform};
use crate::protobuf_response::{self, JsonText, Unwritable};
use crate::registry::Resource;
use crate::store::Record;
use crate::table::{self, Printer};

/// What a row of a Table carries besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`.
    pub(crate) fn parse(text: Option<&str>) -> Result<IncludeObject, Status> {
        match text.unwrap_or_default() {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "None" => Ok(IncludeObject::None),
            "Object" => Ok(IncludeObject::Object),
            other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// The form in which a request sees the objects of one resource.
pub(crate) struct View {
    pub(crate) resource: Arc<Resource>,
    pub(crate) representation: Representation,
    pub(crate) include: IncludeObject,
    /// The time of the request or of the watch event, for the ages in a Table.
    pub(crate) now: Timestamp,
    /// The API version of this resource.
    api_version: String,
    /// `{"kind":"…","apiVersion":"…",` of this resource.
    prefix: String,
    printer: Option<Printer>,
    memory: Arc<Memory>,
}

impl View {
    pub(crate) fn new(
        resource: Arc<Resource>,
        representation: Representation,
        include: IncludeObject,
        now: Timestamp,
        memory: Arc<Memory>,
    ) -> Self {
        let api_version = resource.api_version();
        let prefix = format!(
            "{{\"kind\":{},\"apiVersion\":{},",
            Value::from(resource.kind.as_str()),
            Value::from(api_version.as_str())
        );
        let printer = matches!(representation.transform, Transform::Table(_)).then(|| Printer::new(&resource));
        View { resource, representation, include, now, api_version, prefix, printer, memory }
    }

    /// Returns the API version of the transformed forms.
    pub(crate) fn meta_version(&self) -> &'static str {
        match self.representation.transform {
            Transform::None => MetaVersion::V1.api_version(),
            Transform::Table(version)
            | Transform::PartialObjectMetadata(version)
            | Transform::PartialObjectMetadataList(version) => version.api_version(),
        }
    }

    /// Returns whether the stored bytes are already in the client's version.
    pub(crate) fn is_stored_form(&self, record: &Record) -> bool {
        record.json().starts_with(self.prefix.as_bytes()) && !self.is_stale(record)
    }

    /// Returns whether the schema has changed since the object was written, so that defaults may be missing (CRD-6).
    fn is_stale(&self, record: &Record) -> bool {
        self.resource.custom.as_ref().is_some_and(|custom| custom.schema_stamp != record.facts.schema_stamp)
    }

    /// Returns the whole object as JSON, in the client's version. `at` replaces the resource version.
    pub(crate) fn json(&self, record: &Record, at: Option<u64>) -> Bytes {
        if self.is_stored_form(record) {
            return at.map_or_else(|| record.json().clone(), |revision| record.json_at(revision));
        }
        render(self.value(record, at))
    }

    /// Returns the object as a JSON value, in the client's version.
    pub(crate) fn value(&self, record: &Record, at: Option<u64>) -> Value {
        let mut value = convert::to_version(record.value(), &self.resource);
        if self.is_stale(record)
            && let Some(schema) = self.resource.schema()
        {
            // New defaults that make a stored object too large are applied as far as the limit allows: a read does not fail.
            let _ = schema.apply_defaults(&mut value);
        }
        if let Some(revision) = at {
            value["metadata"]["resourceVersion"] = revision.to_string().into();
        }
        value
    }

    /// Appends the object as an item of a list: items of typed lists have no kind and no version (NEG-10).
    pub(crate) fn item(&self, record: &Record, out: &mut Vec<u8>) {
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

    /// Returns the object as PartialObjectMetadata.
    pub(crate) fn metadata(&self, record: &Record, at: Option<u64>) -> Bytes {
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

    /// Returns the object as a row of a Table.
    pub(crate) fn row(&self, record: &Record, at: Option<u64>) -> Value {
        self.row_of(self.value(record, at), self.include)
    }

    /// Returns the row of an object in the client's version.
    pub(crate) fn row_of(&self, object: Value, include: IncludeObject) -> Value {
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

    /// Returns a Table of these rows. Later frames of a watch omit the column definitions (WAT-26).
    pub(crate) fn table(&self, rows: Vec<Value>, metadata: Value, columns: bool) -> Value {
        let columns = self.printer.as_ref().filter(|_| columns).map(Printer::columns);
        json!({"kind": "Table", "apiVersion": self.meta_version(), "metadata": metadata,
               "columnDefinitions": columns, "rows": rows})
    }

    /// Returns the API version and kind of one object in this form.
    pub(crate) fn kind_in_form(&self) -> (&str, &str) {
        match self.representation.transform {
            Transform::None => (&self.api_version, &self.resource.kind),
            Transform::Table(_) => (self.meta_version(), "Table"),
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => {
                (self.meta_version(), "PartialObjectMetadata")
            }
        }
    }

    /// Returns the API version and kind of a list in this form.
    pub(crate) fn list_kind_in_form(&self) -> (&str, &str) {
        match self.representation.transform {
            Transform::None => (&self.api_version, &self.resource.list_kind),
            _ => (self.meta_version(), "PartialObjectMetadataList"),
        }
    }

    /// Returns the object as a protobuf message without its envelope.
    pub(crate) fn message<'r>(&self, record: &'r Record, at: Option<u64>) -> Result<Cow<'r, [u8]>, Unwritable> {
        let (api_version, kind) = self.kind_in_form();
        let message = match self.representation.transform {
            Transform::None if !self.is_stored_form(record) => {
                protobuf_response::message(api_version, kind, &self.value(record, at))?
            }
            Transform::None => match (record.protobuf(), at) {
                (Some(message), None) => return Ok(Cow::Borrowed(message)),
                _ => protobuf_response::message(api_version, kind, &JsonText(&self.json(record, at)))?,
            },
            _ => protobuf_response::message(api_version, kind, &JsonText(&self.metadata(record, at)))?,
        };
        Ok(Cow::Owned(message))
    }

    /// Returns the same, and caches it with the record if possible. Meant for reads of stored objects: a watch event is
    /// encoded once for all watches and not read again.
    pub(crate) fn cached_message<'r>(&self, record: &'r Record) -> Result<Cow<'r, [u8]>, Unwritable> {
        let message = self.message(record, None)?;
        Ok(match message {
            Cow::Owned(message) if self.is_cacheable(record) => match self.memory.charge_encoding(message.len()) {
                Some(charge) => Cow::Borrowed(record.cache_protobuf(message, charge)),
                None => Cow::Owned(message),
            },
            other => other,
        })
    }

    /// Caches the message of a record if the client reads protobuf.
    pub(crate) fn cache(&self, record: &Record) {
        if self.representation.media == Media::Protobuf
            && record.protobuf().is_none()
            && self.is_cacheable(record)
            && let Err(why) = self.cached_message(record)
        {
            tracing::error!(%why, "object has no protobuf form");
        }
    }

    /// Returns whether the message of a record can be cached with it.
    fn is_cacheable(&self, record: &Record) -> bool {
        self.representation.transform == Transform::None && self.is_stored_form(record)
    }

    /// Returns one object as the body of a response.
    pub(crate) fn single(&self, record: &Record, at: Option<u64>) -> Result<Body, Status> {
        if self.representation.media == Media::Protobuf {
            let (api_version, kind) = self.kind_in_form();
            let message = self.message(record, at).map_err(unwritable)?;
            return Ok(Body::whole(protobuf_response::envelope(api_version, kind, &message)));
        }
        encode_body(self.as_json(record, at), self.representation)
    }

    /// Returns an object that was not stored, and so has no resource version (DRY-2), as the body of a response.
    pub(crate) fn unstored(&self, record: &Record) -> Result<Body, Status> {
        let mut object = value_of(&self.as_json(record, None));
        object::metadata_mut(&mut object).remove("resourceVersion");
        encode_body(render(object), self.representation)
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

/// Parses JSON that this server has written.
fn value_of(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// Returns the error for a response without protobuf form: 406 if the kind has none (CTN-022), else 500.
pub(crate) fn unwritable(why: Unwritable) -> Status {
    let message = format!("the response cannot be encoded as protobuf: {why}");
    match why {
        Unwritable::UnknownKind { .. } => Status::failure(406, Reason::NOT_ACCEPTABLE, message),
        Unwritable::Message { .. } => Status::internal(message),
    }
}

/// Returns an object as JSON, with kind and version first (NEG-10).
pub(crate) fn render(mut object: Value) -> Bytes {
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

/// The largest JSON that is indented at once, and the largest YAML of one object. Both grow with the depth of the object, up
/// to a hundredfold.
const INDENTED_AT_ONCE: usize = 64 * 1024;
const LARGEST_YAML: usize = 16 << 20;

/// Encodes JSON in the negotiated media type, as the body of a response.
fn encode_body(json: Bytes, representation: Representation) -> Result<Body, Status> {
    if representation.media == Media::Json && representation.pretty && json.len() > INDENTED_AT_ONCE {
        return Ok(Body::stream(IndentedBody::new(json)));
    }
    encode(json, representation).map(Body::whole)
}

/// Returns JSON as YAML. JSON that would be too large in block style stays as it is: it is YAML, too.
fn yaml(json: Bytes) -> Bytes {
    let mut text = LimitedText(String::with_capacity(json.len()));
    match serde_saphyr::to_fmt_writer(&mut text, &value_of(&json)) {
        Ok(()) => text.0.into(),
        Err(_) => json,
    }
}

/// Text up to [`LARGEST_YAML`].
struct LimitedText(String);

impl std::fmt::Write for LimitedText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > LARGEST_YAML {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Encodes JSON in the negotiated media type.
pub(crate) fn encode(json: Bytes, representation: Representation) -> Result<Bytes, Status> {
    Ok(match representation.media {
        Media::Json if representation.pretty => indent(&json).into(),
        Media::Json => json,
        Media::Yaml => yaml(json),
        Media::Protobuf => protobuf_response::object(&value_of(&json)).map_err(unwritable)?,
    })
}
