//! Decodes texts.

use super::literals::{put_base64, put_hex, put_uuid};
use super::{
    AGAIN, BASE64, ELSEWHERE, HEX_MORE, JUMP, MAX_EXPANSION, MORE, ONWARD, PLAIN, SHORTEST, SPECIAL, UUID, checksum,
    get, get_signed,
};

/// Decodes a text, and returns `None` if it does not match its checksum.
pub(in crate::pack) fn read(base: &[u8], context: [&[u8]; 2], written: &[u8]) -> Option<Vec<u8>> {
    let text = read_unchecked(base, context, written, Vec::new())?;
    let mut from = written;
    let (_, _) = (get(&mut from)?, get(&mut from)?);
    (checksum(&text).to_le_bytes() == *from.first_chunk::<4>()?).then_some(text)
}

/// Decodes a text that is the base of another one, which has its own checksum. The text replaces the contents of `buffer`.
pub(in crate::pack) fn read_unchecked(
    base: &[u8],
    context: [&[u8]; 2],
    mut written: &[u8],
    buffer: Vec<u8>,
) -> Option<Vec<u8>> {
    // A damaged length must not cause a large allocation.
    let most = MAX_EXPANSION.saturating_mul(base.len() + written.len());
    let from = &mut written;
    let length = get(from).filter(|length| *length <= most)?;
    let own = get(from)?;
    let (_checksum, rest) = from.split_first_chunk::<4>()?;
    let (literals, steps) = rest.split_at_checked(own)?;
    let mut few = [0; 512];
    let mut many = Vec::new();
    let context = join(context, &mut few, &mut many);
    let mut text = buffer;
    text.clear();
    text.reserve_exact(length.min(2 * (base.len() + literals.len()) + 64));
    DeltaReader { base, context, literals, steps, cursor: 0, text, length }.read()
}

struct DeltaReader<'a> {
    base: &'a [u8],
    context: &'a [u8],
    literals: &'a [u8],
    steps: &'a [u8],
    /// The current position in the base, or behind it in the text.
    cursor: usize,
    text: Vec<u8>,
    /// The length of the whole text.
    length: usize,
}

impl DeltaReader<'_> {
    fn read(mut self) -> Option<Vec<u8>> {
        while self.text.len() < self.length {
            let (step, rest) = self.steps.split_first()?;
            self.steps = rest;
            let source = step >> 6;
            if source == SPECIAL {
                self.special(step & 0x3F)?;
                continue;
            }
            let (mut run, mut copied) = (usize::from(step >> 3 & 7), usize::from(step & 7));
            if run == MORE {
                run = run.checked_add(get(&mut self.steps)?)?;
            }
            if copied == MORE {
                copied = copied.checked_add(get(&mut self.steps)?)?;
            }
            let literals = self.take(run)?;
            self.text.extend_from_slice(literals);
            self.cursor = self.cursor.checked_add(run)?;
            // The last instruction of a text that ends with literals copies nothing.
            let copied = copied.checked_add(SHORTEST)?.min(self.length.checked_sub(self.text.len())?);
            if copied == 0 {
                continue;
            }
            match source {
                ONWARD => self.copy_at_cursor(copied)?,
                ELSEWHERE => {
                    self.cursor = self.cursor.checked_add_signed(get_signed(&mut self.steps)?)?;
                    self.copy_at_cursor(copied)?;
                }
                AGAIN => {
                    let position = get(&mut self.steps)?;
                    match position.checked_sub(self.context.len()) {
                        None => {
                            let end = position.checked_add(copied)?;
                            self.text.extend_from_slice(self.context.get(position..end)?);
                        }
                        Some(position) => self.copy_from_text(position, copied)?,
                    }
                }
                _ => return None,
            }
            self.cursor = self.cursor.checked_add(copied)?;
        }
        (self.text.len() == self.length).then_some(self.text)
    }

    #[inline]
    fn copy_at_cursor(&mut self, length: usize) -> Option<()> {
        match self.cursor.checked_sub(self.base.len()) {
            None => {
                let end = self.cursor.checked_add(length)?;
                self.text.extend_from_slice(self.base.get(self.cursor..end)?);
                Some(())
            }
            Some(position) => self.copy_from_text(position, length),
        }
    }

    fn copy_from_text(&mut self, position: usize, length: usize) -> Option<()> {
        let end = position.checked_add(length).filter(|end| *end <= self.text.len())?;
        self.text.extend_from_within(position..end);
        Some(())
    }

    /// Runs an instruction without a copy.
    fn special(&mut self, instruction: u8) -> Option<()> {
        let before = self.text.len();
        match instruction {
            0..=HEX_MORE => {
                let mut pairs = usize::from(instruction);
                if instruction == HEX_MORE {
                    pairs = pairs.checked_add(get(&mut self.steps)?)?;
                }
                let bytes = self.take(pairs)?;
                put_hex(&mut self.text, bytes);
            }
            PLAIN => {
                let run = get(&mut self.steps)?;
                let bytes = self.take(run)?;
                self.text.extend_from_slice(bytes);
            }
            BASE64 => {
                let groups = get(&mut self.steps)?;
                let bytes = self.take(groups.checked_mul(3)?)?;
                put_base64(&mut self.text, bytes);
            }
            JUMP => {
                let position = get(&mut self.steps)?;
                self.cursor = self.base.len().checked_add(position)?;
                return Some(());
            }
            UUID.. => {
                let bytes = self.take(16)?;
                put_uuid(&mut self.text, bytes.first_chunk()?, usize::from(instruction - UUID));
            }
            _ => return None,
        }
        self.cursor = self.cursor.checked_add(self.text.len() - before)?;
        Some(())
    }
}

impl<'a> DeltaReader<'a> {
    /// Takes the next literals.
    #[inline]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.literals.split_at_checked(count)?;
        self.literals = rest;
        Some(taken)
    }
}

/// Concatenates the pieces, on the stack if they fit.
fn join<'a>(pieces: [&[u8]; 2], few: &'a mut [u8], many: &'a mut Vec<u8>) -> &'a [u8] {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    let Some(mut rest) = few.get_mut(..length) else {
        *many = pieces.concat();
        return many;
    };
    for piece in pieces {
        let (target, after) = rest.split_at_mut(piece.len());
        target.copy_from_slice(piece);
        rest = after;
    }
    &few[..length]
}
