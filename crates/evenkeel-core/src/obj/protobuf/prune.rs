//! Removes fields from a message and adjusts the lengths of the messages around them.

use crate::error::{ProtobufError, WireError};
use crate::json::{ActivePaths, JsonPaths, PathMatch, PruneMode};
use crate::protobuf::{BYTES, BoxedError, Cardinality, Field, FieldKind, Message, Reader, put_varint, varint_length};

/// The result of pruning a message.
pub(super) enum PrunedMessage {
    /// Nothing was removed.
    Unchanged,
    /// The remaining message.
    Pruned(Vec<u8>),
    /// A path continues into a field that is no message, but has structure in JSON.
    NeedsJson,
}

/// Returns the pruned message.
pub(super) fn prune(
    message: &'static Message,
    bytes: &[u8],
    paths: &JsonPaths,
    mode: PruneMode,
) -> Result<PrunedMessage, ProtobufError> {
    let mut pruner = ProtobufPruner { paths, mode, bytes, edits: Vec::new() };
    match pruner.message(message, 0..bytes.len(), paths.all(), 0) {
        Ok(0) => Ok(PrunedMessage::Unchanged),
        Ok(removed) => Ok(PrunedMessage::Pruned(pruner.finish(removed))),
        Err(PruneStop::NeedsJson) => Ok(PrunedMessage::NeedsJson),
        Err(PruneStop::Failed(error)) => Err(error.into()),
    }
}

type Range = std::ops::Range<usize>;

enum PruneStop {
    NeedsJson,
    Failed(BoxedError),
}

impl From<BoxedError> for PruneStop {
    fn from(error: BoxedError) -> Self {
        PruneStop::Failed(error)
    }
}

/// Scans a message and records the edits.
struct ProtobufPruner<'a> {
    paths: &'a JsonPaths,
    mode: PruneMode,
    bytes: &'a [u8],
    /// In order and not adjacent.
    edits: Vec<Edit>,
}

/// The removal of a range, or its replacement by another length.
struct Edit {
    range: Range,
    length: Option<usize>,
}

/// The decision on a field, an item or an entry.
enum FieldFate {
    Keep,
    Remove,
    /// These paths match values inside it.
    Inside(ActivePaths),
}

/// The ranges of a field: all of it and, for a length-delimited field, its length and its contents.
struct FieldRange {
    all: Range,
    length: Range,
    contents: Range,
}

impl ProtobufPruner<'_> {
    /// Scans a message, in which `active` paths match at `depth`. Returns the number of bytes removed.
    fn message(
        &mut self,
        message: &'static Message,
        at: Range,
        active: ActivePaths,
        depth: usize,
    ) -> Result<usize, PruneStop> {
        let mut removed = 0;
        // The number of items seen of each list.
        let mut counts: Vec<(u32, usize)> = Vec::new();
        let bytes = self.bytes;
        let mut reader = Reader::new(bytes.get(at.clone()).unwrap_or_default());
        while !reader.is_empty() {
            let (number, wire_type, field_range) = next_field(&mut reader, at.end)?;
            let Some(field) = message.field(number) else {
                // Unknown fields are not field_range of the JSON.
                removed += if self.mode == PruneMode::Keep { self.remove(field_range.all) } else { 0 };
                continue;
            };
            if field.is_inline() {
                self.expect_message(wire_type)?;
                removed += self.nested(field.of.message(), field_range, active, depth)?;
                continue;
            }
            let inside =
                match self.fate(self.paths.match_at(active, depth, |segment| segment.matches_member(field.name))) {
                    FieldFate::Keep => continue,
                    FieldFate::Remove => {
                        removed += self.remove(field_range.all);
                        continue;
                    }
                    FieldFate::Inside(inside) => inside,
                };
            removed += match field.cardinality {
                Cardinality::One => self.value(field, wire_type, field_range, inside, depth + 1)?,
                Cardinality::List => {
                    let index = count(&mut counts, number);
                    self.item(field, wire_type, field_range, inside, depth + 1, index)?
                }
                Cardinality::Map => {
                    self.expect_message(wire_type)?;
                    self.entry(field, field_range, inside, depth + 1)?
                }
            };
        }
        Ok(removed)
    }

    /// Prunes a value that paths continue into.
    fn value(
        &mut self,
        field: &Field,
        wire_type: u8,
        field_range: FieldRange,
        inside: ActivePaths,
        depth: usize,
    ) -> Result<usize, PruneStop> {
        match field.of.kind {
            FieldKind::Message => {
                self.expect_message(wire_type)?;
                self.nested(field.of.message(), field_range, inside, depth)
            }
            FieldKind::Json
            | FieldKind::Strings
            | FieldKind::SchemaOrBool
            | FieldKind::SchemaOrSchemas
            | FieldKind::SchemaOrStrings => Err(PruneStop::NeedsJson),
            // The paths continue into a scalar, so they match nothing.
            _ if self.mode == PruneMode::Keep => Ok(self.remove(field_range.all)),
            _ => Ok(0),
        }
    }

    /// Prunes the item of a list that paths continue into.
    fn item(
        &mut self,
        field: &Field,
        wire_type: u8,
        field_range: FieldRange,
        inside: ActivePaths,
        depth: usize,
        index: usize,
    ) -> Result<usize, PruneStop> {
        let is_number =
            matches!(field.of.kind, FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double);
        if is_number && wire_type == BYTES {
            // Packed numbers, which Kubernetes does not write.
            return Err(PruneStop::NeedsJson);
        }
        match self.fate(self.paths.match_at(inside, depth, |segment| segment.matches_element(index))) {
            FieldFate::Keep => Ok(0),
            FieldFate::Remove => Ok(self.remove(field_range.all)),
            FieldFate::Inside(inside) => self.value(field, wire_type, field_range, inside, depth + 1),
        }
    }

    /// Prunes the entry of a map that paths continue into.
    fn entry(
        &mut self,
        field: &Field,
        field_range: FieldRange,
        inside: ActivePaths,
        depth: usize,
    ) -> Result<usize, PruneStop> {
        let mut key = &[][..];
        let mut reader = Reader::new(self.bytes.get(field_range.contents.clone()).unwrap_or_default());
        while let Some((number, value)) = reader.next()? {
            if number == 1 {
                key = value.bytes()?;
            }
        }
        let key = String::from_utf8_lossy(key);
        let inside = match self.fate(self.paths.match_at(inside, depth, |segment| segment.matches_member(&key))) {
            FieldFate::Keep => return Ok(0),
            FieldFate::Remove => return Ok(self.remove(field_range.all)),
            FieldFate::Inside(inside) => inside,
        };
        if field.of.kind != FieldKind::Message {
            let all = field_range.all.clone();
            return self.value(field, BYTES, FieldRange { all, ..field_range }, inside, depth + 1);
        }
        self.resized(field_range.length, field_range.contents.clone(), |pruner| {
            let mut removed = 0;
            let end = field_range.contents.end;
            let mut reader = Reader::new(pruner.bytes.get(field_range.contents).unwrap_or_default());
            while !reader.is_empty() {
                let (number, wire_type, field_range) = next_field(&mut reader, end)?;
                if number == 2 {
                    pruner.expect_message(wire_type)?;
                    removed += pruner.nested(field.of.message(), field_range, inside, depth + 1)?;
                }
            }
            Ok(removed)
        })
    }

    fn nested(
        &mut self,
        message: &'static Message,
        field_range: FieldRange,
        active: ActivePaths,
        depth: usize,
    ) -> Result<usize, PruneStop> {
        self.resized(field_range.length, field_range.contents.clone(), |pruner| {
            pruner.message(message, field_range.contents, active, depth)
        })
    }

    /// Edits a length-delimited field and adjusts its length.
    fn resized(
        &mut self,
        length: Range,
        contents: Range,
        edit: impl FnOnce(&mut Self) -> Result<usize, PruneStop>,
    ) -> Result<usize, PruneStop> {
        let first_edit = self.edits.len();
        let bytes = length.len();
        self.edits.push(Edit { range: length, length: None });
        let removed = edit(self)?;
        if removed == 0 {
            self.edits.truncate(first_edit);
            return Ok(0);
        }
        let left = contents.len() - removed;
        if let Some(edit) = self.edits.get_mut(first_edit) {
            edit.length = Some(left);
        }
        Ok(removed + bytes - varint_length(left as u64))
    }

    fn fate(&self, found: PathMatch) -> FieldFate {
        match (self.mode, found) {
            (PruneMode::Remove, PathMatch::None) | (PruneMode::Keep, PathMatch::Exact) => FieldFate::Keep,
            (PruneMode::Remove, PathMatch::Exact) | (PruneMode::Keep, PathMatch::None) => FieldFate::Remove,
            (_, PathMatch::Inside(paths)) => FieldFate::Inside(paths),
        }
    }

    fn remove(&mut self, range: Range) -> usize {
        let length = range.len();
        self.edits.push(Edit { range, length: None });
        length
    }

    fn expect_message(&self, wire_type: u8) -> Result<(), PruneStop> {
        if wire_type == BYTES { Ok(()) } else { Err(BoxedError::from(WireError::WireType(wire_type)).into()) }
    }

    /// Returns the remaining bytes.
    fn finish(&self, removed: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() - removed);
        let mut at = 0;
        for Edit { range, length } in &self.edits {
            out.extend_from_slice(self.bytes.get(at..range.start).unwrap_or_default());
            if let Some(length) = length {
                put_varint(&mut out, *length as u64);
            }
            at = range.end;
        }
        out.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
        out
    }
}

/// Skips a field and returns its ranges. The reader must end at `end`.
fn next_field(reader: &mut Reader<'_>, end: usize) -> Result<(u32, u8, FieldRange), BoxedError> {
    let start = end - reader.rest().len();
    let (number, wire_type) = reader.tag()?;
    let length_start = end - reader.rest().len();
    let contents = match wire_type {
        BYTES => end - reader.value(wire_type)?.bytes()?.len() - reader.rest().len(),
        _ => {
            reader.skip(number, wire_type)?;
            length_start
        }
    };
    let end_of_field = end - reader.rest().len();
    Ok((
        number,
        wire_type,
        FieldRange { all: start..end_of_field, length: length_start..contents, contents: contents..end_of_field },
    ))
}

/// Returns the number of earlier items of this list.
fn count(counts: &mut Vec<(u32, usize)>, number: u32) -> usize {
    match counts.iter_mut().find(|(of, _)| *of == number) {
        Some((_, count)) => {
            *count += 1;
            *count
        }
        None => {
            counts.push((number, 0));
            0
        }
    }
}
