//! `CONNECT`: the request to an HTTP proxy and the parser of its response. Sans-IO.

use http::HeaderValue;
use zeroize::Zeroizing;

/// The maximum size of a proxy's response head.
pub(super) const MAX_HEAD: usize = 16 << 10;

/// Returns the request for a tunnel to a host (in brackets if it is an IPv6 address) and port.
pub(super) fn request(authority: &str, authorization: Option<&HeaderValue>) -> Zeroizing<Vec<u8>> {
    let mut request = Zeroizing::new(Vec::with_capacity(256));
    for part in ["CONNECT ", authority, " HTTP/1.1\r\nHost: ", authority, "\r\n"] {
        request.extend_from_slice(part.as_bytes());
    }
    if let Some(authorization) = authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// The result of parsing what was received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Incomplete.
    Partial,
    /// The status, and where the head ends; the rest belongs to the tunnel.
    Head { status: u16, end: usize },
    /// Not HTTP, or too long.
    Nonsense,
}

/// Parses what was received so far. Only the status line matters.
pub(super) fn answer(bytes: &[u8]) -> Answer {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        // A response that does not start like HTTP is rejected at once.
        let begins = b"HTTP/1.";
        let seen = bytes.len().min(begins.len());
        let sane = bytes.len() < MAX_HEAD && bytes.get(..seen) == begins.get(..seen);
        return if sane { Answer::Partial } else { Answer::Nonsense };
    };
    match status(bytes) {
        Some(status) if end + 4 <= MAX_HEAD => Answer::Head { status, end: end + 4 },
        _ => Answer::Nonsense,
    }
}

/// Parses `HTTP/1.x NNN`, followed by a space or the end of the line.
fn status(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.")?;
    let [b'0' | b'1', b' ', a, b, c, b' ' | b'\r', ..] = rest else { return None };
    [a, b, c]
        .into_iter()
        .try_fold(0, |status, digit| digit.is_ascii_digit().then(|| status * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
