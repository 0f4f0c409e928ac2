//! Cutting fields out of a message, with the lengths of the messages around them put right.

use crate::json::{Active, Cut, Found, JsonPaths};
use crate::protobuf::{
    BYTES, Cardinality, Failure, Field, Kind, Message, ProtobufError, Reader, WireFault, put_varint, varint_length,
};

/// What a cut comes to.
pub(super) enum Outcome {
    /// There was nothing to cut.
    Nothing,
    /// This is left.
    Left(Vec<u8>),
    /// A path leads into something that is no message: JSON, or what has the form of JSON only.
    NeedsJson,
}

/// The message after the cut.
pub(super) fn cut(
    message: &'static Message,
    bytes: &[u8],
    paths: &JsonPaths,
    cut: Cut,
) -> Result<Outcome, ProtobufError> {
    let mut knife = Knife { paths, cut, bytes, edits: Vec::new() };
    match knife.message(message, 0..bytes.len(), paths.all(), 0) {
        Ok(0) => Ok(Outcome::Nothing),
        Ok(removed) => Ok(Outcome::Left(knife.rest(removed))),
        Err(Stop::NeedsJson) => Ok(Outcome::NeedsJson),
        Err(Stop::Failed(failure)) => Err(failure.into()),
    }
}

type Range = std::ops::Range<usize>;

enum Stop {
    NeedsJson,
    Failed(Failure),
}

impl From<WireFault> for Stop {
    fn from(fault: WireFault) -> Self {
        Stop::Failed(fault.into())
    }
}

/// Walks a message and notes what has to go.
struct Knife<'a> {
    paths: &'a JsonPaths,
    cut: Cut,
    bytes: &'a [u8],
    /// In order, and apart from each other.
    edits: Vec<Edit>,
}

/// Something that goes, or a length that becomes another.
struct Edit {
    range: Range,
    length: Option<usize>,
}

/// What becomes of a field, an item or an entry.
enum Fate {
    Stays,
    Goes,
    /// These paths lead to something inside of it.
    Inside(Active),
}

/// Something in a message: all of it, and for what has a length, that and the contents.
struct Part {
    all: Range,
    length: Range,
    contents: Range,
}

impl Knife<'_> {
    /// Looks through the message that lies there, in which `active` paths lead on after `depth` steps. Says how many bytes
    /// shorter it becomes.
    fn message(&mut self, message: &'static Message, at: Range, active: Active, depth: usize) -> Result<usize, Stop> {
        let mut removed = 0;
        // How many items of each list have been passed.
        let mut counts: Vec<(u32, usize)> = Vec::new();
        let bytes = self.bytes;
        let mut reader = Reader::new(bytes.get(at.clone()).unwrap_or_default());
        while !reader.is_empty() {
            let (number, wire_type, part) = next_part(&mut reader, at.end)?;
            let Some(field) = message.field(number) else {
                // JSON does not show it.
                removed += if self.cut == Cut::Others { self.remove(part.all) } else { 0 };
                continue;
            };
            if field.is_inline() {
                self.expect_message(wire_type)?;
                removed += self.nested(field.of.message(), part, active, depth)?;
                continue;
            }
            let inside = match self.fate(self.paths.step(active, depth, |step| step.is_member(field.name))) {
                Fate::Stays => continue,
                Fate::Goes => {
                    removed += self.remove(part.all);
                    continue;
                }
                Fate::Inside(inside) => inside,
            };
            removed += match field.cardinality {
                Cardinality::One => self.value(field, wire_type, part, inside, depth + 1)?,
                Cardinality::List => {
                    let index = count(&mut counts, number);
                    self.item(field, wire_type, part, inside, depth + 1, index)?
                }
                Cardinality::Map => {
                    self.expect_message(wire_type)?;
                    self.entry(field, part, inside, depth + 1)?
                }
            };
        }
        Ok(removed)
    }

    /// Something that paths lead into.
    fn value(&mut self, field: &Field, wire_type: u8, part: Part, inside: Active, depth: usize) -> Result<usize, Stop> {
        match field.of.kind {
            Kind::Message => {
                self.expect_message(wire_type)?;
                self.nested(field.of.message(), part, inside, depth)
            }
            Kind::Json | Kind::Strings | Kind::SchemaOrBool | Kind::SchemaOrSchemas | Kind::SchemaOrStrings => {
                Err(Stop::NeedsJson)
            }
            // It has no inside, so the paths lead nowhere.
            _ if self.cut == Cut::Others => Ok(self.remove(part.all)),
            _ => Ok(0),
        }
    }

    /// The item of a list that paths lead into.
    fn item(
        &mut self,
        field: &Field,
        wire_type: u8,
        part: Part,
        inside: Active,
        depth: usize,
        index: usize,
    ) -> Result<usize, Stop> {
        let is_number = matches!(field.of.kind, Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double);
        if is_number && wire_type == BYTES {
            // Many numbers in one place. Nobody writes them so.
            return Err(Stop::NeedsJson);
        }
        match self.fate(self.paths.step(inside, depth, |step| step.is_element(index))) {
            Fate::Stays => Ok(0),
            Fate::Goes => Ok(self.remove(part.all)),
            Fate::Inside(inside) => self.value(field, wire_type, part, inside, depth + 1),
        }
    }

    /// The entry of a map that paths lead into.
    fn entry(&mut self, field: &Field, part: Part, inside: Active, depth: usize) -> Result<usize, Stop> {
        let mut key = &[][..];
        let mut reader = Reader::new(self.bytes.get(part.contents.clone()).unwrap_or_default());
        while let Some((number, value)) = reader.next()? {
            if number == 1 {
                key = value.bytes()?;
            }
        }
        let key = String::from_utf8_lossy(key);
        let inside = match self.fate(self.paths.step(inside, depth, |step| step.is_member(&key))) {
            Fate::Stays => return Ok(0),
            Fate::Goes => return Ok(self.remove(part.all)),
            Fate::Inside(inside) => inside,
        };
        if field.of.kind != Kind::Message {
            let all = part.all.clone();
            return self.value(field, BYTES, Part { all, ..part }, inside, depth + 1);
        }
        self.resized(part.length, part.contents.clone(), |knife| {
            let mut removed = 0;
            let end = part.contents.end;
            let mut reader = Reader::new(knife.bytes.get(part.contents).unwrap_or_default());
            while !reader.is_empty() {
                let (number, wire_type, part) = next_part(&mut reader, end)?;
                if number == 2 {
                    knife.expect_message(wire_type)?;
                    removed += knife.nested(field.of.message(), part, inside, depth + 1)?;
                }
            }
            Ok(removed)
        })
    }

    fn nested(&mut self, message: &'static Message, part: Part, active: Active, depth: usize) -> Result<usize, Stop> {
        self.resized(part.length, part.contents.clone(), |knife| knife.message(message, part.contents, active, depth))
    }

    /// Changes something that has a length, and the length with it.
    fn resized(
        &mut self,
        length: Range,
        contents: Range,
        change: impl FnOnce(&mut Self) -> Result<usize, Stop>,
    ) -> Result<usize, Stop> {
        let place = self.edits.len();
        let bytes = length.len();
        self.edits.push(Edit { range: length, length: None });
        let removed = change(self)?;
        if removed == 0 {
            self.edits.truncate(place);
            return Ok(0);
        }
        let left = contents.len() - removed;
        if let Some(edit) = self.edits.get_mut(place) {
            edit.length = Some(left);
        }
        Ok(removed + bytes - varint_length(left as u64))
    }

    fn fate(&self, found: Found) -> Fate {
        match (self.cut, found) {
            (Cut::These, Found::Nothing) | (Cut::Others, Found::Itself) => Fate::Stays,
            (Cut::These, Found::Itself) | (Cut::Others, Found::Nothing) => Fate::Goes,
            (_, Found::Inside(paths)) => Fate::Inside(paths),
        }
    }

    fn remove(&mut self, range: Range) -> usize {
        let length = range.len();
        self.edits.push(Edit { range, length: None });
        length
    }

    fn expect_message(&self, wire_type: u8) -> Result<(), Stop> {
        if wire_type == BYTES { Ok(()) } else { Err(WireFault::WireType(wire_type).into()) }
    }

    /// What is left.
    fn rest(&self, removed: usize) -> Vec<u8> {
        let mut rest = Vec::with_capacity(self.bytes.len() - removed);
        let mut at = 0;
        for Edit { range, length } in &self.edits {
            rest.extend_from_slice(self.bytes.get(at..range.start).unwrap_or_default());
            if let Some(length) = length {
                put_varint(&mut rest, *length as u64);
            }
            at = range.end;
        }
        rest.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
        rest
    }
}

/// Passes a field, and says where it lies in bytes of which the message is the part up to `end`.
fn next_part(reader: &mut Reader<'_>, end: usize) -> Result<(u32, u8, Part), WireFault> {
    let start = end - reader.rest().len();
    let (number, wire_type) = reader.tag()?;
    let length_start = end - reader.rest().len();
    let value = reader.value(number, wire_type)?;
    let behind = end - reader.rest().len();
    let contents = match value {
        Some(crate::protobuf::Wire::Bytes(bytes)) => behind - bytes.len(),
        _ => length_start,
    };
    Ok((number, wire_type, Part { all: start..behind, length: length_start..contents, contents: contents..behind }))
}

/// How many items of this list have been passed before.
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
