//! The wire format: tags, varints and lengths of a complete message.

use super::error::BoxedError;
use crate::error::WireError;

/// The largest field number.
const LAST_NUMBER: u64 = (1 << 29) - 1;

/// Wire types.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Boxes the error at once, so that results stay in registers: decoding spends most of its time here.
#[cold]
fn fail<T>(fault: WireError) -> Result<T, BoxedError> {
    Err(fault.into())
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wire<'de> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'de [u8]),
}

impl<'de> Wire<'de> {
    /// Returns the bytes of a string, of bytes or of a message.
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'de [u8], BoxedError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) => fail(WireError::WireType(VARINT)),
            Wire::Fixed64(_) => fail(WireError::WireType(FIXED64)),
        }
    }

    /// Returns an integer or a bool.
    #[inline]
    pub(crate) fn varint(self) -> Result<u64, BoxedError> {
        match self {
            Wire::Varint(value) => Ok(value),
            Wire::Fixed64(_) => fail(WireError::WireType(FIXED64)),
            Wire::Bytes(_) => fail(WireError::WireType(BYTES)),
        }
    }

    /// Returns the bits of a double.
    pub(crate) fn fixed64(self) -> Result<u64, BoxedError> {
        match self {
            Wire::Fixed64(value) => Ok(value),
            Wire::Varint(_) => fail(WireError::WireType(VARINT)),
            Wire::Bytes(_) => fail(WireError::WireType(BYTES)),
        }
    }
}

/// Reads the fields of a message in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'de> {
    rest: &'de [u8],
}

impl<'de> Reader<'de> {
    #[inline]
    pub(crate) fn new(bytes: &'de [u8]) -> Reader<'de> {
        Reader { rest: bytes }
    }

    /// Returns the unread bytes.
    #[inline]
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next field number and value, or `None` at the end of the message. It skips wire types that Kubernetes does not use
    /// (groups, 32 bits).
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'de>)>, BoxedError> {
        // Most fields are short strings and messages with a small number.
        if let [tag @ 0x08..=0x7F, length @ 0..=0x7F, rest @ ..] = self.rest
            && tag & 7 == BYTES
            && let Some((bytes, rest)) = rest.split_at_checked(usize::from(*length))
        {
            self.rest = rest;
            return Ok(Some((u32::from(tag >> 3), Wire::Bytes(bytes))));
        }
        while !self.rest.is_empty() {
            let (number, wire_type) = self.tag()?;
            if matches!(wire_type, VARINT | FIXED64 | BYTES) {
                return self.value(wire_type).map(|value| Some((number, value)));
            }
            self.skip(number, wire_type)?;
        }
        Ok(None)
    }

    /// Returns the number and wire type of the next field.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<(u32, u8), BoxedError> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > LAST_NUMBER {
            return fail(WireError::BadTag);
        }
        Ok((number as u32, (tag & 7) as u8))
    }

    /// Returns the value after a tag, of the wire types that Kubernetes uses.
    #[inline]
    pub(crate) fn value(&mut self, wire_type: u8) -> Result<Wire<'de>, BoxedError> {
        match wire_type {
            VARINT => self.varint().map(Wire::Varint),
            BYTES => self.bytes().map(Wire::Bytes),
            FIXED64 => self.fixed().map(|bytes| Wire::Fixed64(u64::from_le_bytes(bytes))),
            other => fail(WireError::WireType(other)),
        }
    }

    /// Skips the value after a tag.
    #[inline]
    pub(crate) fn skip(&mut self, number: u32, wire_type: u8) -> Result<(), BoxedError> {
        match wire_type {
            VARINT => self.varint().map(|_| ()),
            BYTES => self.bytes().map(|_| ()),
            FIXED64 => self.fixed::<8>().map(|_| ()),
            other => self.skip_rare(number, other),
        }
    }

    /// Skips groups, which may nest, without recursion.
    #[cold]
    fn skip_rare(&mut self, number: u32, wire_type: u8) -> Result<(), BoxedError> {
        match wire_type {
            FIXED32 => self.fixed::<4>().map(|_| ()),
            GROUP => {
                let mut open = vec![number];
                while let Some(innermost) = open.last().copied() {
                    match self.tag()? {
                        (number, GROUP) => open.push(number),
                        (number, END_GROUP) if number == innermost => {
                            open.pop();
                        }
                        (_, END_GROUP) => return fail(WireError::EndOfGroup),
                        (_, FIXED32) => self.fixed::<4>().map(|_| ())?,
                        (number, other) => self.skip(number, other)?,
                    }
                }
                Ok(())
            }
            END_GROUP => fail(WireError::EndOfGroup),
            other => fail(WireError::WireType(other)),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, BoxedError> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            [low, high, rest @ ..] if *high < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, BoxedError> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        fail(if self.rest.len() < 10 { WireError::Truncated } else { WireError::LongNumber })
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'de [u8], BoxedError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| BoxedError::from(WireError::Truncated))?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| BoxedError::from(WireError::Truncated))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], BoxedError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| BoxedError::from(WireError::Truncated))?;
        self.rest = rest;
        Ok(*bytes)
    }
}

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the number of bytes of a varint.
pub(crate) fn varint_length(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

/// Appends the tag of a field.
#[inline]
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u8, wire_type: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

/// Appends a field of bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    put_tag(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of an integer or a bool.
pub(crate) fn put_int(out: &mut Vec<u8>, number: u8, value: i64) {
    put_tag(out, number, VARINT);
    put_varint(out, value as u64);
}

#[cfg(test)]
mod tests;
