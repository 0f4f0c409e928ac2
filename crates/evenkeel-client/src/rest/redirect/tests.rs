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
fn sec_39_redirects_are_refused_unless_enabled() {
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
