//! Connects blocking readers and writers to async code, by a bounded channel.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

/// The chunks that wait in a channel.
const CAPACITY: usize = 8;
/// The size of a chunk that is written.
const CHUNK: usize = 32 * 1024;

/// A part of a byte stream. The stream is complete only if it has an end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Data(Bytes),
    End,
}

/// Returns a channel from async code to a blocking reader.
pub(super) fn reader() -> (mpsc::Sender<Part>, BlockingReader) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (sender, BlockingReader { parts: receiver, chunk: Bytes::new(), ended: false })
}

/// Returns a channel from a blocking writer to async code.
pub(super) fn writer() -> (BlockingWriter, mpsc::Receiver<Part>) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (BlockingWriter { parts: Some(sender), buffer: BytesMut::new(), sent: 0 }, receiver)
}

/// Reads what async code sends. Fails if the sender is dropped before the end.
#[derive(Debug)]
pub(super) struct BlockingReader {
    parts: mpsc::Receiver<Part>,
    chunk: Bytes,
    ended: bool,
}

impl Read for BlockingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.ended {
            match self.parts.blocking_recv() {
                Some(Part::Data(chunk)) => self.chunk = chunk,
                Some(Part::End) => self.ended = true,
                None => return Err(interrupted()),
            }
        }
        let length = into.len().min(self.chunk.len());
        self.chunk.copy_to_slice(into.get_mut(..length).unwrap_or_default());
        Ok(length)
    }
}

/// Sends what blocking code writes. The end is sent by [`finish`](Self::finish) only.
#[derive(Debug)]
pub(super) struct BlockingWriter {
    /// `None` after an abort.
    parts: Option<mpsc::Sender<Part>>,
    buffer: BytesMut,
    /// The bytes before the buffer.
    sent: usize,
}

impl BlockingWriter {
    /// Sends the buffered data and the end.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.send(Part::End)
    }

    /// Writes zeros until the length of all data is a multiple of `block`.
    pub(super) fn pad(&mut self, block: usize) -> io::Result<()> {
        let length = self.sent.wrapping_add(self.buffer.len());
        self.write_all(&vec![0; length.next_multiple_of(block) - length])
    }

    /// Discards everything that is written from now on.
    pub(super) fn abort(&mut self) {
        self.parts = None;
    }

    fn send(&self, part: Part) -> io::Result<()> {
        let sent = self.parts.as_ref().map(|parts| parts.blocking_send(part).is_ok());
        if sent == Some(true) { Ok(()) } else { Err(interrupted()) }
    }
}

impl Write for BlockingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        let room = CHUNK - self.buffer.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = self.buffer.split().freeze();
        self.sent = self.sent.wrapping_add(chunk.len());
        self.buffer.reserve(CHUNK);
        self.send(Part::Data(chunk))
    }
}

/// Not `ErrorKind::Interrupted`, which readers retry.
fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the copy was interrupted")
}
