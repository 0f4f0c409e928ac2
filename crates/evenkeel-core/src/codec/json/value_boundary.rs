//! [`ValueBoundary`]: finds the end of a JSON value that arrives in pieces.

use crate::json::{JsonErrorKind, MAX_DEPTH, plain_length};

/// Tracks one JSON value through any number of pieces by its brackets and quotes only. It limits the nesting; the reader of the
/// value checks the rest of the grammar.
#[derive(Debug, Default)]
pub(super) struct ValueBoundary {
    state: BoundaryState,
    depth: u8,
    /// One bit for each open bracket, the innermost lowest: 1 for an object, 0 for an array.
    objects: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BoundaryState {
    /// Before the first byte.
    #[default]
    Start,
    /// In a number or a word, which ends before the first byte that is not part of it.
    Scalar,
    /// In a string.
    Text,
    /// In a string, after a backslash.
    Escape,
    /// In an object or array, outside of strings.
    Between,
}

impl ValueBoundary {
    /// Processes the next piece. Returns `Some(n)` if the value ends after `n` bytes of it, `None` if it continues.
    pub(super) fn advance(&mut self, piece: &[u8]) -> Result<Option<usize>, (usize, JsonErrorKind)> {
        let mut at = 0;
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            match self.state {
                BoundaryState::Start => {
                    let first = rest.first().copied().unwrap_or_default();
                    match first {
                        b'{' | b'[' => self.open(first).map_err(|kind| (at, kind))?,
                        b'"' => self.state = BoundaryState::Text,
                        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.state = BoundaryState::Scalar,
                        found => {
                            return Err((at, JsonErrorKind::Unexpected { found, expected: "a value" }));
                        }
                    }
                    at += 1;
                }
                BoundaryState::Scalar => {
                    let ends = |byte: &u8| !matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E');
                    return Ok(rest.iter().position(ends).map(|length| at + length));
                }
                BoundaryState::Text => {
                    let length = plain_length(rest);
                    let Some(found) = rest.get(length) else {
                        return Ok(None);
                    };
                    at += length + 1;
                    match found {
                        b'"' if self.depth == 0 => return Ok(Some(at)),
                        b'"' => self.state = BoundaryState::Between,
                        b'\\' => self.state = BoundaryState::Escape,
                        // A control character: the reader of the value reports it.
                        _ => {}
                    }
                }
                BoundaryState::Escape => {
                    self.state = BoundaryState::Text;
                    at += 1;
                }
                BoundaryState::Between => {
                    let found = rest.first().copied().unwrap_or_default();
                    at += 1;
                    match found {
                        b'"' => {
                            // Most strings are short and end in this piece: they need no state change.
                            let length = plain_length(rest.get(1..).unwrap_or_default());
                            at += length;
                            match rest.get(1 + length) {
                                Some(b'"') => at += 1,
                                _ => self.state = BoundaryState::Text,
                            }
                        }
                        b'{' | b'[' => self.open(found).map_err(|kind| (at - 1, kind))?,
                        b'}' | b']' => {
                            self.close(found).map_err(|kind| (at - 1, kind))?;
                            if self.depth == 0 {
                                return Ok(Some(at));
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(None)
    }

    fn open(&mut self, bracket: u8) -> Result<(), JsonErrorKind> {
        if self.depth == MAX_DEPTH {
            return Err(JsonErrorKind::TooDeep { limit: MAX_DEPTH });
        }
        self.state = BoundaryState::Between;
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(bracket == b'{');
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Result<(), JsonErrorKind> {
        let in_object = self.objects & 1 == 1;
        if in_object != (bracket == b'}') {
            let expected = if in_object { "'}'" } else { "']'" };
            return Err(JsonErrorKind::Unexpected { found: bracket, expected });
        }
        self.depth -= 1;
        self.objects >>= 1;
        Ok(())
    }
}
