//! Whether a redirect is followed.

use http::header::LOCATION;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::auth::mask_location;
use crate::config::{Redirects, ServerUrl};

/// The maximal number of redirects of a request.
const MOST: u32 = 3;

/// What to do with a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// It is no redirect.
    None,
    /// Follow it; this is a path of the same server.
    Follow(Uri),
    /// Refuse it; this is the location.
    Refuse(String),
}

/// Decides on a response to a request for `current` that was redirected `followed` times before.
///
/// Every request carries credentials, so a redirect is followed to the same origin only.
pub(crate) fn redirect(
    policy: Redirects,
    server: &ServerUrl,
    method: &Method,
    current: &Uri,
    followed: u32,
    status: StatusCode,
    headers: &HeaderMap,
) -> Redirect {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Redirect::None;
    }
    let Some(location) = headers.get(LOCATION) else { return Redirect::None };
    let Ok(location) = location.to_str() else {
        return Redirect::Refuse("a location that is no text".to_owned());
    };
    if policy == Redirects::SameOrigin
        && *method == Method::GET
        && followed < MOST
        && let Some(target) = same_origin(server, current, location)
    {
        return Redirect::Follow(target);
    }
    Redirect::Refuse(mask_location(location))
}

/// Returns the path of a location, if it is on this server.
fn same_origin(server: &ServerUrl, current: &Uri, location: &str) -> Option<Uri> {
    let location = location.split_once('#').map_or(location, |(location, _)| location);
    let target = if location.starts_with("//") {
        // A location without a scheme.
        format!("{}:{location}", server.scheme()).parse::<Uri>().ok()?
    } else if location.starts_with('/') {
        location.parse::<Uri>().ok()?
    } else if let Ok(uri) = location.parse::<Uri>()
        && uri.scheme().is_some()
    {
        uri
    } else {
        // A relative path.
        let beside = current.path().rsplit_once('/').map_or("", |(beside, _)| beside);
        format!("{beside}/{location}").parse::<Uri>().ok()?
    };
    let parts = target.into_parts();
    let is_same = match (&parts.scheme, &parts.authority) {
        (Some(scheme), Some(authority)) => scheme == server.scheme() && is_same_host(server, scheme, authority),
        (None, None) => true,
        _ => false,
    };
    let path = parts.path_and_query?;
    let climbs = path.path().split('/').any(|segment| {
        let plain = percent_encoding::percent_decode_str(segment).collect::<Vec<u8>>();
        plain == b"." || plain == b".."
    });
    (is_same && !climbs).then(|| Uri::from(path))
}

fn is_same_host(server: &ServerUrl, scheme: &Scheme, authority: &Authority) -> bool {
    let own = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    // A user name in the location is never followed.
    !authority.as_str().contains('@')
        && host.eq_ignore_ascii_case(server.host())
        && authority.port_u16().unwrap_or(own) == server.port()
}

#[cfg(test)]
mod tests;
