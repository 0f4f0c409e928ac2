//! [`Redactor`]: what a plugin printed to stderr, or an OIDC issuer returned with an error, without secrets.

use crate::secret::Secret;

const REDACTED: &str = "[redacted]";
/// The shortest value that is searched for. Shorter ones would blank out words.
const SHORTEST_SECRET: usize = 6;
/// The length from which a word with letters and digits is taken for a token.
const TOKEN: usize = 32;

/// Removes from a text: known secrets, PEM blocks, and words that look like tokens.
/// Control characters, which could change the terminal that shows a log, become spaces.
#[derive(Debug)]
pub(super) struct Redactor {
    /// The longest first, so that no part of one stays because another is a part of it.
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Returns a redactor of these secrets. Short ones are not searched for.
    pub(super) fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> =
            secrets.into_iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Redactor { secrets }
    }

    /// Returns the text on one line, without secrets. If its beginning was `cut`, its first word may be a part of a
    /// secret, and is removed.
    pub(super) fn redact(&self, text: &str, cut: bool) -> String {
        let text = if cut { text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest) } else { text };
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.expose(), REDACTED);
        }
        let mut clean = String::with_capacity(text.len());
        let mut in_pem = false;
        for line in text.lines() {
            let is_end = line.contains("-----END ");
            if in_pem || line.contains("-----BEGIN ") {
                if !in_pem {
                    push_word(&mut clean, REDACTED);
                }
                in_pem = !is_end;
                continue;
            }
            for word in line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
                push_word(&mut clean, &without_tokens(word));
            }
        }
        clean
    }
}

fn push_word(text: &mut String, word: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

/// Replaces the parts of a word that look like tokens: long, with letters and digits. Paths and URLs stay, up to a
/// query.
fn without_tokens(word: &str) -> String {
    let is_delimiter = |c: char| {
        matches!(
            c,
            '"' | '\''
                | '`'
                | ','
                | ';'
                | ':'
                | '='
                | '<'
                | '>'
                | '('
                | ')'
                | '{'
                | '}'
                | '['
                | ']'
                | '?'
                | '&'
                | '|'
                | '@'
        )
    };
    let mut clean = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(is_delimiter).unwrap_or(rest.len());
        let (part, more) = rest.split_at(end);
        clean.push_str(if is_token(part) { REDACTED } else { part });
        let mut delimiter = more.chars();
        clean.extend(delimiter.next());
        rest = delimiter.as_str();
    }
    clean
}

fn is_token(part: &str) -> bool {
    let is_path = part.starts_with(['/', '.', '~']);
    let has = |is: fn(&char) -> bool| part.chars().any(|c| is(&c));
    part.len() >= TOKEN && !is_path && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
}
