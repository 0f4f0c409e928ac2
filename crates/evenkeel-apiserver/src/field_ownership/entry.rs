//! The entries of `metadata.managedFields` (SSA-2).

use std::cmp::Ordering;
use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::set::FieldSet;
use crate::json_text;

/// The limit of update entries per object, above which the oldest are merged (SSA-6).
const MAX_UPDATERS: usize = 10;

/// The usual size of the text of an object's entries.
pub(super) const USUAL_BYTES: usize = 1024;

/// The manager of merged entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// The operation that made the manager an owner. Variants are in the sort order of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ManagerOperation {
    Apply,
    Update,
}

impl ManagerOperation {
    fn as_str(self) -> &'static str {
        match self {
            ManagerOperation::Apply => "Apply",
            ManagerOperation::Update => "Update",
        }
    }
}

/// The fields of one manager. Empty strings stand for absent values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagedFieldsEntry<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: ManagerOperation,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) time: Option<&'a str>,
    pub(crate) fields: FieldSet<'a>,
}

impl<'a> ManagedFieldsEntry<'a> {
    /// Returns whether both entries belong to one manager (SSA-3): appliers keep their entry when they change the
    /// version.
    pub(crate) fn is_same_manager(&self, other: &ManagedFieldsEntry<'_>) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> (&'a str, ManagerOperation, &'a str, &'a str) {
        let version = if self.operation == ManagerOperation::Apply { "" } else { self.api_version };
        (self.manager, self.operation, self.subresource, version)
    }

    fn decode(value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Some(""),
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => None,
        };
        let operation = match text("operation")? {
            "Apply" => ManagerOperation::Apply,
            "Update" => ManagerOperation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion").filter(|version| !version.is_empty())?;
        if text("fieldsType")? != "FieldsV1" {
            return None;
        }
        Some(ManagedFieldsEntry {
            manager: text("manager")?,
            operation,
            api_version,
            subresource: text("subresource")?,
            time: text("time").map(|time| Some(time).filter(|time| !time.is_empty()))?,
            fields: match fields.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(set) => FieldSet::decode(set).ok()?,
            },
        })
    }

    /// Appends the entry with sorted keys. Absent values are omitted.
    fn write(&self, bytes: &mut Vec<u8>) {
        self.write_with(bytes, |bytes| self.fields.write(bytes));
    }

    /// Appends the entry with the fields that `write_fields` appends instead of its own. Returns what that returns.
    pub(super) fn write_with<R>(&self, bytes: &mut Vec<u8>, write_fields: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let texts = |bytes: &mut Vec<u8>, texts: &[(&str, &str)]| {
            for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
                json_text::write_key(bytes, name);
                json_text::write_text(bytes, text);
                bytes.push(b',');
            }
        };
        bytes.push(b'{');
        texts(bytes, &[("apiVersion", self.api_version), ("fieldsType", "FieldsV1")]);
        json_text::write_key(bytes, "fieldsV1");
        let written = write_fields(bytes);
        bytes.push(b',');
        let (operation, time) = (self.operation.as_str(), self.time.unwrap_or_default());
        let rest =
            [("manager", self.manager), ("operation", operation), ("subresource", self.subresource), ("time", time)];
        texts(bytes, &rest);
        // At least the operation was written before.
        bytes.pop();
        bytes.push(b'}');
        written
    }

    /// Returns the time in seconds; entries without a time are the oldest.
    fn seconds(&self) -> i64 {
        let time = self.time.and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    fn by_age(&self, other: &ManagedFieldsEntry<'_>) -> Ordering {
        self.seconds()
            .cmp(&other.seconds())
            .then_with(|| self.manager.cmp(other.manager))
            .then_with(|| self.api_version.cmp(other.api_version))
            .then_with(|| self.subresource.cmp(other.subresource))
    }
}

/// Decodes `managedFields`; `None` if any entry is malformed. The later of two entries of one manager wins.
pub(crate) fn decode(list: &Value) -> Option<Vec<ManagedFieldsEntry<'_>>> {
    let Value::Array(list) = list else {
        return list.is_null().then(Vec::new);
    };
    let mut entries: Vec<ManagedFieldsEntry<'_>> = Vec::with_capacity(list.len() + 1);
    let mut positions = HashMap::with_capacity(list.len());
    for value in list {
        let entry = ManagedFieldsEntry::decode(value)?;
        let position = *positions.entry(entry.identity()).or_insert(entries.len());
        match entries.get_mut(position) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    }
    Some(entries)
}

/// Encodes `managedFields`, sorted by operation, time, manager, version and sub-resource.
pub(crate) fn encode(entries: Vec<ManagedFieldsEntry<'_>>) -> Value {
    // The text was just written as JSON.
    serde_json::from_slice(&encode_text(entries)).unwrap_or_default()
}

/// Does the same as JSON text.
pub(crate) fn encode_text(mut entries: Vec<ManagedFieldsEntry<'_>>) -> Vec<u8> {
    entries.sort_by(|a, b| a.operation.cmp(&b.operation).then_with(|| a.by_age(b)));
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(b'[');
    for entry in &entries {
        if bytes.len() > 1 {
            bytes.push(b',');
        }
        entry.write(&mut bytes);
    }
    bytes.push(b']');
    bytes
}

/// Merges the oldest update entries, version by version, down to the limit (SSA-6). With more versions than the limit,
/// one entry per version is kept.
pub(crate) fn cap_updaters(entries: &mut Vec<ManagedFieldsEntry<'_>>) {
    let updaters = entries.iter().filter(|entry| entry.operation == ManagerOperation::Update).count();
    let Some(mut surplus) = updaters.checked_sub(MAX_UPDATERS).filter(|surplus| *surplus > 0) else {
        return;
    };
    entries.sort_by(|a, b| b.operation.cmp(&a.operation).then_with(|| a.by_age(b)));
    // The bucket of an earlier write may be too recent to be among the oldest.
    let mut twins: HashMap<&str, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if entry.operation == ManagerOperation::Update
            && entry.manager == ANCIENT_CHANGES
            && entry.subresource.is_empty()
        {
            twins.insert(entry.api_version, index);
        }
    }
    let mut pending: Vec<Option<ManagedFieldsEntry<'_>>> = entries.drain(..).map(Some).collect();
    // The position of each version's bucket in `entries`, and the sets to add to it.
    let mut buckets: HashMap<&str, (usize, Vec<FieldSet<'_>>)> = HashMap::new();
    for index in 0..pending.len() {
        let Some(entry) = pending.get_mut(index).and_then(Option::take) else { continue };
        if surplus == 0 || entry.operation != ManagerOperation::Update {
            entries.push(entry);
            continue;
        }
        let version = entry.api_version;
        let Some((position, sets)) = buckets.get_mut(version) else {
            buckets.insert(version, (entries.len(), Vec::new()));
            entries.push(entry);
            continue;
        };
        surplus -= 1;
        let twin = twins.remove(version).and_then(|twin| pending.get_mut(twin)).and_then(Option::take);
        surplus = surplus.saturating_sub(usize::from(twin.is_some()));
        for merged in std::iter::once(entry).chain(twin) {
            if let Some(bucket) = entries.get_mut(*position) {
                bucket.manager = ANCIENT_CHANGES;
                bucket.subresource = "";
                bucket.time = merged.time;
            }
            sets.push(merged.fields);
        }
    }
    for (position, sets) in buckets.into_values().filter(|(_, sets)| !sets.is_empty()) {
        if let Some(bucket) = entries.get_mut(position) {
            bucket.fields.absorb(FieldSet::union(sets));
        }
    }
}
