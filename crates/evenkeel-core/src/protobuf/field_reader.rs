//! [`FieldReader`]: the fields of a message, each once, as JSON has them.
//!
//! Writers usually order fields by number, with all items of a list in a row. The format does not require it: a list may be
//! scattered over the message, and of a single value given twice the last one is effective. A first pass checks the order. An ordered
//! message, the usual case, is read in one pass; otherwise every field is collected from the whole message at its first occurrence
//! and skipped afterwards.

use super::error::BoxedError;
use super::table::{Cardinality, Field, FieldKind, FieldType, INLINE_LEVELS, Message};
use super::time;
use super::wire::{Reader, Wire};

/// Reads the fields of a message and of its inline messages.
pub(crate) struct FieldReader<'de> {
    frame: MessageFrame<'de>,
    /// The content of the last field.
    content: Content<'de>,
    outer: [Option<MessageFrame<'de>>; INLINE_LEVELS],
}

#[derive(Clone, Copy)]
struct MessageFrame<'de> {
    reader: Reader<'de>,
    message: &'static Message,
    ordered: bool,
    /// The field numbers returned so far, of an unordered message. The table has none above 63.
    seen: u64,
}

/// The content of a field.
#[derive(Clone, Copy)]
pub(crate) enum Content<'de> {
    One(Wire<'de>),
    List(Run<'de>),
    Map(Run<'de>),
}

impl<'de> FieldReader<'de> {
    pub(crate) fn new(message: &'static Message, bytes: &'de [u8]) -> Result<FieldReader<'de>, BoxedError> {
        let content = Content::One(Wire::Varint(0));
        Ok(FieldReader { frame: MessageFrame::new(message, bytes)?, content, outer: [None; INLINE_LEVELS] })
    }

    /// The content of the last field.
    #[inline]
    pub(crate) fn content(&self) -> &Content<'de> {
        &self.content
    }

    /// Returns the next field that JSON shows. [`content`](Self::content) borrows its content, as moving it would cost most.
    pub(crate) fn next(&mut self) -> Result<Option<&'static Field>, BoxedError> {
        loop {
            if self.frame.reader.is_empty() {
                match self.leave() {
                    true => continue,
                    false => return Ok(None),
                }
            }
            let start = self.frame.reader;
            let (number, wire_type) = self.frame.reader.tag()?;
            let Some(field) = self.frame.message.field(number) else {
                self.frame.reader.skip(number, wire_type)?;
                continue;
            };
            if !self.frame.ordered {
                match self.frame.gather(field, start)? {
                    Some(content) => self.content = content,
                    None => continue,
                }
            } else if field.cardinality == Cardinality::One {
                self.content = Content::One(self.frame.last(start, number, wire_type)?);
            } else {
                self.content = self.frame.run(field, start, number, wire_type)?;
            }
            if let Content::One(value) = self.content {
                if field.is_inline() {
                    self.enter(field, value)?;
                    continue;
                }
                if field.elide && is_left_out(field.of.kind, value)? {
                    continue;
                }
            }
            return Ok(Some(field));
        }
    }

    /// Continues with the fields of an inline message.
    fn enter(&mut self, field: &'static Field, value: Wire<'de>) -> Result<(), BoxedError> {
        let inner = MessageFrame::new(field.of.message(), value.bytes()?)?;
        // The table has no deeper levels.
        if let Some(slot) = self.outer.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(std::mem::replace(&mut self.frame, inner));
        }
        Ok(())
    }

    /// Returns to the message around an inline one, if there is one.
    fn leave(&mut self) -> bool {
        match self.outer.iter_mut().rev().find_map(Option::take) {
            Some(outer) => {
                self.frame = outer;
                true
            }
            None => false,
        }
    }
}

impl<'de> MessageFrame<'de> {
    #[inline]
    fn new(message: &'static Message, bytes: &'de [u8]) -> Result<MessageFrame<'de>, BoxedError> {
        let reader = Reader::new(bytes);
        Ok(MessageFrame { reader, message, ordered: is_ordered(reader)?, seen: 0 })
    }

    /// Returns a single value: the last occurrence.
    #[inline]
    fn last(&mut self, start: Reader<'de>, number: u32, wire_type: u8) -> Result<Wire<'de>, BoxedError> {
        let mut value = self.reader.value(wire_type)?;
        while self.is_next(start, number)? {
            let (_, wire_type) = self.reader.tag()?;
            value = self.reader.value(wire_type)?;
        }
        Ok(value)
    }

    /// Returns all occurrences of a field.
    #[inline]
    fn run(
        &mut self,
        field: &'static Field,
        start: Reader<'de>,
        number: u32,
        wire_type: u8,
    ) -> Result<Content<'de>, BoxedError> {
        self.reader.skip(number, wire_type)?;
        let mut count = 1;
        while self.is_next(start, number)? {
            let (number, wire_type) = self.reader.tag()?;
            self.reader.skip(number, wire_type)?;
            count += 1;
        }
        let run = start.rest();
        let run = run.get(..run.len() - self.reader.rest().len()).unwrap_or(run);
        Ok(Run { bytes: run, number, count }.of(field))
    }

    /// Returns whether the next field has the same number. Comparing the first byte of the tags usually suffices.
    #[inline]
    fn is_next(&self, start: Reader<'de>, number: u32) -> Result<bool, BoxedError> {
        /// The bits of the field number in the first byte of a tag.
        const NUMBER: u8 = 0b0111_1000;
        match (self.reader.rest(), start.rest()) {
            ([next, ..], [this, ..]) if (next ^ this) & NUMBER == 0 => {
                let mut reader = self.reader;
                Ok(reader.tag()?.0 == number)
            }
            _ => Ok(false),
        }
    }

    /// Collects a field from the rest of an unordered message.
    #[cold]
    fn gather(&mut self, field: &'static Field, start: Reader<'de>) -> Result<Option<Content<'de>>, BoxedError> {
        let mut rest = start;
        self.reader = start;
        let (number, wire_type) = self.reader.tag()?;
        self.reader.skip(number, wire_type)?;
        let bit = 1u64.checked_shl(number).unwrap_or_default();
        if self.seen & bit != 0 {
            return Ok(None);
        }
        self.seen |= bit;
        let (mut value, mut count) = (None, 0);
        while !rest.is_empty() {
            let (found, wire_type) = rest.tag()?;
            if found == number && field.cardinality == Cardinality::One {
                value = Some(rest.value(wire_type)?);
            } else {
                rest.skip(found, wire_type)?;
                count += u32::from(found == number);
            }
        }
        Ok(Some(match value {
            Some(value) => Content::One(value),
            None => Run { bytes: start.rest(), number, count }.of(field),
        }))
    }
}

/// Returns whether the field numbers never decrease.
#[inline]
fn is_ordered(mut reader: Reader<'_>) -> Result<bool, BoxedError> {
    let mut last = 0;
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag()?;
        if number < last {
            return Ok(false);
        }
        last = number;
        reader.skip(number, wire_type)?;
    }
    Ok(true)
}

/// Returns whether JSON omits a value. Go writes many of these, so the two most common are tested first.
#[inline]
fn is_left_out(kind: FieldKind, value: Wire<'_>) -> Result<bool, BoxedError> {
    let integer = matches!(kind, FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64);
    match value {
        Wire::Varint(0) => Ok(integer),
        Wire::Bytes([]) => Ok(!integer && kind != FieldKind::Double),
        value => is_zero(kind, value),
    }
}

/// Returns whether an explicit value is one that Go omits from JSON.
fn is_zero(kind: FieldKind, value: Wire<'_>) -> Result<bool, BoxedError> {
    Ok(match (kind, value) {
        (FieldKind::Int32, Wire::Varint(value)) => value as u32 == 0,
        (FieldKind::Double, Wire::Fixed64(bits)) => f64::from_bits(bits) == 0.0,
        (FieldKind::Time | FieldKind::MicroTime, Wire::Bytes(bytes)) => time::read(bytes)?.is_none(),
        (FieldKind::Json, Wire::Bytes(bytes)) => bytes_of(bytes, 1)?.is_empty(),
        _ => false,
    })
}

/// The items of a list or the entries of a map in a message, possibly between other fields.
#[derive(Clone, Copy)]
pub(crate) struct Run<'de> {
    bytes: &'de [u8],
    number: u32,
    count: u32,
}

impl<'de> Run<'de> {
    /// Returns the repeated field with this number in a message without other relevant fields.
    pub(crate) fn new(bytes: &'de [u8], number: u32) -> Run<'de> {
        Run { bytes, number, count: 0 }
    }

    fn of(self, field: &Field) -> Content<'de> {
        if field.cardinality == Cardinality::Map { Content::Map(self) } else { Content::List(self) }
    }

    pub(crate) fn items(self, of: FieldType) -> Items<'de> {
        let packed = Reader::new(&[]);
        Items { reader: Reader::new(self.bytes), packed, number: self.number, kind: of.kind, left: self.count }
    }
}

/// Iterates over the items of a run.
pub(crate) struct Items<'de> {
    reader: Reader<'de>,
    /// Packed numbers of one field (PB-035).
    packed: Reader<'de>,
    number: u32,
    kind: FieldKind,
    left: u32,
}

impl<'de> Items<'de> {
    /// Returns a lower bound of the number of items; packed numbers are more.
    pub(crate) fn hint(&self) -> usize {
        self.left as usize
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Wire<'de>>, BoxedError> {
        loop {
            if !self.packed.is_empty() {
                return self.unpack();
            }
            if self.reader.is_empty() {
                return Ok(None);
            }
            let (number, wire_type) = self.reader.tag()?;
            if number != self.number {
                self.reader.skip(number, wire_type)?;
                continue;
            }
            self.left = self.left.saturating_sub(1);
            match self.reader.value(wire_type)? {
                Wire::Bytes(bytes)
                    if matches!(
                        self.kind,
                        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double
                    ) =>
                {
                    self.packed = Reader::new(bytes);
                }
                value => return Ok(Some(value)),
            }
        }
    }

    #[cold]
    fn unpack(&mut self) -> Result<Option<Wire<'de>>, BoxedError> {
        let wire_type = if self.kind == FieldKind::Double { super::wire::FIXED64 } else { super::wire::VARINT };
        self.packed.value(wire_type).map(Some)
    }

    /// Returns the next entry of a map. Absent parts are zero; of duplicates the last one is effective (PB-030).
    #[inline]
    pub(crate) fn next_pair(&mut self) -> Result<Option<(&'de [u8], Wire<'de>)>, BoxedError> {
        // Entries are messages whatever their values are, and never packed.
        let kind = std::mem::replace(&mut self.kind, FieldKind::Message);
        let pair = self.next();
        self.kind = kind;
        let Some(pair) = pair? else { return Ok(None) };
        let (mut key, mut value) = (&[][..], zero(kind));
        let mut reader = Reader::new(pair.bytes()?);
        while let Some((number, found)) = reader.next()? {
            match number {
                1 => key = found.bytes()?,
                2 => value = found,
                _ => {}
            }
        }
        Ok(Some((key, value)))
    }
}

fn zero(kind: FieldKind) -> Wire<'static> {
    match kind {
        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 => Wire::Varint(0),
        FieldKind::Double => Wire::Fixed64(0),
        _ => Wire::Bytes(&[]),
    }
}

/// Returns the bytes of a field of a message without a schema; empty if the field is absent.
#[inline]
pub(crate) fn bytes_of(message: &[u8], number: u32) -> Result<&[u8], BoxedError> {
    let mut result = &[][..];
    let mut reader = Reader::new(message);
    while let Some((found, value)) = reader.next()? {
        if found == number {
            result = value.bytes()?;
        }
    }
    Ok(result)
}
