//! The wire format: tags, varints and lengths.

use super::ProtobufFault;

/// One value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    fn code(self) -> u64 {
        match self {
            Wire::Varint(_) => 0,
            Wire::Fixed64(_) => 1,
            Wire::Bytes(_) => 2,
            Wire::Fixed32(_) => 5,
        }
    }

    fn unfit(self, number: u64) -> ProtobufFault {
        ProtobufFault::Wire { number, wire: self.code() }
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Wire::Varint(value) | Wire::Fixed64(value) => value == 0,
            Wire::Bytes(bytes) => bytes.is_empty(),
            Wire::Fixed32(value) => value == 0,
        }
    }

    pub(super) fn bytes(self, number: u64) -> Result<&'a [u8], ProtobufFault> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            other => Err(other.unfit(number)),
        }
    }

    /// A signed integer; negative ones are written as their 64-bit complement.
    pub(super) fn int(self, number: u64) -> Result<i64, ProtobufFault> {
        match self {
            Wire::Varint(value) => Ok(value.cast_signed()),
            other => Err(other.unfit(number)),
        }
    }

    pub(super) fn double(self, number: u64) -> Result<f64, ProtobufFault> {
        match self {
            Wire::Fixed64(bits) => Ok(f64::from_bits(bits)),
            other => Err(other.unfit(number)),
        }
    }
}

/// Reads the fields of one message in the order in which they stand.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field's number and value.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ProtobufFault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let (number, code) = (tag >> 3, tag & 7);
        let wire = match code {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufFault::Cut)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ProtobufFault::Cut)?;
                self.rest = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            wire => return Err(ProtobufFault::Wire { number, wire }),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufFault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufFault::Cut)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufFault::Cut)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufFault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ProtobufFault::Cut)?;
        self.rest = rest;
        Ok(*bytes)
    }
}
