//! The server's warnings: `Warning` headers and their handlers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{HeaderMap, WARNING};

use super::sanitize::stripped;

/// The maximal length of a warning in bytes.
const LONGEST: usize = 2048;

/// How many warnings [`WriteWarnings`] keeps for deduplication.
const REMEMBERED: usize = 256;

/// The code of API servers' warnings.
const MISCELLANEOUS: u16 = 299;

/// A warning of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The code; API servers send 299.
    pub code: u16,
    /// The agent that warns.
    pub agent: String,
    /// The warning, without control characters and escape sequences, and of at most 2 KiB.
    pub text: String,
}

/// Receives the server's warnings.
pub trait WarningHandler: fmt::Debug + Send + Sync {
    /// Called once per warning, before the caller receives the response. Must not block.
    fn warning(&self, warning: &Warning);
}

/// Logs warnings with `tracing` at warn level. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWarnings;

/// Ignores warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoreWarnings;

/// Writes warnings as lines, such as `Warning: policy/v1beta1 PodDisruptionBudget is deprecated`.
///
/// A warning that cannot be written is not counted.
pub struct WriteWarnings {
    is_coloured: bool,
    is_once: bool,
    state: Mutex<Written>,
}

struct Written {
    to: Box<dyn Write + Send>,
    count: usize,
    /// The last warnings, newest at the end.
    seen: VecDeque<Box<str>>,
}

impl WarningHandler for LogWarnings {
    fn warning(&self, warning: &Warning) {
        if is_displayed(warning) {
            tracing::warn!(agent = warning.agent, "server warning: {}", warning.text);
        }
    }
}

impl WarningHandler for IgnoreWarnings {
    fn warning(&self, _: &Warning) {}
}

impl WriteWarnings {
    /// Writes every warning to `to`, without colours.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        let state = Written { to: Box::new(to), count: 0, seen: VecDeque::new() };
        WriteWarnings { is_coloured: false, is_once: false, state: Mutex::new(state) }
    }

    /// Sets whether the word `Warning` is bold yellow, for terminals.
    pub fn coloured(mut self, is_coloured: bool) -> Self {
        self.is_coloured = is_coloured;
        self
    }

    /// Sets whether a warning is written once only. The last 256 are kept; an older one is written again.
    pub fn deduplicated(mut self, is_once: bool) -> Self {
        self.is_once = is_once;
        self
    }

    /// Returns how many warnings have been written.
    pub fn count(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}

impl WarningHandler for WriteWarnings {
    fn warning(&self, warning: &Warning) {
        if !is_displayed(warning) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_once && !state.is_new(&warning.text) {
            return;
        }
        let prefix = if self.is_coloured { "\u{1b}[33;1mWarning:\u{1b}[0m" } else { "Warning:" };
        match writeln!(state.to, "{prefix} {}", warning.text) {
            Ok(()) => state.count += 1,
            Err(error) => tracing::debug!(%error, "writing a server warning failed"),
        }
    }
}

impl Written {
    fn is_new(&mut self, text: &str) -> bool {
        let known = self.seen.iter().position(|seen| **seen == *text).and_then(|at| self.seen.remove(at));
        let is_new = known.is_none();
        if is_new && self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(known.unwrap_or_else(|| text.into()));
        is_new
    }
}

impl fmt::Debug for WriteWarnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteWarnings")
            .field("coloured", &self.is_coloured)
            .field("deduplicated", &self.is_once)
            .finish_non_exhaustive()
    }
}

/// Returns whether a warning is from an API server and has a text.
fn is_displayed(warning: &Warning) -> bool {
    warning.code == MISCELLANEOUS && !warning.text.is_empty()
}

/// The handler of clients and requests without one.
static DEFAULT: RwLock<Option<Arc<dyn WarningHandler>>> = RwLock::new(None);

/// Sets the process-wide handler of clients and requests without one; `None` restores [`LogWarnings`].
pub fn set_default_warning_handler(handler: Option<Arc<dyn WarningHandler>>) {
    *DEFAULT.write().unwrap_or_else(PoisonError::into_inner) = handler;
}

/// Delivers the warnings in these headers to the first handler that is set, or else to the process-wide one.
pub(super) fn deliver(headers: &HeaderMap, handlers: [Option<&Arc<dyn WarningHandler>>; 2]) {
    if !headers.contains_key(WARNING) {
        return;
    }
    let chosen = handlers.into_iter().flatten().next().cloned();
    let handler = chosen.or_else(|| DEFAULT.read().unwrap_or_else(PoisonError::into_inner).clone());
    for warning in parse(headers) {
        match &handler {
            Some(handler) => handler.warning(&warning),
            None => LogWarnings.warning(&warning),
        }
    }
}

/// Parses the warnings in these headers. A malformed one ends its header, not the others.
pub(super) fn parse(headers: &HeaderMap) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for value in headers.get_all(WARNING) {
        let mut rest = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
        while let Some((warning, behind)) = parse_one(rest) {
            warnings.push(warning);
            rest = behind;
        }
    }
    warnings
}

/// Parses the first warning of a header, `NNN agent "text" ["date"]`. Returns it with the rest after its comma.
fn parse_one(header: &str) -> Option<(Warning, &str)> {
    let mut parts = header.trim().splitn(3, ' ');
    let (code, agent, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    if !is_code || agent.is_empty() || agent.contains(char::is_control) {
        return None;
    }
    let (text, rest) = quoted(rest)?;
    let mut rest = rest.trim_start();
    if rest.starts_with('"') {
        // The date is ignored.
        rest = quoted(rest)?.1.trim_start();
    }
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(',')? };
    let text = stripped(&decode_words(&text), LONGEST);
    Some((Warning { code: code.parse().ok()?, agent: stripped(agent, LONGEST), text }, rest))
}

/// Parses a quoted string. Returns its content with the rest of the text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut contents = String::new();
    let mut chars = inside.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((contents, inside.get(at + 1..)?)),
            (_, '\\') => contents.push(chars.next()?.1),
            (_, char) => contents.push(char),
        }
    }
}

/// Decodes the encoded words of RFC 2047, `=?utf-8?B?…?=`, which older servers send. Other text is unchanged.
fn decode_words(text: &str) -> Cow<'_, str> {
    if !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_behind_word = false;
    while let Some(start) = rest.find("=?") {
        let (before, from) = rest.split_at(start);
        match decode_word(from) {
            Some((word, behind)) => {
                // White space between two encoded words is a separator.
                if !(is_behind_word && before.trim().is_empty()) {
                    out.push_str(before);
                }
                out.push_str(&word);
                rest = behind;
                is_behind_word = true;
            }
            None => {
                out.push_str(before);
                out.push_str("=?");
                rest = from.get(2..).unwrap_or_default();
                is_behind_word = false;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Decodes the encoded word at the start of a text. Returns it with the rest.
fn decode_word(text: &str) -> Option<(String, &str)> {
    let (charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let (word, behind) = rest.split_once("?=")?;
    let bytes = match encoding {
        "B" | "b" => BASE64.decode(word).ok()?,
        "Q" | "q" => {
            let escaped = word.replace('%', "%25").replace('=', "%").replace('_', " ");
            percent_encoding::percent_decode_str(&escaped).collect()
        }
        _ => return None,
    };
    let word = match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "us-ascii" => String::from_utf8(bytes).ok()?,
        "iso-8859-1" => bytes.into_iter().map(char::from).collect(),
        _ => return None,
    };
    Some((word, behind))
}

#[cfg(test)]
mod tests;
