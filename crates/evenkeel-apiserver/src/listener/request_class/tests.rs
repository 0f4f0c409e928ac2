use super::*;

#[test]
fn apf_001_watches_sessions_and_probes_are_no_requests_in_flight() {
    let class = |method: &str, uri: &str| {
        let (method, uri): (Method, Uri) = (method.parse().unwrap(), uri.parse().unwrap());
        RequestClass::of(&method, &RequestInfo::of(&method, &uri, &http::HeaderMap::new()))
    };
    for uri in ["/api/v1/pods?watch=1", "/api/v1/pods?w%61tch", "/api/v1/watch/pods", "/api/v1/namespaces/a/pods/b/log"]
    {
        assert_eq!(class("GET", uri), RequestClass::LongRunning, "{uri}");
    }
    for uri in ["exec", "attach", "portforward"] {
        assert_eq!(class("POST", &format!("/api/v1/namespaces/a/pods/b/{uri}")), RequestClass::LongRunning, "{uri}");
    }
    assert_eq!(class("GET", "/readyz"), RequestClass::Probe);
    for uri in ["/api/v1/pods", "/version", "/api/v1/pods?watch=false", "/api/v1/namespaces/a/configmaps/log"] {
        assert_eq!(class("GET", uri), RequestClass::Read, "{uri}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        assert_eq!(class(method, "/api/v1/namespaces/a/pods/b"), RequestClass::Write, "{method}");
    }
}

#[test]
fn url_10_the_timeout_of_a_request_shortens_its_deadline() {
    let time = |uri: &str| allotted_time(&uri.parse().unwrap());
    assert_eq!(time("/api/v1/pods"), Duration::from_secs(60));
    assert_eq!(time("/api/v1/pods?timeout=32s"), Duration::from_secs(32));
    assert_eq!(time("/api/v1/pods?timeout=5m"), Duration::from_secs(60), "never longer than the default");
    assert_eq!(time("/api/v1/pods?timeout=0"), Duration::from_secs(60));
    assert_eq!(time("/api/v1/pods?timeout=soon"), Duration::from_secs(60), "refused later");
    assert_eq!(time("/api/v1/pods?watch=1&timeout=1s"), Duration::from_secs(60), "a watch has a timeout of its own");
}
