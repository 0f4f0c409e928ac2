//! URLs, parsed as Go's `url.ParseRequestURI` does.

use std::collections::BTreeMap;

use super::opaque::Opaque;
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::{Key, Value};

pub(super) const LIBRARY: Library = Library {
    since: 0,
    rows: &[
        ("url", url, &[("string_to_url", "(string) -> url")]),
        ("isURL", is_url, &[("is_url_string", "(string) -> bool")]),
        ("getScheme", scheme, &[("url_get_scheme", "url.() -> string")]),
        ("getHost", host, &[("url_get_host", "url.() -> string")]),
        ("getHostname", hostname, &[("url_get_hostname", "url.() -> string")]),
        ("getPort", port, &[("url_get_port", "url.() -> string")]),
        ("getEscapedPath", escaped_path, &[("url_get_escaped_path", "url.() -> string")]),
        ("getQuery", query, &[("url_get_query", "url.() -> map(string, list(string))")]),
    ],
};

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let error = |detail: &str| format!("parse {text:?}: {detail}");
        if text.is_empty() {
            return Err(error("empty url"));
        }
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(error("net/url: invalid control character in URL"));
        }
        let (scheme, rest) = match text.find(':') {
            Some(0) => return Err(error("missing protocol scheme")),
            Some(end) => {
                let (scheme, rest) = text.split_at(end);
                let valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
                if valid { (scheme.to_ascii_lowercase(), rest.get(1..).unwrap_or("")) } else { (String::new(), text) }
            }
            None => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme.is_empty() && !rest.starts_with('/') {
            return Err(error("invalid URI for request"));
        }
        if !rest.starts_with('/') {
            return Err(error("invalid URI for request"));
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
                let end = after.find('/').unwrap_or(after.len());
                after.split_at(end)
            }
            _ => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if host.bytes().any(|byte| matches!(byte, b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'))
        {
            return Err(error("invalid character in host name"));
        }
        let port = if host.starts_with('[') { host.rsplit_once(']').map_or("", |(_, port)| port) } else { host };
        if host.starts_with('[') && !host.contains(']') {
            return Err(error("missing ']' in host"));
        }
        if let Some((_, port)) = port.rsplit_once(':')
            && !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(error(&format!("invalid port {:?} after host", format!(":{port}"))));
        }
        let mut escapes = path.split('%');
        escapes.next();
        for escape in escapes {
            let digits = escape.get(..2).unwrap_or(escape);
            if digits.len() < 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(error(&format!("invalid URL escape {:?}", format!("%{digits}"))));
            }
        }
        Ok(Url {
            text: text.to_owned(),
            scheme,
            host: host.to_owned(),
            path: escape_path(path),
            query: query.to_owned(),
        })
    }

    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
            None => self.host.rsplit_once(':').map_or(&self.host, |(host, _)| host),
        }
    }

    fn port(&self) -> &str {
        let after = if self.host.starts_with('[') {
            self.host.rsplit_once(']').map_or("", |(_, rest)| rest)
        } else {
            &self.host
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }
}

/// Escapes what a path may not contain.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn url<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text)] = args else { return Err(no_overload("url", args)) };
    Url::parse(text)
        .map(|url| Value::opaque(Opaque::Url(url)))
        .map_err(|fault| EvalError::failed(format!("URL parse error during conversion from string: {fault}")))
}

fn is_url<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
        _ => Err(no_overload("isURL", args)),
    }
}

fn part<'a>(function: &str, args: &[Value<'a>], part: impl FnOnce(&Url) -> &str) -> Evaluated<'a> {
    if let [Value::Opaque(value)] = args
        && let Opaque::Url(url) = &**value
    {
        return Ok(Value::text(part(url)));
    }
    Err(no_overload(function, args))
}

fn scheme<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("getScheme", args, |url| &url.scheme)
}

fn host<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("getHost", args, |url| &url.host)
}

fn hostname<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("getHostname", args, Url::hostname)
}

fn port<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("getPort", args, Url::port)
}

fn escaped_path<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    part("getEscapedPath", args, |url| &url.path)
}

fn query<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let Value::String(query) = part("getQuery", args, |url| &url.query)? else {
        return Err(no_overload("getQuery", args));
    };
    let mut values: BTreeMap<Key, Vec<Value<'a>>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
            values.entry(Key::String(name.into())).or_default().push(Value::text(value));
        }
    }
    Ok(Value::map(values.into_iter().map(|(key, values)| (key, Value::list(values))).collect()))
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
