//! Indents JSON for readers and keeps the order of its members.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};

use crate::http_types::{ConnectionCut, FrameStream};

/// Indents compact JSON by two spaces, like Go's encoder. Text that is not JSON keeps all its characters.
pub(crate) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    Indenter::default().write(json, &mut out, usize::MAX);
    out
}

/// The size of the frames of a document that is indented while it is read.
const FRAME: usize = 128 * 1024;

/// Indents JSON that arrives in pieces, cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last byte opened an object or a list, which may be empty.
    opened: bool,
}

impl Indenter {
    /// Appends the indented form of a piece until the output has `limit` bytes or a few more. Returns how many bytes of the
    /// piece it has read.
    pub(crate) fn write(&mut self, piece: &[u8], out: &mut Vec<u8>, limit: usize) -> usize {
        for (index, &byte) in piece.iter().enumerate() {
            if out.len() >= limit {
                return index;
            }
            self.push(byte, out);
        }
        piece.len()
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            out.push(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        if std::mem::take(&mut self.opened) {
            if matches!(byte, b'}' | b']') {
                out.push(byte);
                return;
            }
            self.depth += 1;
            new_line(out, self.depth);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                self.opened = true;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                new_line(out, self.depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(out, self.depth);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }
}

/// A large document that is indented while it is read.
pub(crate) struct IndentedBody {
    indenter: Indenter,
    rest: Bytes,
}

impl IndentedBody {
    pub(crate) fn new(json: Bytes) -> Self {
        IndentedBody { indenter: Indenter::default(), rest: json }
    }
}

impl FrameStream for IndentedBody {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let IndentedBody { indenter, rest } = &mut *self;
        if rest.is_empty() {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::with_capacity(FRAME + 1024);
        let read = indenter.write(rest, &mut chunk, FRAME);
        rest.advance(read);
        Poll::Ready(Some(Ok(chunk.into())))
    }
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests;
