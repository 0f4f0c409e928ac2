//! From text to template.

use serde_json::Value;

use super::error::JsonPathSyntaxError;
use super::quote::{quoted_length, unquote};
use super::{Dialect, MAX_DEPTH, MAX_LENGTH};

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    /// Text between actions.
    Text(Value),
    /// An action whose results are printed.
    Print(Vec<Step>),
    /// A range over the results of an action.
    Range(Vec<Step>, Vec<Block>),
}

/// A step of an action: from some values to others.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(Box<str>),
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: usize,
    },
    Wildcard,
    Descend,
    Filter(Box<Filter>),
    Union(Vec<Vec<Step>>),
    /// A string, once.
    Text(Value),
    /// A number or a boolean, once for each value.
    Constant(Value),
}

/// A condition for elements of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) left: Vec<Step>,
    /// `None` tests whether the left side exists.
    pub(super) test: Option<(Comparison, Vec<Step>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A word that makes an action the start or the end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    Range,
    End,
}

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Vec<Block>, JsonPathSyntaxError> {
    if text.len() > MAX_LENGTH {
        let length = text.chars().count();
        if length > MAX_LENGTH {
            return Err(JsonPathSyntaxError::TooLong { length, limit: MAX_LENGTH });
        }
    }
    let mut parser = Parser { text, at: 0, base: 0, depth: 0, dialect };
    // The blocks of the template, and above them those of each open range with what it ranges over.
    let mut blocks = Vec::new();
    let mut open: Vec<(Vec<Step>, Vec<Block>)> = Vec::new();
    while !parser.rest().is_empty() {
        let rest = parser.rest();
        let start = parser.at;
        let plain = rest.find('{').unwrap_or(rest.len());
        if plain > 0 {
            blocks.push(Block::Text(Value::from(rest.get(..plain).unwrap_or_default())));
            parser.at += plain;
            continue;
        }
        parser.at += 1;
        match parser.steps(true)? {
            (steps, None) => blocks.push(Block::Print(steps)),
            (steps, Some(Keyword::Range)) => {
                open.push((steps, std::mem::take(&mut blocks)));
                parser.check_depth(open.len())?;
            }
            (_, Some(Keyword::End)) => {
                let (steps, outer) = open.pop().ok_or_else(|| parser.error(start, "not in range, nothing to end"))?;
                let body = std::mem::replace(&mut blocks, outer);
                blocks.push(Block::Range(steps, body));
            }
        }
    }
    // A range that is not closed reaches to the end of the template.
    while let Some((steps, outer)) = open.pop() {
        let body = std::mem::replace(&mut blocks, outer);
        blocks.push(Block::Range(steps, body));
    }
    Ok(blocks)
}

struct Parser<'t> {
    text: &'t str,
    /// The offset of what follows.
    at: usize,
    /// The offset of `text` in the template.
    base: usize,
    depth: usize,
    dialect: Dialect,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes a number of bytes, which end at the boundary of a character.
    fn take(&mut self, length: usize) -> &'t str {
        let taken = self.rest().get(..length).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    #[cold]
    fn error(&self, at: usize, reason: impl Into<String>) -> JsonPathSyntaxError {
        JsonPathSyntaxError::Malformed { reason: reason.into(), position: self.base + at }
    }

    fn check_depth(&self, depth: usize) -> Result<(), JsonPathSyntaxError> {
        if depth > MAX_DEPTH { Err(JsonPathSyntaxError::TooDeep { limit: MAX_DEPTH }) } else { Ok(()) }
    }

    /// Parses a part of the text, which starts at this offset, as steps.
    fn nested(&self, at: usize, text: &str) -> Result<Vec<Step>, JsonPathSyntaxError> {
        self.check_depth(self.depth + 1)?;
        let mut parser = Parser { text, at: 0, base: self.base + at, depth: self.depth + 1, dialect: self.dialect };
        match parser.steps(false)? {
            (steps, None) => Ok(steps),
            (_, Some(Keyword::Range)) => Err(self.error(at, "unrecognized identifier range")),
            (_, Some(Keyword::End)) => Err(self.error(at, "unrecognized identifier end")),
        }
    }

    /// Parses steps up to the closing brace of the action, or else up to the end of the text.
    fn steps(&mut self, in_braces: bool) -> Result<(Vec<Step>, Option<Keyword>), JsonPathSyntaxError> {
        let (mut steps, mut keyword) = (Vec::new(), None);
        loop {
            let (rest, start) = (self.rest(), self.at);
            let Some(first) = rest.chars().next() else {
                return if in_braces { Err(self.error(start, "unclosed action")) } else { Ok((steps, keyword)) };
            };
            match first {
                '}' if in_braces => {
                    self.at += 1;
                    return Ok((steps, keyword));
                }
                '[' if rest.starts_with("[?(") => steps.push(self.filter()?),
                '[' => self.bracket(&mut steps)?,
                '.' if rest.starts_with("..") => {
                    if steps.last() == Some(&Step::Descend) {
                        return Err(self.error(start, "invalid multiple recursive descent"));
                    }
                    self.at += 2;
                    steps.push(Step::Descend);
                    if self.rest().starts_with(is_word) {
                        steps.push(self.field());
                    }
                }
                '.' => {
                    self.at += 1;
                    steps.push(self.field());
                }
                '\r' | '\n' => return Err(self.error(start, "unclosed action")),
                ' ' | '@' | '$' => self.at += 1,
                '"' | '\'' => {
                    let length = quoted_length(rest).ok_or_else(|| self.error(start, "unterminated quoted string"))?;
                    let quoted = self.take(length);
                    let text = unquote(quoted)
                        .ok_or_else(|| self.error(start, format!("unquote string {quoted} error invalid syntax")))?;
                    steps.push(Step::Text(Value::String(text)));
                }
                '+' | '-' | '0'..='9' => steps.push(self.number()?),
                _ if is_word(first) => match self.take(rest.find(is_terminator).unwrap_or(rest.len())) {
                    "true" => steps.push(Step::Constant(Value::Bool(true))),
                    "false" => steps.push(Step::Constant(Value::Bool(false))),
                    "range" if keyword.is_none() => keyword = Some(Keyword::Range),
                    "end" if keyword.is_none() => keyword = Some(Keyword::End),
                    word => return Err(self.error(start, format!("unrecognized identifier {word}"))),
                },
                other => return Err(self.error(start, unrecognized(other))),
            }
        }
    }

    /// Parses a name up to its end; a backslash keeps the next character.
    fn field(&mut self) -> Step {
        let rest = self.rest();
        let mut escaped = false;
        let mut has_escapes = false;
        let end = rest.bytes().position(|byte| {
            let ends = !escaped && is_terminator(byte.into());
            escaped = !escaped && byte == b'\\';
            has_escapes |= escaped;
            ends
        });
        match self.take(end.unwrap_or(rest.len())) {
            "*" => Step::Wildcard,
            name if has_escapes => Step::Field(unescaped(name)),
            name => Step::Field(name.into()),
        }
    }

    fn number(&mut self) -> Result<Step, JsonPathSyntaxError> {
        let (rest, start) = (self.rest(), self.at);
        let sign = usize::from(rest.starts_with(['+', '-']));
        let digits = rest.get(sign..).unwrap_or_default();
        let length = digits.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(digits.len());
        let text = self.take(sign + length);
        let whole = text.parse::<i64>().ok().map(Value::from);
        let number = whole.or_else(|| serde_json::Number::from_f64(text.parse().ok()?).map(Value::Number));
        number.map(Step::Constant).ok_or_else(|| self.error(start, format!("cannot parse number {text}")))
    }

    /// Parses an index, a slice, a key, or a union of them.
    fn bracket(&mut self, steps: &mut Vec<Step>) -> Result<(), JsonPathSyntaxError> {
        let start = self.at;
        let length = self.bracket_length().ok_or_else(|| self.error(start, "unterminated array"))?;
        let inside = self.take(length).get(1..length - 1).unwrap_or_default();
        let members = self.split_union(inside);
        if let [_] = members.as_slice() {
            return self.member(start + 1, inside, steps);
        }
        let union = members.into_iter().map(|(at, text)| {
            let mut steps = Vec::new();
            let trimmed = text.trim_start_matches(' ');
            self.member(start + 1 + at + text.len() - trimmed.len(), trimmed.trim_end_matches(' '), &mut steps)?;
            Ok(steps)
        });
        steps.push(Step::Union(union.collect::<Result<_, _>>()?));
        Ok(())
    }

    /// Returns the length up to the closing bracket. Brackets within the quotes of a literal key do not count.
    fn bracket_length(&self) -> Option<usize> {
        let rest = self.rest();
        let mut at = 1;
        loop {
            let inside = rest.get(at..)?;
            match inside.chars().next()? {
                ']' => return Some(at + 1),
                '\n' => return None,
                '\'' | '"' if self.dialect == Dialect::Literal => at += quoted_length(inside)?,
                other => at += other.len_utf8(),
            }
        }
    }

    /// Splits at commas; returns the offset of each part as well.
    fn split_union(&self, inside: &'t str) -> Vec<(usize, &'t str)> {
        let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(character) = inside.get(at..).and_then(|rest| rest.chars().next()) {
            match character {
                ',' => {
                    parts.push((from, inside.get(from..at).unwrap_or_default()));
                    at += 1;
                    from = at;
                }
                '\'' | '"' if self.dialect == Dialect::Literal => {
                    at += inside.get(at..).and_then(quoted_length).unwrap_or(1);
                }
                other => at += other.len_utf8(),
            }
        }
        parts.push((from, inside.get(from..).unwrap_or_default()));
        parts
    }

    fn member(&self, at: usize, text: &str, steps: &mut Vec<Step>) -> Result<(), JsonPathSyntaxError> {
        let key = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote).filter(|_| text.len() > 1);
        match self.dialect {
            Dialect::Literal => {
                if let Some(key) = key('\'').or_else(|| key('"')) {
                    steps.push(Step::Field(unescaped(key)));
                    return Ok(());
                }
            }
            Dialect::Kubectl => {
                if let Some(key) = key('\'').filter(|key| !key.contains('\'')) {
                    // The key is a path of its own, after a dot.
                    steps.append(&mut self.nested(at, &format!(".{key}"))?);
                    return Ok(());
                }
            }
        }
        steps.push(self.slice(at, text)?);
        Ok(())
    }

    fn slice(&self, at: usize, text: &str) -> Result<Step, JsonPathSyntaxError> {
        if text == "*" {
            return Ok(Step::Slice { start: None, end: None, step: 1 });
        }
        let parts: Vec<&str> = text.split(':').collect();
        let is_number = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() > 3 || !parts.iter().all(is_number) {
            return Err(self.error(at, format!("invalid array index {text}")));
        }
        let number = |index: usize| match parts.get(index) {
            None | Some(&"") => Ok(None),
            Some(part) => {
                let parsed = part.parse::<i64>().map(Some);
                parsed.map_err(|_| self.error(at, format!("array index {part} is not a number")))
            }
        };
        let (start, end, step) = (number(0)?, number(1)?, number(2)?);
        if parts.len() == 1 {
            // As in kubectl, nothing in the brackets is the first element.
            return Ok(Step::Index(start.unwrap_or(0)));
        }
        match usize::try_from(step.unwrap_or(1)) {
            Ok(step @ 1..) => Ok(Step::Slice { start, end, step }),
            _ => Err(self.error(at, "step must be > 0")),
        }
    }

    fn filter(&mut self) -> Result<Step, JsonPathSyntaxError> {
        let start = self.at;
        self.at += "[?(".len();
        let (rest, at) = (self.rest(), self.at);
        let length = filter_length(rest).ok_or_else(|| self.error(start, "unterminated filter"))?;
        let text = self.take(length);
        self.at += 1;
        if !self.rest().starts_with(']') {
            return Err(self.error(self.at, "unclosed array expect ]"));
        }
        self.at += 1;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let Some(split) = text.find(is_operator).filter(|split| *split > 0) else {
            return Ok(Step::Filter(Box::new(Filter { left: self.nested(at, text)?, test: None })));
        };
        let (left, rest) = text.split_at(split);
        let (operator, right) = rest.split_at(rest.find(|c| !is_operator(c)).unwrap_or(rest.len()));
        let comparison = match operator {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            other => return Err(self.error(at + split, format!("unrecognized filter operator {other}"))),
        };
        if right.trim_matches(' ').is_empty() {
            return Err(self.error(at + split, "filter without a right side"));
        }
        let left = self.nested(at, left)?;
        let right = self.nested(at + split + operator.len(), right)?;
        Ok(Step::Filter(Box::new(Filter { left, test: Some((comparison, right)) })))
    }
}

/// Returns the offset of the closing parenthesis, skipping quoted strings.
fn filter_length(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        match rest.chars().next()? {
            ')' => return Some(at),
            '\n' => return None,
            '\'' | '"' => at += quoted_length(rest)?,
            other => at += other.len_utf8(),
        }
    }
}

/// Removes the backslashes that keep the next character.
fn unescaped(text: &str) -> Box<str> {
    let mut characters = text.chars();
    let kept =
        std::iter::from_fn(|| characters.next().and_then(|c| if c == '\\' { characters.next() } else { Some(c) }));
    kept.collect::<String>().into()
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn unrecognized(character: char) -> String {
    let code = u32::from(character);
    if character.is_control() {
        format!("unrecognized character in action: U+{code:04X}")
    } else {
        format!("unrecognized character in action: U+{code:04X} '{character}'")
    }
}
