//! `CONNECT`: what is said to an HTTP proxy and how its answer is understood. No I/O.

use http::HeaderValue;
use zeroize::Zeroizing;

/// The most that a proxy may say before the tunnel begins.
pub(super) const MAX_HEAD: usize = 16 << 10;

/// The request for a tunnel to a host (in brackets if it is an IPv6 address) and port.
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

/// What has come so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More has to come.
    Partial,
    /// The status, and where the head ends; what follows belongs to the tunnel.
    Head { status: u16, end: usize },
    /// This is no HTTP, or too much of it.
    Nonsense,
}

/// Reads what has come so far. The status line is all that matters of it.
pub(super) fn answer(bytes: &[u8]) -> Answer {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        // Whoever does not begin like HTTP need not be waited for.
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

/// `HTTP/1.x NNN`, followed by a space or the end of the line.
fn status(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.")?;
    let [b'0' | b'1', b' ', a, b, c, b' ' | b'\r', ..] = rest else { return None };
    [a, b, c]
        .into_iter()
        .try_fold(0, |status, digit| digit.is_ascii_digit().then(|| status * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
