//! The errors of Go's parser.

use std::fmt;

/// Why a pattern is invalid, worded like Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternFault {
    kind: PatternFaultKind,
    /// The offending part of the pattern.
    part: String,
}

/// The errors of Go's parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::regexp) enum PatternFaultKind {
    CharRange,
    Escape,
    NamedCapture,
    PerlSyntax,
    RepeatOperator,
    RepeatSize,
    MissingBracket,
    MissingParen,
    MissingRepeatArgument,
    TrailingBackslash,
    UnexpectedParen,
    Nesting,
    TooLarge,
    Internal,
}

/// The most bytes of a pattern that a message repeats.
const MAX_SHOWN: usize = 1 << 10;

impl PatternFault {
    pub(in crate::regexp) fn new(kind: PatternFaultKind, part: &str) -> Self {
        let end = (0..=part.len().min(MAX_SHOWN)).rev().find(|end| part.is_char_boundary(*end)).unwrap_or(0);
        PatternFault { kind, part: part.get(..end).unwrap_or_default().to_owned() }
    }

    /// Returns the error for patterns that together exceed a limit.
    pub fn too_large(pattern: &str) -> Self {
        PatternFault::new(PatternFaultKind::TooLarge, pattern)
    }

    /// Returns whether the pattern needs too much memory.
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, PatternFaultKind::TooLarge)
    }
}

impl fmt::Display for PatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            PatternFaultKind::CharRange => "invalid character class range",
            PatternFaultKind::Escape => "invalid escape sequence",
            PatternFaultKind::NamedCapture => "invalid named capture",
            PatternFaultKind::PerlSyntax => "invalid or unsupported Perl syntax",
            PatternFaultKind::RepeatOperator => "invalid nested repetition operator",
            PatternFaultKind::RepeatSize => "invalid repeat count",
            PatternFaultKind::MissingBracket => "missing closing ]",
            PatternFaultKind::MissingParen => "missing closing )",
            PatternFaultKind::MissingRepeatArgument => "missing argument to repetition operator",
            PatternFaultKind::TrailingBackslash => "trailing backslash at end of expression",
            PatternFaultKind::UnexpectedParen => "unexpected )",
            PatternFaultKind::Nesting => "expression nests too deeply",
            PatternFaultKind::TooLarge => "expression too large",
            PatternFaultKind::Internal => "regexp/syntax: internal error",
        };
        write!(f, "error parsing regexp: {text}: `{}`", self.part)
    }
}

impl std::error::Error for PatternFault {}
