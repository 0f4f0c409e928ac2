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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tunnel_is_asked_for() {
        let value = HeaderValue::from_static("Basic dTpw");
        assert_eq!(
            request("[::1]:443", Some(&value)).as_slice(),
            b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        );
        assert_eq!(request("h:1", None).as_slice(), b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n");
    }

    #[test]
    fn answers_are_understood_however_they_arrive() {
        let whole = b"HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\nrest";
        let end = whole.len() - 4;
        for cut in 0..end {
            assert_eq!(answer(&whole[..cut]), Answer::Partial, "{cut}");
        }
        for cut in end..=whole.len() {
            assert_eq!(answer(&whole[..cut]), Answer::Head { status: 200, end });
        }
        assert_eq!(answer(b"HTTP/1.0 407\r\n\r\n"), Answer::Head { status: 407, end: 16 });
        for odd in ["SSH-2.0-x", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "\r\n\r\n"] {
            assert_eq!(answer(odd.as_bytes()), Answer::Nonsense, "{odd:?}");
        }
    }

    #[test]
    fn answers_have_an_end() {
        let mut long = b"HTTP/1.1 200 ".to_vec();
        long.resize(MAX_HEAD - 1, b'x');
        assert_eq!(answer(&long), Answer::Partial);
        long.push(b'x');
        assert_eq!(answer(&long), Answer::Nonsense);
        long.extend_from_slice(b"\r\n\r\n");
        assert_eq!(answer(&long), Answer::Nonsense);
    }

    proptest! {
        #[test]
        fn no_answer_makes_us_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = answer(&bytes);
            let _ = answer(&[b"HTTP/1.1 ", bytes.as_slice()].concat());
        }
    }
}
