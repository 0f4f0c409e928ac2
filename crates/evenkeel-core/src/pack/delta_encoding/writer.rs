//! [`DeltaWriter`]: encodes texts.

use super::alignment::{common, realign, resume};
use super::literals::LiteralRun;
use super::{
    AGAIN, BASE64, DeltaBase, ELSEWHERE, HEX_MORE, JUMP, MORE, ONWARD, PLAIN, SHORTEST, SPECIAL, UUID, WordIndex,
    checksum, put, put_signed, word_at,
};

/// A difference shorter than this is a literal: no copy is searched for it.
const SHORT_DIFFERENCE: usize = 8;
/// Literals and, against a dictionary, copies are indexed at every so many bytes.
const OWN_STEP: usize = 2;
/// The number of bytes of a run of literals that are indexed.
const INDEXED_LITERALS: usize = 256;

/// The source of a copy.
#[derive(Clone, Copy)]
enum CopySource {
    /// The base, at a position.
    Base(usize),
    /// The context and the preceding text, at a position.
    Own(usize),
}

/// A possible copy.
#[derive(Clone, Copy)]
struct CopyMatch {
    /// Its start in the window.
    start: usize,
    source: CopySource,
    length: usize,
}

/// The current position in a source. After a literal or a copy it advances by as many bytes.
#[derive(Clone, Copy)]
enum Cursor {
    Base(usize),
    /// In the window: the text before the position that is encoded.
    Text(usize),
}

impl Cursor {
    fn advance(self, length: usize) -> Self {
        match self {
            Cursor::Base(position) => Cursor::Base(position + length),
            Cursor::Text(position) => Cursor::Text(position + length),
        }
    }

    /// Returns whether what follows is similar: a sibling, or an earlier element of a list, but not a dictionary.
    fn is_similar(self, base: DeltaBase<'_>) -> bool {
        !base.is_dense() || matches!(self, Cursor::Text(_))
    }
}

/// Encodes texts. It has no state but reusable buffers.
#[derive(Default)]
pub(in crate::pack) struct DeltaWriter {
    /// The context, then the text.
    window: Vec<u8>,
    /// The length of the context.
    start: usize,
    literals: Vec<u8>,
    steps: Vec<u8>,
    /// The index of the context and of the preceding text.
    own: WordIndex,
}

impl DeltaWriter {
    /// Appends the encoding of a text to `out`.
    pub(in crate::pack) fn write(&mut self, base: DeltaBase<'_>, context: &[u8], text: &[u8], out: &mut Vec<u8>) {
        self.window.clear();
        self.window.extend_from_slice(context);
        self.window.extend_from_slice(text);
        self.start = context.len();
        self.literals.clear();
        self.steps.clear();
        self.own.reset(if base.is_dense() { 512 + text.len() / OWN_STEP } else { 512 });
        self.own.add(&self.window, 0..context.len(), OWN_STEP);
        let (mut at, mut cursor) = (context.len(), Cursor::Base(0));
        while at < self.window.len() {
            if cursor.is_similar(base) {
                (at, cursor) = self.copy_similar(base, at, cursor);
            }
            let found = self.find(base, at, cursor);
            let end = found.map_or(self.window.len(), |found| found.start);
            let copied = found.map_or(0, |found| found.length);
            let (literals, overrun) = self.take(at, end, copied, cursor.is_similar(base));
            let Some(found) = found else {
                // The rest is literals; the copy of the last instruction is empty.
                if literals > 0 {
                    self.step(ONWARD, literals, SHORTEST);
                }
                break;
            };
            cursor = self.copy(base, cursor.advance(end + overrun - at), literals, found.without_first(overrun));
            let next = end + found.length;
            if !cursor.is_similar(base) {
                self.own.add(&self.window, end..next, OWN_STEP);
            }
            at = next;
        }
        put(out, text.len());
        put(out, self.literals.len());
        out.extend_from_slice(&checksum(text).to_le_bytes());
        out.extend_from_slice(&self.literals);
        out.extend_from_slice(&self.steps);
    }

    /// Encodes what follows as far as it differs from a similar part by short values of the same length: the inner loop for
    /// siblings. Returns the positions after it.
    fn copy_similar(&mut self, base: DeltaBase<'_>, mut at: usize, mut cursor: Cursor) -> (usize, Cursor) {
        loop {
            let rest = self.window.get(at..).unwrap_or_default();
            let onward = self.ahead(base, cursor, at);
            let difference = match resume(rest, onward) {
                Some(difference) if difference < SHORT_DIFFERENCE => difference,
                _ => return (at, cursor),
            };
            let length =
                common(rest.get(difference..).unwrap_or_default(), onward.get(difference..).unwrap_or_default());
            self.literals.extend_from_slice(rest.get(..difference).unwrap_or_default());
            self.step(ONWARD, difference, length);
            at += difference + length;
            cursor = cursor.advance(difference + length);
        }
    }

    /// Adds the instructions of a copy, and returns the position after it.
    fn copy(&mut self, base: DeltaBase<'_>, cursor: Cursor, mut literals: usize, found: CopyMatch) -> Cursor {
        let length = found.length;
        match (found.source, cursor) {
            (CopySource::Base(position), Cursor::Base(current)) if position == current => {
                self.step(ONWARD, literals, length);
            }
            (CopySource::Own(position), Cursor::Text(current)) if position == current => {
                self.step(ONWARD, literals, length);
            }
            (CopySource::Base(position), _) => {
                let current = match cursor {
                    Cursor::Base(current) => current,
                    Cursor::Text(current) => base.bytes.len() + current - self.start,
                };
                self.step(ELSEWHERE, literals, length);
                put_signed(&mut self.steps, position as i64 - current as i64);
                return Cursor::Base(position + length);
            }
            (CopySource::Own(position), _) => {
                // A copy from the context replaces a value; one from the text may be the start of a similar part.
                let next = self.window.get(found.start + length..).unwrap_or_default();
                let after = self.ahead(base, cursor.advance(length), found.start + length);
                let continues = after.first_chunk::<SHORTEST>() == next.first_chunk::<SHORTEST>();
                if !base.is_dense() || position < self.start || continues || next.len() < SHORTEST {
                    self.step(AGAIN, literals, length);
                    put(&mut self.steps, position);
                } else {
                    if literals > 0 {
                        self.special(PLAIN);
                        put(&mut self.steps, std::mem::take(&mut literals));
                    }
                    self.special(JUMP);
                    put(&mut self.steps, position - self.start);
                    self.step(ONWARD, 0, length);
                    return Cursor::Text(position + length);
                }
            }
        }
        cursor.advance(length)
    }

    /// Returns the bytes of the source from a position on. `at` is the position in the window that is encoded.
    fn ahead<'a>(&'a self, base: DeltaBase<'a>, cursor: Cursor, at: usize) -> &'a [u8] {
        match cursor {
            Cursor::Base(position) => base.bytes.get(position..),
            Cursor::Text(position) => self.window.get(position..at),
        }
        .unwrap_or_default()
    }

    /// Finds the next copy at `at` or after it.
    fn find(&mut self, base: DeltaBase<'_>, at: usize, cursor: Cursor) -> Option<CopyMatch> {
        let rest = self.window.get(at..)?;
        let onward = self.ahead(base, cursor, at);
        let at_cursor = |skipped: usize| match cursor.advance(skipped) {
            Cursor::Base(position) => CopySource::Base(position),
            Cursor::Text(position) => CopySource::Own(position),
        };
        // The number of bytes of the text and of the base after which both are equal again.
        let mut resumed = resume(rest, onward).map(|skipped| (skipped, skipped));
        if cursor.is_similar(base) {
            resumed = resumed.or_else(|| realign(rest, onward));
        }
        match resumed {
            Some((skipped, ahead)) if skipped < SHORT_DIFFERENCE => {
                return Some(self.matched(base, at, at + skipped, at_cursor(ahead)));
            }
            Some((skipped, ahead)) if cursor.is_similar(base) => {
                // The value of a similar part: a literal, unless the context has it.
                let known = (0..OWN_STEP).find_map(|first| Some((first, self.find_own(word_at(rest, first)?, at)?)));
                return Some(match known {
                    Some((first, position)) => self.matched(base, at, at + first, CopySource::Own(position)),
                    None => self.matched(base, at, at + skipped, at_cursor(ahead)),
                });
            }
            _ => {}
        }
        let until = resumed.map_or(usize::MAX, |(skipped, _)| skipped);
        let mut skipped = 0;
        loop {
            let rest = self.window.get(at..)?;
            let Some(word) = word_at(rest, skipped).filter(|_| skipped < until) else { break };
            let place = at + skipped;
            if resumed.is_none() && word_at(self.ahead(base, cursor, at), skipped) == Some(word) {
                return Some(self.matched(base, at, place, at_cursor(skipped)));
            }
            let known = base.find(word).map(|position| self.matched(base, at, place, CopySource::Base(position)));
            let own = self.find_own(word, place);
            let own = own.map(|position| self.matched(base, at, place, CopySource::Own(position)));
            let longer = match (known, own) {
                (Some(known), Some(own)) => Some(if own.length >= known.length { own } else { known }),
                (known, own) => known.or(own),
            };
            if let Some(longer) = longer.filter(|found| found.length >= SHORTEST) {
                return Some(longer);
            }
            if base.is_dense() {
                self.own.add(&self.window, place..place + 1, 1);
            }
            // After a long search without a match the steps grow. A match extends backwards over skipped bytes.
            skipped += 1 + skipped / 32;
        }
        resumed.map(|(skipped, ahead)| self.matched(base, at, at + skipped, at_cursor(ahead)))
    }

    /// Returns the position of a word in the context or in the text before `at`.
    fn find_own(&self, word: u64, at: usize) -> Option<usize> {
        let position = self.own.find(&self.window, word)?;
        let end = if position < self.start { self.start } else { at };
        (position + size_of::<u64>() <= end).then_some(position)
    }

    /// Extends a match in both directions, but not before `at`.
    fn matched(&self, base: DeltaBase<'_>, at: usize, place: usize, source: CopySource) -> CopyMatch {
        let (from, first, position) = match source {
            CopySource::Base(position) => (base.bytes, 0, position),
            CopySource::Own(position) if position < self.start => (self.window.as_slice(), 0, position),
            CopySource::Own(position) => (self.window.as_slice(), self.start, position),
        };
        let behind = self.window.get(at..place).unwrap_or_default().iter().rev();
        let before = behind.zip(from.get(first..position).unwrap_or_default().iter().rev());
        let back = before.take_while(|(mine, theirs)| mine == theirs).count();
        let start = place - back;
        // A copy is from the context or from the text, and from what precedes it.
        let end = match source {
            CopySource::Base(_) => from.len(),
            CopySource::Own(_) if position < self.start => self.start,
            CopySource::Own(_) => start,
        };
        let ahead = common(self.window.get(place..).unwrap_or_default(), from.get(position..end).unwrap_or_default());
        let source = match source {
            CopySource::Base(position) => CopySource::Base(position - back),
            CopySource::Own(position) => CopySource::Own(position - back),
        };
        CopyMatch { start, source, length: back + ahead }
    }

    /// Adds a run of literals that a copy of `copied` bytes follows. Returns how many literals the next instruction has to emit, and
    /// how many bytes of the copy the run includes: a uid may end like that of the base.
    fn take(&mut self, at: usize, end: usize, copied: usize, is_similar: bool) -> (usize, usize) {
        let mut plain = at;
        let mut position = at;
        let most = end + copied.saturating_sub(SHORTEST);
        while let Some(run) = LiteralRun::next(&self.window, at, position..end, most) {
            let (from, to) = (run.range().start, run.range().end);
            if from > plain {
                self.special(PLAIN);
                put(&mut self.steps, from - plain);
                self.literals.extend_from_slice(self.window.get(plain..from).unwrap_or_default());
            }
            match &run {
                LiteralRun::Hex(_) => {
                    let pairs = (to - from) / 2;
                    self.special(pairs.min(usize::from(HEX_MORE)) as u8);
                    if pairs >= usize::from(HEX_MORE) {
                        put(&mut self.steps, pairs - usize::from(HEX_MORE));
                    }
                }
                LiteralRun::Uuid { skipped, .. } => self.special(UUID + *skipped as u8),
                LiteralRun::Base64(_) => {
                    self.special(BASE64);
                    put(&mut self.steps, (to - from) / 4);
                }
            }
            run.write(&self.window, &mut self.literals);
            (plain, position) = (to, to);
        }
        // What is the text form of bytes is random, and not repeated by a sibling.
        let indexed = if is_similar { plain.min(end) } else { at };
        self.own.add(&self.window, indexed..end.min(indexed + INDEXED_LITERALS), OWN_STEP);
        let rest = self.window.get(plain..end).unwrap_or_default();
        self.literals.extend_from_slice(rest);
        (rest.len(), plain.saturating_sub(end))
    }

    fn special(&mut self, instruction: u8) {
        self.steps.push(SPECIAL << 6 | instruction);
    }

    fn step(&mut self, source: u8, literals: usize, length: usize) {
        let length = length - SHORTEST.min(length);
        self.steps.push(source << 6 | (literals.min(MORE) as u8) << 3 | length.min(MORE) as u8);
        if literals >= MORE {
            put(&mut self.steps, literals - MORE);
        }
        if length >= MORE {
            put(&mut self.steps, length - MORE);
        }
    }
}

impl CopyMatch {
    /// Returns the copy without its first bytes.
    fn without_first(self, bytes: usize) -> Self {
        let source = match self.source {
            CopySource::Base(position) => CopySource::Base(position + bytes),
            CopySource::Own(position) => CopySource::Own(position + bytes),
        };
        CopyMatch { start: self.start + bytes, source, length: self.length - bytes }
    }
}
