//! Translates a regular expression from the syntax of Go's `regexp` package (RE2 with Perl flags) into that of
//! `regex-automata`.
//!
//! The two differ: in Go `\d`, `\w`, `\s` and `\b` are ASCII, braces that are no repetition and brackets within a class
//! are literals, classes have no operators, `\Q…\E` and octal escapes exist, and flags, properties and word boundaries of
//! the other syntax do not. What Go refuses is refused here, with Go's message.

mod class;
mod escape;
mod fault;

use class::{is_posix_class, perl_class, push_range, unicode_class};
use escape::character_escape;
pub use fault::PatternFault;
pub(super) use fault::PatternFaultKind;
use fault::PatternFaultKind as Kind;

/// The limit of nested groups.
pub(super) const MAX_NESTING: usize = 200;

/// The limit of a repetition, and of the product of nested ones.
const MAX_REPEAT: u32 = 1000;

/// A class that matches nothing: what a surrogate matches in a text of UTF-8.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// Translates a pattern.
pub(super) fn translate(pattern: &str) -> Result<String, PatternFault> {
    Translator::new(pattern).run()
}

/// A group whose end is not read yet.
#[derive(Clone, Copy, Default)]
struct Group {
    /// Whether there is something that a repetition can repeat.
    repeatable: bool,
    /// The product of nested repetitions of the last item.
    last: u32,
    /// The largest product of any item.
    largest: u32,
}

impl Group {
    fn item(&mut self, product: u32) {
        self.repeatable = true;
        self.last = product;
        self.largest = self.largest.max(product);
    }
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    /// Flags that are set for the rest of the group. A repetition after them belongs to the item before them.
    flags: String,
    groups: Vec<Group>,
    /// The names of captures.
    names: Vec<&'p str>,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str) -> Self {
        Translator {
            pattern,
            rest: pattern,
            out: String::with_capacity(pattern.len() + 16),
            flags: String::new(),
            groups: vec![Group::default()],
            names: Vec::new(),
        }
    }

    fn run(mut self) -> Result<String, PatternFault> {
        // The rest of the pattern from the last repetition, if that was the last token.
        let mut last_repeat: Option<&str> = None;
        while let Some(first) = self.rest.chars().next() {
            let start = self.rest;
            let mut repeat = None;
            match first {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.write("|");
                    self.group().repeatable = false;
                    self.skip(1);
                }
                '^' | '$' | '.' => {
                    self.skip(1);
                    let mut buffer = [0; 4];
                    self.item(first.encode_utf8(&mut buffer));
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repetition(start, last_repeat, &first.to_string(), None)?;
                    repeat = Some(start);
                }
                '{' => match count(start) {
                    None => {
                        self.skip(1);
                        self.literal(first);
                    }
                    Some((min, max, after)) => {
                        self.rest = after;
                        let bound = max.unwrap_or(min);
                        if min > MAX_REPEAT || bound > MAX_REPEAT || min > bound {
                            return Err(PatternFault::new(Kind::RepeatSize, before(start, after)));
                        }
                        let text = match max {
                            Some(max) if max == min => format!("{{{min}}}"),
                            Some(max) => format!("{{{min},{max}}}"),
                            None => format!("{{{min},}}"),
                        };
                        self.repetition(start, last_repeat, &text, Some((min, bound)))?;
                        repeat = Some(start);
                    }
                },
                '\\' => self.escape()?,
                other => {
                    self.skip(other.len_utf8());
                    self.literal(other);
                }
            }
            last_repeat = repeat;
        }
        if self.groups.len() > 1 {
            return Err(PatternFault::new(Kind::MissingParen, self.pattern));
        }
        Ok(self.out)
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Writes a part of the translation, after pending flags.
    fn write(&mut self, text: &str) {
        self.out.push_str(&std::mem::take(&mut self.flags));
        self.out.push_str(text);
    }

    /// Writes something that can be repeated.
    fn item(&mut self, text: &str) {
        self.write(text);
        self.group().item(1);
    }

    fn literal(&mut self, character: char) {
        let text = literal(u32::from(character));
        self.item(&text);
    }

    /// Reads `(`, `(?:`, `(?flags)`, `(?flags:` or `(?P<name>`.
    fn open(&mut self) -> Result<(), PatternFault> {
        if self.rest.starts_with("(?") {
            return self.open_special();
        }
        self.skip(1);
        self.enter("(")
    }

    fn enter(&mut self, text: &str) -> Result<(), PatternFault> {
        if self.groups.len() > MAX_NESTING {
            return Err(PatternFault::new(Kind::Nesting, self.pattern));
        }
        self.write(text);
        self.groups.push(Group::default());
        Ok(())
    }

    fn open_special(&mut self) -> Result<(), PatternFault> {
        let start = self.rest;
        let named = start.strip_prefix("(?P<").or_else(|| start.strip_prefix("(?<"));
        if let Some(named) = named {
            let Some((name, after)) = named.split_once('>') else {
                return Err(PatternFault::new(Kind::NamedCapture, start));
            };
            let valid = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            if !valid || self.names.contains(&name) || self.names.len() >= MAX_REPEAT as usize {
                return Err(PatternFault::new(Kind::NamedCapture, before(start, after)));
            }
            self.names.push(name);
            self.rest = after;
            return self.enter("(");
        }
        self.skip(2);
        let (mut on, mut off) = (String::new(), String::new());
        let (mut negative, mut any) = (false, false);
        loop {
            let flag = self.rest.chars().next();
            self.skip(flag.map_or(0, char::len_utf8));
            match flag {
                Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                    any = true;
                    on.retain(|other| other != flag);
                    off.retain(|other| other != flag);
                    if negative { off.push(flag) } else { on.push(flag) }
                }
                Some('-') if !negative => {
                    negative = true;
                    any = false;
                }
                Some(end @ (':' | ')')) if any || !negative => {
                    if !off.is_empty() {
                        on.push('-');
                    }
                    let flags = format!("(?{on}{off}");
                    if end == ':' {
                        return self.enter(&format!("{flags}:"));
                    }
                    if flags.len() > 2 {
                        self.flags.push_str(&flags);
                        self.flags.push(')');
                    }
                    return Ok(());
                }
                _ => return Err(PatternFault::new(Kind::PerlSyntax, before(start, self.rest))),
            }
        }
    }

    fn close(&mut self) -> Result<(), PatternFault> {
        if self.groups.len() < 2 {
            return Err(PatternFault::new(Kind::UnexpectedParen, self.pattern));
        }
        self.skip(1);
        // Flags end with their group.
        self.flags.clear();
        self.out.push(')');
        let closed = self.groups.pop().unwrap_or_default();
        self.group().item(closed.largest.max(1));
        Ok(())
    }

    /// Writes a repetition, whose operator is read. `bounds` are those of a counted one.
    fn repetition(
        &mut self,
        start: &str,
        last_repeat: Option<&str>,
        operator: &str,
        bounds: Option<(u32, u32)>,
    ) -> Result<(), PatternFault> {
        let lazy = self.rest.starts_with('?');
        if lazy {
            self.skip(1);
        }
        let rest = self.rest;
        if let Some(last) = last_repeat {
            return Err(PatternFault::new(Kind::RepeatOperator, before(last, rest)));
        }
        let group = self.group();
        if !group.repeatable {
            return Err(PatternFault::new(Kind::MissingRepeatArgument, before(start, rest)));
        }
        if let Some((min, max)) = bounds {
            group.last = group.last.saturating_mul(max);
            group.largest = group.largest.max(group.last);
            if min.max(max) >= 2 && group.last > MAX_REPEAT {
                return Err(PatternFault::new(Kind::RepeatSize, before(start, rest)));
            }
        }
        // Pending flags follow the repetition.
        self.out.push_str(operator);
        if lazy {
            self.out.push('?');
        }
        Ok(())
    }

    /// Reads a backslash outside of a class.
    fn escape(&mut self) -> Result<(), PatternFault> {
        let start = self.rest;
        match start.chars().nth(1) {
            Some('A') => self.short("\\A"),
            Some('z') => self.short("\\z"),
            Some('b') => self.short("(?-u:\\b)"),
            Some('B') => self.short("(?-u:\\B)"),
            Some('C') => return Err(PatternFault::new(Kind::Escape, "\\C")),
            Some('Q') => {
                self.skip(2);
                let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                quoted.chars().for_each(|character| self.literal(character));
                self.rest = rest;
            }
            Some(class @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                let text = format!("[{}]", perl_class(class));
                self.short(&text);
            }
            Some('p' | 'P') => {
                let (text, after) = unicode_class(start)?;
                self.rest = after;
                self.item(&text);
            }
            _ => {
                let (code, after) = character_escape(start)?;
                self.rest = after;
                let text = literal(code);
                self.item(&text);
            }
        }
        Ok(())
    }

    /// Writes the translation of an escape of two characters.
    fn short(&mut self, text: &str) {
        self.skip(2);
        self.item(text);
    }

    /// Reads a class in brackets.
    fn class(&mut self) -> Result<(), PatternFault> {
        let start = self.rest;
        let missing = || PatternFault::new(Kind::MissingBracket, start);
        let mut text = String::from("[");
        self.skip(1);
        if self.rest.starts_with('^') {
            self.skip(1);
            text.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let here = self.rest;
            if here.starts_with("[:")
                && let Some(end) = here.get(2..).and_then(|name| name.find(":]"))
            {
                let name = here.get(..end + 4).unwrap_or(here);
                if !is_posix_class(name) {
                    return Err(PatternFault::new(Kind::CharRange, name));
                }
                text.push_str(name);
                self.skip(name.len());
                continue;
            }
            if here.starts_with("\\p") || here.starts_with("\\P") {
                let (class, after) = unicode_class(here)?;
                text.push_str(&class);
                self.rest = after;
                continue;
            }
            if let Some(class @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) =
                here.strip_prefix('\\').and_then(|escape| escape.chars().next())
            {
                text.push_str(&perl_class(class));
                self.skip(2);
                continue;
            }
            let low = self.class_character().transpose()?.ok_or_else(missing)?;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
                self.skip(1);
                high = self.class_character().transpose()?.ok_or_else(missing)?;
                if high < low {
                    return Err(PatternFault::new(Kind::CharRange, before(here, self.rest)));
                }
            }
            push_range(&mut text, low, high);
        }
        self.skip(1);
        text.push(']');
        self.item(&text);
        Ok(())
    }

    /// Reads a character of a class; `None` at the end of the pattern.
    fn class_character(&mut self) -> Option<Result<u32, PatternFault>> {
        let first = self.rest.chars().next()?;
        if first != '\\' {
            self.skip(first.len_utf8());
            return Some(Ok(u32::from(first)));
        }
        Some(character_escape(self.rest).map(|(code, after)| {
            self.rest = after;
            code
        }))
    }
}

/// Returns the part of `start` before its suffix `rest`.
fn before<'a>(start: &'a str, rest: &str) -> &'a str {
    start.get(..start.len().saturating_sub(rest.len())).unwrap_or(start)
}

/// Returns a code point as a literal.
fn literal(code: u32) -> String {
    match char::from_u32(code) {
        Some(plain) if plain.is_ascii_alphanumeric() => plain.to_string(),
        Some(_) => format!("\\x{{{code:X}}}"),
        None => NOTHING.to_owned(),
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}`; anything else is literal. A number that is too large is above the limit.
fn count(start: &str) -> Option<(u32, Option<u32>, &str)> {
    let (min, rest) = number(start.strip_prefix('{')?)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => number(rest).map(|(max, rest)| (Some(max), rest))?,
    };
    Some((min, max, rest.strip_prefix('}')?))
}

/// Reads a decimal number without leading zeros.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
