//! The values of string and bytes literals.

/// Returns the bytes of a quoted literal, without the `b` of a bytes literal.
pub(super) fn unquote(text: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let (raw, text) = match text.strip_prefix(['r', 'R']) {
        Some(text) => (true, text),
        None => (false, text),
    };
    let width = if text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''")) { 3 } else { 1 };
    let body = text.get(width..text.len().saturating_sub(width)).ok_or("unable to unescape string")?;
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if raw || !body.contains('\\') {
        return Ok(body.into_bytes());
    }
    let mut value = Vec::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some(first) = rest.chars().next() {
        if first != '\\' {
            let end = rest.find('\\').unwrap_or(rest.len());
            let (plain, after) = rest.split_at(end);
            value.extend_from_slice(plain.as_bytes());
            rest = after;
            continue;
        }
        let kind = rest.chars().nth(1).ok_or("unable to unescape string, found '\\' as last character")?;
        let (code, length) = match kind {
            'a' => (7, 2),
            'b' => (8, 2),
            'f' => (12, 2),
            'n' => (10, 2),
            'r' => (13, 2),
            't' => (9, 2),
            'v' => (11, 2),
            '\\' | '\'' | '"' | '`' | '?' => (kind as u32, 2),
            'x' | 'X' => (number(rest, 2, 2, 16)?, 4),
            'u' if !is_bytes => (number(rest, 2, 4, 16)?, 6),
            'U' if !is_bytes => (number(rest, 2, 8, 16)?, 10),
            '0'..='3' => (number(rest, 1, 3, 8)?, 4),
            _ => return Err("unable to unescape string"),
        };
        if is_bytes {
            value.push(u8::try_from(code).map_err(|_| "unable to unescape string")?);
        } else {
            let character = char::from_u32(code).ok_or("invalid unicode code point")?;
            value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = rest.get(length..).unwrap_or("");
    }
    Ok(value)
}

fn number(text: &str, from: usize, length: usize, radix: u32) -> Result<u32, &'static str> {
    let digits = text.get(from..from + length).ok_or("unable to unescape string")?;
    u32::from_str_radix(digits, radix).map_err(|_| "unable to unescape string")
}
