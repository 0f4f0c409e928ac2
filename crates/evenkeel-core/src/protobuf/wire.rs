//! The wire format: tags, numbers and lengths, over bytes that are all there.

use std::fmt;

use super::error::Failure;

/// The largest number that a field can have.
const LAST_NUMBER: u64 = (1 << 29) - 1;

/// What is wrong with the bytes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireFault {
    /// They end in the middle of something, or something says it is longer than they are.
    Truncated,
    /// A number has more than the ten bytes that 64 bits need.
    LongNumber,
    /// A field has the number zero, or one that no field can have.
    BadTag,
    /// A field has another wire type than the schema says, or one that does not exist.
    WireType(u8),
    /// The end of a group that was not begun, or was begun with another number.
    EndOfGroup,
}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireFault::Truncated => f.write_str("unexpected end of the message"),
            WireFault::LongNumber => f.write_str("a number has more than 64 bits"),
            WireFault::BadTag => f.write_str("a field has an impossible number"),
            WireFault::WireType(found) => write!(f, "the wire type {found} does not fit"),
            WireFault::EndOfGroup => f.write_str("a group ends that was not begun"),
        }
    }
}

impl std::error::Error for WireFault {}

/// Wire types.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Errors are boxed at once: a result that is as wide as a word or two stays in registers, and this is where all the time of
/// reading goes.
#[cold]
fn fail<T>(fault: WireFault) -> Result<T, Failure> {
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
    /// The bytes of a string, of bytes or of a message.
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'de [u8], Failure> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) => fail(WireFault::WireType(VARINT)),
            Wire::Fixed64(_) => fail(WireFault::WireType(FIXED64)),
        }
    }

    /// An integer or a bool.
    #[inline]
    pub(crate) fn varint(self) -> Result<u64, Failure> {
        match self {
            Wire::Varint(value) => Ok(value),
            Wire::Fixed64(_) => fail(WireFault::WireType(FIXED64)),
            Wire::Bytes(_) => fail(WireFault::WireType(BYTES)),
        }
    }

    /// The bits of a double.
    pub(crate) fn fixed64(self) -> Result<u64, Failure> {
        match self {
            Wire::Fixed64(value) => Ok(value),
            Wire::Varint(_) => fail(WireFault::WireType(VARINT)),
            Wire::Bytes(_) => fail(WireFault::WireType(BYTES)),
        }
    }
}

/// Reads fields from the front of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'de> {
    rest: &'de [u8],
}

impl<'de> Reader<'de> {
    #[inline]
    pub(crate) fn new(bytes: &'de [u8]) -> Reader<'de> {
        Reader { rest: bytes }
    }

    /// What has not been read.
    #[inline]
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field and its value, or nothing at the end of the message. Fields in forms that Kubernetes does not use
    /// (groups, 32 bits) are passed over.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'de>)>, Failure> {
        while !self.rest.is_empty() {
            let (number, wire_type) = self.tag()?;
            if matches!(wire_type, VARINT | FIXED64 | BYTES) {
                return self.value(wire_type).map(|value| Some((number, value)));
            }
            self.skip(number, wire_type)?;
        }
        Ok(None)
    }

    /// The number and wire type of the next field.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<(u32, u8), Failure> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > LAST_NUMBER {
            return fail(WireFault::BadTag);
        }
        Ok((number as u32, (tag & 7) as u8))
    }

    /// The value after a tag. Kubernetes has no use for other wire types than these.
    #[inline]
    pub(crate) fn value(&mut self, wire_type: u8) -> Result<Wire<'de>, Failure> {
        match wire_type {
            VARINT => self.varint().map(Wire::Varint),
            BYTES => self.bytes().map(Wire::Bytes),
            FIXED64 => self.fixed().map(|bytes| Wire::Fixed64(u64::from_le_bytes(bytes))),
            other => fail(WireFault::WireType(other)),
        }
    }

    /// Passes over the value after a tag.
    #[inline]
    pub(crate) fn skip(&mut self, number: u32, wire_type: u8) -> Result<(), Failure> {
        match wire_type {
            VARINT => self.varint().map(|_| ()),
            BYTES => self.bytes().map(|_| ()),
            FIXED64 => self.fixed::<8>().map(|_| ()),
            other => self.skip_rare(number, other),
        }
    }

    /// Passes over groups, which may nest, without nesting itself.
    #[cold]
    fn skip_rare(&mut self, number: u32, wire_type: u8) -> Result<(), Failure> {
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
                        (_, END_GROUP) => return fail(WireFault::EndOfGroup),
                        (_, FIXED32) => self.fixed::<4>().map(|_| ())?,
                        (number, other) => self.skip(number, other)?,
                    }
                }
                Ok(())
            }
            END_GROUP => fail(WireFault::EndOfGroup),
            other => fail(WireFault::WireType(other)),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Failure> {
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

    fn long_varint(&mut self) -> Result<u64, Failure> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        fail(if self.rest.len() < 10 { WireFault::Truncated } else { WireFault::LongNumber })
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'de [u8], Failure> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| Failure::from(WireFault::Truncated))?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| Failure::from(WireFault::Truncated))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| Failure::from(WireFault::Truncated))?;
        self.rest = rest;
        Ok(*bytes)
    }
}

/// Appends a number.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes a number takes.
pub(crate) fn varint_length(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

/// Appends the tag of a field.
#[inline]
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u8, wire_type: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

/// Appends a field that holds bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    put_tag(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field that holds an integer or a bool.
pub(crate) fn put_int(out: &mut Vec<u8>, number: u8, value: i64) {
    put_tag(out, number, VARINT);
    put_varint(out, value as u64);
}

#[cfg(test)]
mod tests;
