//! The part of HTTP/1.1 that informers need: requests without bodies, chunked responses.
//!
//! Writes are vectored: pieces are sent without copying, many per system call.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::wire::{CHUNK_TAIL, chunk_head};

/// Pieces per system call; the limit is 1,024.
const GATHERED: usize = 960;
/// Chunk size of lists.
const CHUNK: usize = 64 << 10;
/// Maximum size of a request head.
const LONGEST: usize = 64 << 10;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    query: Vec<(String, String)>,
    pub(super) accept: String,
}

impl Request {
    /// Reads the next request; none if the client has disconnected.
    pub(super) fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::with_capacity(1_024);
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > LONGEST {
                return Err(io::Error::other("a request that is too long"));
            }
            if stream.by_ref().take(LONGEST as u64).read_until(b'\n', &mut head)? == 0 {
                return Ok(None);
            }
        }
        Self::parse(&String::from_utf8_lossy(&head)).map(Some).ok_or_else(|| io::Error::other("not a request"))
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = lines.filter_map(|line| line.split_once(':'));
        let accept = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept")).map(|(_, value)| value.trim());
        Some(Request {
            method,
            path: path.to_owned(),
            query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            accept: accept.last().unwrap_or_default().to_owned(),
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }
}

/// Sends a short response.
pub(super) fn reply(stream: &mut impl Write, code: u16, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {code} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        if code == 200 { "OK" } else { "Refused" },
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// Starts a chunked response.
pub(super) fn begin(stream: &mut impl Write, content_type: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())
}

/// Ends it.
pub(super) fn end(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

/// Sends these pieces as one body. Short pieces share a chunk, so that chunks have about the same size whatever the pieces.
pub(super) fn send_body<'a>(stream: &mut impl Write, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let parts: Vec<&[u8]> = pieces.flat_map(|piece| piece.chunks(CHUNK)).collect();
    let (mut heads, mut chunks) = (Vec::new(), Vec::new());
    let mut first = 0;
    while let Some(part) = parts.get(first) {
        let (mut end, mut bytes) = (first + 1, part.len());
        while let Some(next) = parts.get(end).filter(|next| bytes + next.len() <= CHUNK) {
            bytes += next.len();
            end += 1;
        }
        let head = heads.len();
        chunk_head(&mut heads, bytes);
        chunks.push((head..heads.len(), first..end));
        first = end;
    }
    let slices = chunks
        .into_iter()
        .flat_map(|(head, some)| [&heads[head]].into_iter().chain(parts[some].iter().copied()).chain([CHUNK_TAIL]));
    send_pieces(stream, slices)
}

/// Sends these pieces, which include their chunk headers.
pub(super) fn send_pieces<'a>(stream: &mut impl Write, mut pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    let mut slices = Vec::with_capacity(GATHERED);
    loop {
        slices.clear();
        slices.extend(pieces.by_ref().take(GATHERED).map(IoSlice::new));
        if slices.is_empty() {
            return Ok(());
        }
        send_all(stream, &mut slices)?;
    }
}

fn send_all(stream: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A stream of a response whose bytes are counted.
pub(super) struct Counted<'a> {
    pub(super) stream: &'a mut TcpStream,
    pub(super) sent: &'a AtomicU64,
}

impl Counted<'_> {
    fn count(&self, sent: usize) -> usize {
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
        sent
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).map(|sent| self.count(sent))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices).map(|sent| self.count(sent))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Whether the client has closed its side, or sent unexpected data.
pub(super) fn is_gone(stream: &TcpStream) -> bool {
    const MOMENT: Duration = Duration::from_millis(1);
    let look = || -> io::Result<bool> {
        stream.set_read_timeout(Some(MOMENT))?;
        let gone = match stream.peek(&mut [0]) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        };
        stream.set_read_timeout(None)?;
        Ok(gone)
    };
    look().unwrap_or(true)
}

#[cfg(test)]
mod tests;
