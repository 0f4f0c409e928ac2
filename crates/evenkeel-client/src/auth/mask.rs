//! Headers in logs, without secrets.

use std::borrow::Cow;
use std::fmt;

use http::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};

const MASKED: &str = "<masked>";

/// Masks an `Authorization` value. For the schemes `Bearer`, `Basic` and `Negotiate`, in any case, the scheme is shown
/// and the rest masked; a scheme alone is shown; anything else is masked completely.
pub fn mask_authorization(value: &HeaderValue) -> Cow<'static, str> {
    if value.is_empty() {
        return "".into();
    }
    let Ok(text) = value.to_str() else { return MASKED.into() };
    let (scheme, rest) = match text.split_once(' ') {
        Some(("", _)) => return MASKED.into(),
        Some(parts) => parts,
        None => (text, ""),
    };
    if !["bearer", "basic", "negotiate"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return MASKED.into();
    }
    if rest.is_empty() { scheme.to_owned().into() } else { format!("{scheme} {MASKED}").into() }
}

/// Masks a `Location`: without secrets, truncated.
pub(crate) fn mask_location(location: &str) -> String {
    const LONGEST: usize = 200;
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let bare = location.get(..end).unwrap_or_default();
    let mut shown = match bare.split_once("//") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}//{host}{path}")
        }
        None => bare.to_owned(),
    };
    if shown.len() > LONGEST {
        // A header that is text is ASCII.
        shown.truncate(LONGEST);
        shown.push('…');
    }
    shown
}

/// Shows headers as a map, for logs: `Authorization` and `Proxy-Authorization` as [`mask_authorization`] does; of
/// cookies, `X-Remote-*` and values marked as sensitive only their presence; of a `Location` host and path. Everything
/// else is shown, `Impersonate-*` included: the impersonated user is what such a log is read for.
pub struct DebugHeaders<'a>(pub &'a HeaderMap);

impl fmt::Debug for DebugHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in self.0 {
            if is_authorization(name) {
                map.entry(name, &mask_authorization(value));
            } else if value.is_sensitive() || is_secret(name) {
                map.entry(name, &MASKED);
            } else if name == LOCATION {
                map.entry(name, &value.to_str().map_or_else(|_| MASKED.to_owned(), mask_location));
            } else {
                map.entry(name, value);
            }
        }
        map.finish()
    }
}

/// Returns whether the values of such a header are credentials or equivalent to some.
pub(crate) fn is_secret(name: &HeaderName) -> bool {
    is_authorization(name) || name == COOKIE || name == SET_COOKIE || name.as_str().starts_with("x-remote-")
}

fn is_authorization(name: &HeaderName) -> bool {
    name == AUTHORIZATION || name == PROXY_AUTHORIZATION
}
