//! The text of strangers, made fit to be shown in errors, in logs and on terminals.

/// At most `limit` bytes of a text, without the space around it. Whatever a terminal would obey rather than show is escaped;
/// what is no UTF-8 becomes the replacement character.
pub(super) fn escaped(text: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(cut(text, limit));
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_obeyed(char) { out.extend(char.escape_default()) } else { out.push(char) }
    }
    out
}

/// A text without what a terminal would obey rather than show: control characters, and escape sequences as a whole. It has
/// at most `limit` bytes, and an ellipsis if there was more.
pub(super) fn stripped(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            char if is_obeyed(char) => {}
            char if out.len() + char.len_utf8() > limit => {
                out.push('…');
                break;
            }
            char => out.push(char),
        }
    }
    out
}

/// Passes what follows an escape character.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => skip_control_sequence(chars),
        // A command to the terminal, such as its title: it goes on to a bell or to `ESC \`.
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

/// Passes the parameters of a control sequence and the letter that ends it.
fn skip_control_sequence(chars: &mut std::str::Chars<'_>) {
    chars.find(|char| matches!(char, '@'..='~'));
}

/// Control characters, and those that turn the direction of the text around them.
fn is_obeyed(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most `limit` bytes, and no half of a character at the end of them.
fn cut(text: &[u8], limit: usize) -> &[u8] {
    let is_inside = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (limit.saturating_sub(3)..=limit).rev().find(|at| !is_inside(at)).unwrap_or(limit);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests;
