//! Header blocks: names and values in one zlib stream per direction.

use flate2::{Decompress, FlushDecompress, Status};

use super::dictionary::{ADLER32, dictionary};

/// The largest block after decompression.
pub(super) const MAX_BLOCK: usize = 16 * 1024;
/// The most headers of a block.
pub(super) const MAX_HEADERS: usize = 32;

/// The headers of a stream. Names are lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamHeaders(Vec<(String, String)>);

impl StreamHeaders {
    /// Returns the value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for StreamHeaders {
    fn from(headers: [(&str, &str); N]) -> Self {
        StreamHeaders(headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).into())
    }
}

/// Why a header block is not valid. The connection cannot continue: its compression is out of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderBlockError {
    /// The zlib stream does not start with a valid header.
    #[error("the zlib header is not valid")]
    ZlibHeader,
    /// The block was compressed with an unknown dictionary.
    #[error("the block was compressed with another dictionary than SPDY/3's")]
    Dictionary,
    /// The compressed data is damaged.
    #[error("the compressed data is damaged")]
    Compression,
    /// The block is too large after decompression.
    #[error("the block has more than {MAX_BLOCK} bytes after decompression")]
    TooLarge,
    /// The block has too many headers.
    #[error("the block has more than {MAX_HEADERS} headers")]
    TooMany,
    /// The block is shorter or longer than its headers.
    #[error("the length of the block does not match its headers")]
    Length,
    /// A name is empty, not lower case, or present twice.
    #[error("the name of a header is empty, not lower case, or present twice")]
    Name,
    /// A name or a value is not UTF-8.
    #[error("a header is not UTF-8")]
    Encoding,
}

/// Decodes the header blocks of one direction.
pub(super) struct HeaderDecoder {
    zlib: Decompress,
    started: bool,
    block: Vec<u8>,
}

impl HeaderDecoder {
    pub(super) fn new() -> Self {
        HeaderDecoder { zlib: Decompress::new(false), started: false, block: Vec::new() }
    }

    /// Decodes one block.
    pub(super) fn decode(&mut self, mut compressed: &[u8]) -> Result<StreamHeaders, HeaderBlockError> {
        if !self.started {
            compressed = self.start(compressed)?;
        }
        self.inflate(compressed)?;
        parse(&self.block)
    }

    /// Reads the zlib header. The inflater is a raw one: it gets the dictionary as data, in an uncompressed block.
    fn start<'a>(&mut self, compressed: &'a [u8]) -> Result<&'a [u8], HeaderBlockError> {
        let Some((&[method, flags], rest)) = compressed.split_first_chunk::<2>() else {
            return Err(HeaderBlockError::ZlibHeader);
        };
        if method & 0x0f != 8 || !u16::from_be_bytes([method, flags]).is_multiple_of(31) {
            return Err(HeaderBlockError::ZlibHeader);
        }
        self.started = true;
        if flags & 0x20 == 0 {
            return Ok(rest);
        }
        let Some((checksum, rest)) = rest.split_first_chunk::<4>() else { return Err(HeaderBlockError::ZlibHeader) };
        if u32::from_be_bytes(*checksum) != ADLER32 {
            return Err(HeaderBlockError::Dictionary);
        }
        let mut primer = Vec::new();
        stored_block(&dictionary(), &mut primer);
        self.inflate(&primer)?;
        Ok(rest)
    }

    fn inflate(&mut self, mut compressed: &[u8]) -> Result<(), HeaderBlockError> {
        self.block.resize(MAX_BLOCK, 0);
        let mut length = 0;
        loop {
            let (read, written) = (self.zlib.total_in(), self.zlib.total_out());
            let room = self.block.get_mut(length..).unwrap_or_default();
            let is_full = room.is_empty();
            let status = self.zlib.decompress(compressed, room, FlushDecompress::Sync);
            let status = status.map_err(|_| HeaderBlockError::Compression)?;
            let (read, written) = ((self.zlib.total_in() - read) as usize, (self.zlib.total_out() - written) as usize);
            compressed = compressed.get(read..).unwrap_or_default();
            length += written;
            match status {
                Status::StreamEnd => return Err(HeaderBlockError::Compression),
                _ if compressed.is_empty() && length < MAX_BLOCK => break,
                _ if is_full => return Err(HeaderBlockError::TooLarge),
                _ if read == 0 && written == 0 => return Err(HeaderBlockError::Compression),
                _ => {}
            }
        }
        self.block.truncate(length);
        Ok(())
    }
}

/// Encodes the header blocks of one direction.
///
/// The blocks are uncompressed blocks of zlib, which every inflater reads: the headers of a port-forward have about 60 bytes.
#[derive(Default)]
pub(super) struct HeaderEncoder {
    started: bool,
}

impl HeaderEncoder {
    /// Appends one block.
    pub(super) fn encode(&mut self, headers: &StreamHeaders, into: &mut Vec<u8>) {
        let mut block = Vec::new();
        block.extend_from_slice(&(headers.0.len() as u32).to_be_bytes());
        for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
            block.extend_from_slice(&(text.len() as u32).to_be_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        if !std::mem::replace(&mut self.started, true) {
            into.extend_from_slice(&[0x78, 0x01]);
        }
        block.chunks(usize::from(u16::MAX)).for_each(|part| stored_block(part, into));
        // Go's inflater returns the data when it reads an empty block. Without one it would wait for the next header block.
        stored_block(&[], into);
    }
}

/// Appends an uncompressed block of deflate, not the last one.
fn stored_block(data: &[u8], into: &mut Vec<u8>) {
    let length = data.len() as u16;
    into.push(0);
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(&(!length).to_le_bytes());
    into.extend_from_slice(data);
}

fn parse(mut block: &[u8]) -> Result<StreamHeaders, HeaderBlockError> {
    let count = number(&mut block)?;
    if count > MAX_HEADERS {
        return Err(HeaderBlockError::TooMany);
    }
    let mut headers: Vec<(String, String)> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = text(&mut block)?;
        let is_known = headers.iter().any(|(known, _)| known == name);
        if name.is_empty() || is_known || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(HeaderBlockError::Name);
        }
        headers.push((name.to_owned(), text(&mut block)?.to_owned()));
    }
    if block.is_empty() { Ok(StreamHeaders(headers)) } else { Err(HeaderBlockError::Length) }
}

fn number(block: &mut &[u8]) -> Result<usize, HeaderBlockError> {
    let (number, rest) = block.split_first_chunk::<4>().ok_or(HeaderBlockError::Length)?;
    *block = rest;
    Ok(u32::from_be_bytes(*number) as usize)
}

fn text<'a>(block: &mut &'a [u8]) -> Result<&'a str, HeaderBlockError> {
    let length = number(block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HeaderBlockError::Length)?;
    *block = rest;
    str::from_utf8(text).map_err(|_| HeaderBlockError::Encoding)
}
