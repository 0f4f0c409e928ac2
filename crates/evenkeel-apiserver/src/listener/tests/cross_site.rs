use http::Request;

use crate::listener::cross_site::check;

const JSON: (&str, &str) = ("content-type", "application/json");

fn code(method: &str, has_body: bool, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method).uri("/api/v1/namespaces").header("host", "localhost:8080");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    check(&parts, has_body).map_or_else(|status| status.code, |()| 200)
}

#[test]
fn sec_69_a_body_needs_a_content_type_that_a_page_cannot_send() {
    for media in [
        "text/plain",
        "text/plain;charset=UTF-8",
        "TEXT/Plain ; x",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "text/plain, application/json",
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(code(method, true, &[("content-type", media)]), 415, "{method} {media:?}");
        }
    }
    assert_eq!(code("POST", true, &[]), 415, "a page may send a body without a content type");
    for media in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ] {
        assert_eq!(code("PATCH", true, &[("content-type", media)]), 200, "{media}");
    }
    // kubectl deletes without a body, and execs by a POST without one.
    assert_eq!(code("DELETE", false, &[]), 200);
    assert_eq!(code("POST", false, &[]), 200);
    assert_eq!(code("GET", false, &[]), 200);
}

#[test]
fn sec_69_a_page_of_another_origin_writes_nothing() {
    for origin in ["http://evil.example", "null", "http://localhost:3000", "http://localhost", "localhost:8080", ""] {
        assert_eq!(code("POST", true, &[JSON, ("origin", origin)]), 403, "{origin:?}");
        assert_eq!(code("DELETE", false, &[("origin", origin)]), 403, "{origin:?}");
    }
    for site in ["cross-site", "same-site", "?"] {
        assert_eq!(code("POST", true, &[JSON, ("sec-fetch-site", site)]), 403, "{site}");
    }
    // A page of the server itself, and a program.
    let own = ("origin", "http://LOCALHOST:8080");
    assert_eq!(code("POST", true, &[("content-type", "text/plain"), own]), 200);
    assert_eq!(code("POST", true, &[JSON, ("sec-fetch-site", "same-origin")]), 200);
    assert_eq!(code("POST", true, &[JSON, ("sec-fetch-site", "none")]), 200);
}

#[test]
fn sec_69_a_page_opens_no_session() {
    // A WebSocket is not subject to CORS, and has an Origin.
    let upgrade = ("upgrade", "websocket");
    assert_eq!(code("GET", false, &[upgrade, ("origin", "http://evil.example")]), 403);
    assert_eq!(code("GET", false, &[upgrade, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(code("GET", false, &[upgrade]), 200);
    assert_eq!(code("GET", false, &[upgrade, ("origin", "http://localhost:8080")]), 200);
    // A page may cause a read, and cannot see the response.
    assert_eq!(code("GET", false, &[("origin", "http://evil.example")]), 200);
}
