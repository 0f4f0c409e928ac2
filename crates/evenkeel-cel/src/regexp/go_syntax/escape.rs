//! Escapes of single characters.

use super::before;
use super::fault::PatternFault;
use super::fault::PatternFaultKind as Kind;

/// Reads the escape of one character. Returns its code and the rest.
pub(super) fn character_escape(start: &str) -> Result<(u32, &str), PatternFault> {
    let mut rest = start.get(1..).unwrap_or_default();
    let mut next = || {
        let character = rest.chars().next()?;
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        Some(character)
    };
    let Some(first) = next() else {
        return Err(PatternFault::new(Kind::TrailingBackslash, ""));
    };
    let code = match first {
        '0'..='7' => {
            let mut code = first.to_digit(8).unwrap_or_default();
            let mut digits = 1;
            while digits < 3
                && let Some(digit) = rest.chars().next().and_then(|digit| digit.to_digit(8))
            {
                rest = rest.get(1..).unwrap_or_default();
                code = code * 8 + digit;
                digits += 1;
            }
            // A single digit other than zero is a reference to a group, which does not exist.
            (first == '0' || digits > 1).then_some(code)
        }
        'x' => match next() {
            Some('{') => braced_hex(&mut next),
            Some(high) => {
                let low = next().and_then(|low| low.to_digit(16));
                high.to_digit(16).zip(low).map(|(high, low)| high * 16 + low)
            }
            None => None,
        },
        'a' => Some(0x07),
        'f' => Some(0x0C),
        'n' => Some(0x0A),
        'r' => Some(0x0D),
        't' => Some(0x09),
        'v' => Some(0x0B),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(u32::from(other)),
        _ => None,
    };
    match code {
        Some(code) => Ok((code, rest)),
        None => Err(PatternFault::new(Kind::Escape, before(start, rest))),
    }
}

/// Reads hexadecimal digits up to a closing brace.
fn braced_hex(next: &mut impl FnMut() -> Option<char>) -> Option<u32> {
    let mut code = None;
    loop {
        match next()? {
            '}' => return code,
            digit => {
                let larger = code.unwrap_or(0) * 16 + digit.to_digit(16)?;
                code = Some(larger).filter(|code| *code <= u32::from(char::MAX));
                code?;
            }
        }
    }
}
