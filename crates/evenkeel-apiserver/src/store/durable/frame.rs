//! Frames: the checksummed units of the files. A frame is there whole or not at all.
//!
//! A file is a preamble (`EVKLDATA` and the format version) and frames. A frame is a marker, the length and the CRC-32 of
//! its payload, and the payload. All numbers are little-endian. The checksum covers the length.

use std::io::{self, Read};

/// The version of the format that this build reads and writes.
pub(crate) const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"EVKLDATA";
/// The length of the preamble of a file.
pub(super) const PREAMBLE: usize = 12;

const MARKER: &[u8; 4] = b"EVKF";
const HEADER: usize = 12;
/// No frame is longer. A batch of the log ends soon after [`super::journal`]'s limit, and an object is a few MiB at most.
const MAX_PAYLOAD: usize = 256 << 20;

pub(super) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    let (magic, version) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    version.copy_from_slice(&FORMAT.to_le_bytes());
    bytes
}

fn checksum(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length(payload).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn length(payload: &[u8]) -> u32 {
    u32::try_from(payload.len()).unwrap_or(u32::MAX)
}

/// A frame under construction: entries are appended to the buffer, then [`FrameBuffer::finish`] fills in the header.
#[derive(Debug)]
pub(super) struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    pub(super) fn new() -> Self {
        FrameBuffer(vec![0; HEADER])
    }

    pub(super) fn payload(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == HEADER
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the frame.
    pub(super) fn finish(&mut self) -> &[u8] {
        let (header, payload) = self.0.split_at_mut(HEADER);
        let (length, checksum) = (length(payload), checksum(payload));
        for (part, bytes) in header.chunks_exact_mut(4).zip([*MARKER, length.to_le_bytes(), checksum.to_le_bytes()]) {
            part.copy_from_slice(&bytes);
        }
        &self.0
    }

    /// Empties the frame and keeps a bounded part of its memory.
    pub(super) fn clear(&mut self) {
        self.0.truncate(HEADER);
        self.0.shrink_to(1 << 20);
    }
}

/// How a file, or the part of it that is whole, ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// With a whole frame.
    Whole,
    /// With a frame that was not written to its end, at this offset: a torn write.
    Torn { offset: u64 },
    /// A frame at this offset is damaged, and whole frames follow it.
    Damaged { offset: u64, following: Vec<Vec<u8>> },
    /// The preamble names another format version.
    UnknownFormat { found: u32 },
    /// The file does not start with the preamble.
    NotALog,
}

/// Reads the frames of a file in order. `take` receives the payload of each whole frame and returns whether it is valid.
pub(super) fn read_frames(mut file: impl Read, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<FileEnd> {
    let mut start = [0; PREAMBLE];
    match read_up_to(&mut file, &mut start)? {
        PREAMBLE => {}
        // A file that was just created. Its preamble is synced before anything is acknowledged.
        some if preamble().starts_with(start.get(..some).unwrap_or_default()) => {
            return Ok(FileEnd::Torn { offset: 0 });
        }
        _ => return Ok(FileEnd::NotALog),
    }
    let (magic, version) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Ok(FileEnd::NotALog);
    }
    let found = word(version, 0);
    if found != FORMAT {
        return Ok(FileEnd::UnknownFormat { found });
    }
    let mut offset = PREAMBLE as u64;
    let mut payload = Vec::new();
    loop {
        let mut header = [0; HEADER];
        let got = read_up_to(&mut file, &mut header)?;
        if got == 0 {
            return Ok(FileEnd::Whole);
        }
        let claimed = word(&header, 4) as usize;
        let plausible = got == HEADER && header.starts_with(MARKER) && claimed <= MAX_PAYLOAD;
        payload.clear();
        if plausible {
            (&mut file).take(claimed as u64).read_to_end(&mut payload)?;
        }
        let whole = plausible && payload.len() == claimed && checksum(&payload) == word(&header, 8);
        if whole && take(&payload) {
            offset += (HEADER + claimed) as u64;
            continue;
        }
        // A torn write is the last one. If a whole frame follows, this one was damaged later.
        let mut rest = header.get(1..got).unwrap_or_default().to_vec();
        rest.append(&mut payload);
        file.read_to_end(&mut rest)?;
        let following = whole_frames(&rest);
        return Ok(match following.is_empty() {
            true if whole => FileEnd::Damaged { offset, following },
            true => FileEnd::Torn { offset },
            false => FileEnd::Damaged { offset, following },
        });
    }
}

/// Returns the payloads of all whole frames in a part of a file, wherever they start.
fn whole_frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(start) = rest.windows(MARKER.len()).position(|window| window == MARKER) {
        rest = rest.get(start..).unwrap_or_default();
        let whole = (rest.len() >= HEADER)
            .then(|| rest.get(HEADER..)?.get(..word(rest, 4) as usize))
            .flatten()
            .filter(|payload| checksum(payload) == word(rest, 8));
        let skip = match whole {
            Some(payload) => {
                found.push(payload.to_vec());
                HEADER + payload.len()
            }
            None => 1,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    found
}

/// Returns the number at an offset.
fn word(bytes: &[u8], offset: usize) -> u32 {
    let bytes = bytes.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
