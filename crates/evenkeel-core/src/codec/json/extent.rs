//! [`Extent`]: where a JSON value ends, told while it is still coming in.

use crate::json::{JsonFault, MAX_DEPTH, plain_length};

/// Follows one JSON value through any number of pieces, looking at brackets and quotes only. Whether the value is
/// well-formed otherwise is found out by whoever reads it; that it is bounded is found out here.
#[derive(Debug, Default)]
pub(super) struct Extent {
    state: State,
    depth: u8,
    /// One bit for each open bracket, the innermost lowest: 1 for an object, 0 for an array.
    objects: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first byte.
    #[default]
    Start,
    /// In a number or a word, which ends before the first byte that cannot belong to it.
    Scalar,
    /// In a string.
    Text,
    /// In a string, behind a backslash.
    Escape,
    /// In an object or array, outside of strings.
    Between,
}

impl Extent {
    /// Goes through the next piece. `Some(n)` when the value ends after `n` bytes of it, `None` when it goes on.
    pub(super) fn advance(&mut self, piece: &[u8]) -> Result<Option<usize>, (usize, JsonFault)> {
        let mut at = 0;
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            match self.state {
                State::Start => {
                    let first = rest.first().copied().unwrap_or_default();
                    match first {
                        b'{' | b'[' => self.open(first).map_err(|fault| (at, fault))?,
                        b'"' => self.state = State::Text,
                        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.state = State::Scalar,
                        found => {
                            return Err((at, JsonFault::Unexpected { found, expected: "a value" }));
                        }
                    }
                    at += 1;
                }
                State::Scalar => {
                    let ends = |byte: &u8| !matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E');
                    return Ok(rest.iter().position(ends).map(|length| at + length));
                }
                State::Text => {
                    let length = plain_length(rest);
                    let Some(found) = rest.get(length) else {
                        return Ok(None);
                    };
                    at += length + 1;
                    match found {
                        b'"' if self.depth == 0 => return Ok(Some(at)),
                        b'"' => self.state = State::Between,
                        b'\\' => self.state = State::Escape,
                        // A control character, for the reader of the value to complain about.
                        _ => {}
                    }
                }
                State::Escape => {
                    self.state = State::Text;
                    at += 1;
                }
                State::Between => {
                    let found = rest.first().copied().unwrap_or_default();
                    at += 1;
                    match found {
                        b'"' => {
                            // Most strings are short and end in this piece: those need no change of state.
                            let length = plain_length(rest.get(1..).unwrap_or_default());
                            at += length;
                            match rest.get(1 + length) {
                                Some(b'"') => at += 1,
                                _ => self.state = State::Text,
                            }
                        }
                        b'{' | b'[' => self.open(found).map_err(|fault| (at - 1, fault))?,
                        b'}' | b']' => {
                            self.close(found).map_err(|fault| (at - 1, fault))?;
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

    fn open(&mut self, bracket: u8) -> Result<(), JsonFault> {
        if self.depth == MAX_DEPTH {
            return Err(JsonFault::TooDeep { limit: MAX_DEPTH });
        }
        self.state = State::Between;
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(bracket == b'{');
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Result<(), JsonFault> {
        let in_object = self.objects & 1 == 1;
        if in_object != (bracket == b'}') {
            let expected = if in_object { "'}'" } else { "']'" };
            return Err(JsonFault::Unexpected { found: bracket, expected });
        }
        self.depth -= 1;
        self.objects >>= 1;
        Ok(())
    }
}
