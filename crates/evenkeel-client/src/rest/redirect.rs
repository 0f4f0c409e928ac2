//! Where to go when the server points elsewhere: mostly nowhere.

use http::header::LOCATION;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::auth::mask_location;
use crate::config::{Redirects, ServerUrl};

/// How many times in a row a redirect is followed.
const MOST: u32 = 3;

/// What to do about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// It points nowhere.
    None,
    /// Ask there; this is a path of the same server.
    Follow(Uri),
    /// It points to this place, and we do not go.
    Refuse(String),
}

/// Decides about an answer to a request for `current` that was redirected `followed` times before.
///
/// Credentials go wherever a request goes, so a redirect is followed to the very same server only.
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
        return Redirect::Refuse("a place that is no text".to_owned());
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

/// The path that a location means, if it means one on this server.
fn same_origin(server: &ServerUrl, current: &Uri, location: &str) -> Option<Uri> {
    let location = location.split_once('#').map_or(location, |(location, _)| location);
    let target = if location.starts_with("//") {
        // The scheme stays, the host is stated.
        format!("{}:{location}", server.scheme()).parse::<Uri>().ok()?
    } else if location.starts_with('/') {
        location.parse::<Uri>().ok()?
    } else if let Ok(uri) = location.parse::<Uri>()
        && uri.scheme().is_some()
    {
        uri
    } else {
        // Beside the place that was asked for.
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
    // Somebody else's user name is somebody else's business.
    !authority.as_str().contains('@')
        && host.eq_ignore_ascii_case(server.host())
        && authority.port_u16().unwrap_or(own) == server.port()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn decide(policy: Redirects, method: Method, followed: u32, code: u16, location: &str) -> Redirect {
        let server = ServerUrl::parse("https://api.example:6443/base").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_str(location).unwrap());
        let status = StatusCode::from_u16(code).unwrap();
        redirect(policy, &server, &method, &Uri::from_static("/base/a/b?x=y"), followed, status, &headers)
    }

    fn follow(location: &str) -> Option<String> {
        match decide(Redirects::SameOrigin, Method::GET, 0, 302, location) {
            Redirect::Follow(uri) => Some(uri.to_string()),
            _ => None,
        }
    }

    #[test]
    fn sec_39_redirects_are_refused_unless_wanted() {
        for code in [301, 302, 303, 307, 308] {
            let refused = decide(Redirects::Refuse, Method::GET, 0, code, "/c");
            assert_eq!(refused, Redirect::Refuse("/c".into()));
        }
        for code in [200, 300, 304, 404, 500] {
            assert_eq!(decide(Redirects::SameOrigin, Method::GET, 0, code, "/c"), Redirect::None);
        }
    }

    #[test]
    fn sec_39_only_reads_are_redirected_and_three_times_at_most() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(decide(Redirects::SameOrigin, method, 0, 307, "/c"), Redirect::Refuse("/c".into()));
        }
        for followed in 0..3 {
            assert!(matches!(decide(Redirects::SameOrigin, Method::GET, followed, 302, "/c"), Redirect::Follow(_)));
        }
        assert_eq!(decide(Redirects::SameOrigin, Method::GET, 3, 302, "/c"), Redirect::Refuse("/c".into()));
    }

    #[test]
    fn res_011_a_redirect_stays_on_its_server() {
        for (location, target) in [
            ("/c?d=e#f", "/c?d=e"),
            ("c", "/base/a/c"),
            ("https://api.example:6443/c?d", "/c?d"),
            ("HTTPS://API.example:6443/c", "/c"),
            ("//api.example:6443/c", "/c"),
            ("https://api.example:6443", "/"),
        ] {
            assert_eq!(follow(location).as_deref(), Some(target), "{location}");
        }
        for location in [
            "http://api.example:6443/c",
            "https://api.example/c",
            "https://api.example:6444/c",
            "https://evil.example:6443/c",
            "//evil.example/c",
            "https://api.example:6443@evil.example/c",
            "https://user@api.example:6443/c",
            "ftp://api.example:6443/c",
            "/a/../c",
            "../c",
            "/%2e%2e/c",
        ] {
            assert_eq!(follow(location), None, "{location}");
        }
    }

    #[test]
    fn sec_5_a_location_is_shown_without_its_secrets() {
        let shown = |location: &str| match decide(Redirects::Refuse, Method::GET, 0, 302, location) {
            Redirect::Refuse(shown) => shown,
            other => panic!("{other:?}"),
        };
        assert_eq!(shown("https://user:hunter2@other/path?token=hunter2#x"), "https://other/path");
        assert_eq!(shown("/login?next=hunter2"), "/login");
        assert!(shown(&"a".repeat(9000)).len() < 300);
    }
}
