//! Quoted strings with the escapes of Go.

/// Returns the length of the quoted string at the start of a text, quotes included. A quote after a backslash does not end it, nor
/// does a line end.
pub(super) fn quoted_length(text: &str) -> Option<usize> {
    let mut characters = text.char_indices();
    let (_, quote) = characters.next()?;
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => return None,
            '\\' => _ = characters.next()?,
            _ if character == quote => return Some(at + quote.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Returns the content of a quoted string; `None` if it has an invalid escape.
pub(super) fn unquote(quoted: &str) -> Option<String> {
    let quote = quoted.chars().next()?;
    let content = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..)?;
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        rest = rest.get(escape.len_utf8()..)?;
        let plain = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            '\'' | '"' if escape == quote => escape as u8,
            'x' => number(&mut rest, "", 2, 16)?.try_into().ok()?,
            '0'..='7' => number(&mut rest, escape.encode_utf8(&mut [0; 4]), 2, 8)?.try_into().ok()?,
            'u' | 'U' => {
                let digits = if escape == 'u' { 4 } else { 8 };
                let character = char::from_u32(number(&mut rest, "", digits, 16)?)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        bytes.push(plain);
    }
    // Bytes that are no UTF-8 can be written as escapes only.
    String::from_utf8(bytes).ok()
}

/// Takes this many digits, which follow `first`.
fn number(rest: &mut &str, first: &str, digits: usize, radix: u32) -> Option<u32> {
    let (taken, after) = rest.split_at_checked(digits)?;
    *rest = after;
    let is_number = taken.chars().all(|digit| digit.is_digit(radix));
    is_number.then(|| u32::from_str_radix(&format!("{first}{taken}"), radix).ok()).flatten()
}
