//! [`Input`]: a part of the bytes of an input after another.

use serde_json::Value;

use crate::sloppy_json;

/// The rest of an input. What is missing at its end is empty or zero, so that every input can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// Takes a byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Takes a byte that chooses between options. Digits choose the option of their value, so that inputs can be written by hand.
    pub(crate) fn choice<T: Copy>(&mut self, options: &[T]) -> T {
        let byte = self.byte();
        let index = if byte.is_ascii_digit() { byte - b'0' } else { byte };
        options[usize::from(index) % options.len()]
    }

    /// Takes a line, without its end.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        match self.0.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = &self.0[..end];
                self.0 = &self.0[end + 1..];
                line
            }
            None => std::mem::take(&mut self.0),
        }
    }

    /// Takes a line as text; malformed UTF-8 is replaced.
    pub(crate) fn text_line(&mut self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }

    /// Takes up to this many bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes a JSON value. Text that is not JSON is read as something similar to it.
    pub(crate) fn json(&mut self) -> Value {
        sloppy_json::take_value(&mut self.0)
    }
}

/// Cuts bytes into chunks, whose lengths follow from a seed. A seed of zero cuts after every byte.
pub(crate) fn chunks(mut bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let length = if seed == 0 { 1 } else { random.usize(1..=1 + 2 * usize::from(seed % 32)) };
        let (chunk, rest) = bytes.split_at(length.min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}
