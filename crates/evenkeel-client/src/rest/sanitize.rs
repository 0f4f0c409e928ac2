//! Sanitizes untrusted text for errors, logs and terminals.

/// Returns at most `limit` bytes of a text, trimmed. Control characters are escaped; invalid UTF-8 becomes the
/// replacement character.
pub(crate) fn escaped(text: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(cut(text, limit));
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_control(char) { out.extend(char.escape_default()) } else { out.push(char) }
    }
    out
}

/// Returns a text without control characters and escape sequences, of at most `limit` bytes, with an ellipsis if it was
/// longer.
pub(super) fn stripped(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            char if is_control(char) => {}
            char if out.len() + char.len_utf8() > limit => {
                out.push('…');
                break;
            }
            char => out.push(char),
        }
    }
    out
}

/// Skips the rest of an escape sequence.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => skip_control_sequence(chars),
        // An operating system command, such as the title: it ends with a bell or with `ESC \`.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(char) = chars.next() {
                if char == '\u{7}' || char == '\u{9c}' {
                    return;
                }
                if char == '\u{1b}' {
                    chars.next();
                    return;
                }
            }
        }
        _ => {}
    }
}

/// Skips the parameters of a control sequence and its final letter.
fn skip_control_sequence(chars: &mut std::str::Chars<'_>) {
    chars.find(|char| matches!(char, '@'..='~'));
}

/// Control characters, and those that change the direction of text.
fn is_control(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns at most `limit` bytes, without a partial character at the end.
fn cut(text: &[u8], limit: usize) -> &[u8] {
    let is_inside = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (limit.saturating_sub(3)..=limit).rev().find(|at| !is_inside(at)).unwrap_or(limit);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests;
