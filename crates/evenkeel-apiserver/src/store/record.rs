//! One stored version of one object.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::json_text::{write_key, write_value};
use crate::memory::Charge;

/// A committed version of an object: canonical JSON and the facts that lists and watches need.
///
/// The JSON is compact and starts with `kind`, `apiVersion` and `metadata`, in this order; the other fields follow
/// sorted. In this order an item of a typed list, the same object in another version, and the metadata alone are
/// slices of one allocation, so reads do not parse.
#[derive(Debug)]
pub(crate) struct Record {
    bytes: Bytes,
    layout: Layout,
    pub(crate) revision: u64,
    pub(crate) facts: Facts,
    /// The object as a protobuf message in its stored version, encoded by the first read in protobuf (BIN-4).
    protobuf: OnceLock<Box<CachedMessage>>,
}

/// A cached encoding, and its part of the memory budget.
#[derive(Debug)]
struct CachedMessage {
    bytes: Box<[u8]>,
    _charge: Charge,
}

/// The offsets of the parts of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The first byte after `"apiVersion":"…",`.
    pub(super) body: u32,
    /// The value of `metadata`.
    pub(super) metadata: (u32, u32),
    /// The digits of `metadata.resourceVersion`.
    pub(super) version: (u32, u32),
}

/// The values that are kept parsed beside the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: Box<str>,
    /// Sorted by key.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, in the order in which the kind lists them; absent ones are empty.
    pub(crate) fields: Box<[Box<str>]>,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// `metadata.ownerReferences` is not empty.
    pub(crate) owned: bool,
    /// The state of the schema that validated and defaulted the object.
    pub(crate) schema_stamp: u64,
}

impl Facts {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(candidate, _)| (**candidate).cmp(key)).ok()?;
        self.labels.get(index).map(|(_, value)| &**value)
    }
}

impl Record {
    /// Returns a record from its stored parts; `None` if they do not fit each other.
    pub(super) fn restored(bytes: Bytes, layout: Layout, revision: u64, facts: Facts) -> Option<Self> {
        let has_version = bytes.get(range(layout.version))? == revision.to_string().as_bytes();
        let fits = has_version && bytes.get(layout.body as usize..).is_some();
        bytes.get(range(layout.metadata))?;
        let is_inside = layout.metadata.0 <= layout.version.0 && layout.version.1 <= layout.metadata.1;
        (fits && is_inside).then(|| Record { bytes, layout, revision, facts, protobuf: OnceLock::new() })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the whole object in its stored version.
    pub(crate) fn json(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the object without the opening brace, `kind` and `apiVersion`: `"metadata":{…},…}`.
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(self.layout.body as usize..).unwrap_or_default()
    }

    /// Returns the value of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        self.bytes.get(range(self.layout.metadata)).unwrap_or_default()
    }

    /// Returns the cached protobuf message in the version of [`Record::json`].
    pub(crate) fn protobuf(&self) -> Option<&[u8]> {
        self.protobuf.get().map(|message| &*message.bytes)
    }

    /// Caches a message for [`Record::protobuf`]. Concurrent readers encode the same message, so the first one stays.
    pub(crate) fn cache_protobuf(&self, message: Vec<u8>, charge: Charge) -> &[u8] {
        &self.protobuf.get_or_init(|| Box::new(CachedMessage { bytes: message.into(), _charge: charge })).bytes
    }

    /// Returns the object as a JSON value.
    pub(crate) fn value(&self) -> Value {
        // `Draft::new` wrote the bytes from a JSON value, so they parse.
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// Returns [`Record::json`] with another resource version, as the event of a deletion needs it.
    pub(crate) fn json_at(&self, revision: u64) -> Bytes {
        let mut bytes = self.bytes.to_vec();
        bytes.splice(range(self.layout.version), revision.to_string().into_bytes());
        bytes.into()
    }

    /// Returns [`Record::metadata`] with another resource version.
    pub(crate) fn metadata_at(&self, revision: u64) -> Bytes {
        let offset = self.layout.metadata.0;
        let version = (self.layout.version.0 - offset, self.layout.version.1 - offset);
        let mut bytes = self.metadata().to_vec();
        bytes.splice(range(version), revision.to_string().into_bytes());
        bytes.into()
    }
}

/// An object that is ready to be committed; only its revision is open.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) bytes: Vec<u8>,
    pub(super) layout: Layout,
    pub(super) facts: Facts,
}

impl Draft {
    /// Writes the canonical form. `expected` is the revision the commit will most likely get: if it does, or gets one
    /// with as many digits, the commit has only to overwrite the digits.
    pub(crate) fn new(object: &Value, facts: Facts, expected: u64) -> Self {
        Draft::with_managed_fields(object, None, facts, expected)
    }

    /// Does the same for an object whose `metadata.managedFields` are already JSON.
    pub(crate) fn with_managed_fields(object: &Value, managed: Option<&[u8]>, facts: Facts, expected: u64) -> Self {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut bytes = Vec::with_capacity(2048);
        bytes.push(b'{');
        for key in ["kind", "apiVersion"] {
            write_key(&mut bytes, key);
            write_value(&mut bytes, fields.get(key).unwrap_or(&Value::Null));
            bytes.push(b',');
        }
        let body = offset(&bytes);
        write_key(&mut bytes, "metadata");
        let metadata_start = offset(&bytes);
        let version = write_metadata(&mut bytes, metadata, managed, expected);
        let metadata_end = offset(&bytes);
        for (key, value) in fields {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                bytes.push(b',');
                write_key(&mut bytes, key);
                write_value(&mut bytes, value);
            }
        }
        bytes.push(b'}');
        bytes.shrink_to_fit();
        Draft { bytes, layout: Layout { body, metadata: (metadata_start, metadata_end), version }, facts }
    }

    /// Returns the length of the object as JSON.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the record that a commit at this revision would make, without committing it.
    pub(crate) fn preview(self, revision: u64) -> Record {
        self.commit(revision)
    }

    /// Gives the draft its revision.
    pub(super) fn commit(mut self, revision: u64) -> Record {
        let digits = revision.to_string().into_bytes();
        let slot = range(self.layout.version);
        let (old, new) = (slot.len(), digits.len());
        self.bytes.splice(slot, digits);
        if old != new {
            let shift = |end: u32| (end as usize + new).saturating_sub(old) as u32;
            self.layout.version.1 = shift(self.layout.version.1);
            self.layout.metadata.1 = shift(self.layout.metadata.1);
            self.bytes.shrink_to_fit();
        }
        Record { bytes: self.bytes.into(), layout: self.layout, revision, facts: self.facts, protobuf: OnceLock::new() }
    }
}

fn range((start, end): (u32, u32)) -> Range<usize> {
    start as usize..end as usize
}

/// Returns the current offset. Objects are far below 4 GiB: a request is at most a few MiB.
fn offset(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn write_metadata(
    bytes: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    mut managed: Option<&[u8]>,
    revision: u64,
) -> (u32, u32) {
    const MANAGED_FIELDS: &str = "managedFields";
    let mut write_managed = |bytes: &mut Vec<u8>| {
        if let Some(managed) = managed.take() {
            write_key(bytes, MANAGED_FIELDS);
            bytes.extend_from_slice(managed);
            bytes.push(b',');
        }
    };
    bytes.push(b'{');
    for (key, value) in metadata {
        if key.as_str() > MANAGED_FIELDS {
            write_managed(bytes);
        }
        if key != "resourceVersion" {
            write_key(bytes, key);
            write_value(bytes, value);
            bytes.push(b',');
        }
    }
    write_managed(bytes);
    write_key(bytes, "resourceVersion");
    bytes.push(b'"');
    let start = offset(bytes);
    bytes.extend_from_slice(revision.to_string().as_bytes());
    let end = offset(bytes);
    bytes.extend_from_slice(b"\"}");
    (start, end)
}

#[cfg(test)]
mod tests;
