use serde_json::{Value, json};

use super::*;
use crate::discovery::tests::body;
use crate::registry::tests::{custom, with_foo};

fn at(method: &str, target: &str) -> Result<Route, Refusal> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    route(&with_foo(), &method, path, &Query::parse(Some(query)))
}

fn resource(method: &str, target: &str) -> ResourceRoute {
    match at(method, target) {
        Ok(Route::Resource(route)) => route,
        other => panic!("{method} {target}: {other:?}"),
    }
}

/// The parts of a route in one line: verb, plural, namespace, name, sub-resource.
fn line(method: &str, target: &str) -> String {
    let route = resource(method, target);
    let parts = [&route.namespace, &route.name, &route.subresource];
    let parts = parts.map(|part| part.as_deref().unwrap_or("-"));
    format!("{} {} {}", route.verb.as_str(), route.resource.plural, parts.join(" "))
}

fn refused(method: &str, target: &str) -> Refusal {
    match at(method, target) {
        Err(refusal) => refusal,
        Ok(route) => panic!("{method} {target}: {route:?}"),
    }
}

fn code(refusal: &Refusal) -> u16 {
    refusal.response().status().as_u16()
}

#[test]
fn url_1_resource_paths() {
    assert_eq!(line("GET", "/api/v1/nodes"), "list nodes - - -");
    assert_eq!(line("GET", "/api/v1/nodes/n1"), "get nodes - n1 -");
    assert_eq!(line("GET", "/api/v1/pods"), "list pods - - -");
    assert_eq!(line("GET", "/api/v1/namespaces/a/pods/"), "list pods a - -");
    assert_eq!(line("GET", "/api/v1/namespaces/a/pods/p/log"), "get pods a p log");
    assert_eq!(line("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale"), "patch deployments a d scale");
    assert_eq!(line("GET", "/apis/sample.evenkeel.dev/v1/namespaces/a/foos/f"), "get foos a f -");
    let proxy = resource("GET", "/api/v1/namespaces/a/services/s:80/proxy/x/y%2Fz/1/2/3/4/5/6/7/8");
    assert_eq!(proxy.name.as_deref(), Some("s:80"));
    assert_eq!(code(&refused("GET", "/api/v1/namespaces/a/pods/p/log/more")), 404);
}

#[test]
fn url_1_paths_of_the_server_itself() {
    assert!(matches!(at("GET", "/api"), Ok(Route::Discovery(DiscoveryPath::Core))));
    assert!(matches!(at("GET", "/apis/"), Ok(Route::Discovery(DiscoveryPath::Groups))));
    assert!(matches!(at("GET", "/apis/apps"), Ok(Route::Discovery(DiscoveryPath::Group(group))) if group == "apps"));
    assert!(
        matches!(at("GET", "/api/v1"), Ok(Route::Discovery(DiscoveryPath::Version { group, .. })) if group.is_empty())
    );
    assert!(matches!(at("GET", "/apis/apps/v1"), Ok(Route::Discovery(DiscoveryPath::Version { .. }))));
    assert!(matches!(at("GET", "/version"), Ok(Route::Version)));
    assert!(matches!(at("GET", "/openapi/v3"), Ok(Route::OpenApi(path)) if path.is_empty()));
    assert!(matches!(at("GET", "/openapi/v2"), Ok(Route::OpenApiV2)));
    assert!(matches!(at("GET", "/openapi/v3/apis/apps/v1"), Ok(Route::OpenApi(path)) if path == "apis/apps/v1"));
    assert!(matches!(
        at("GET", "/readyz/ping?verbose"),
        Ok(Route::Health(Health { endpoint: HealthEndpoint::Readyz, check: Some(check) })) if check == "ping"
    ));
    assert_eq!(code(&refused("POST", "/version")), 405);
}

#[test]
fn url_2_sub_resources_of_a_namespace() {
    assert_eq!(line("GET", "/api/v1/namespaces/a"), "get namespaces - a -");
    assert_eq!(line("PUT", "/api/v1/namespaces/a/finalize"), "update namespaces - a finalize");
    assert_eq!(line("PATCH", "/api/v1/namespaces/a/status"), "patch namespaces - a status");
    assert_eq!(code(&refused("GET", "/api/v1/namespaces/a/other")), 404);
}

#[test]
fn url_3_verbs() {
    let pods = "/api/v1/namespaces/a/pods";
    for (method, verb) in [("POST", "create"), ("GET", "list"), ("HEAD", "list"), ("DELETE", "deletecollection")] {
        assert_eq!(resource(method, pods).verb.as_str(), verb);
    }
    for (method, verb) in [("GET", "get"), ("HEAD", "get"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete")]
    {
        assert_eq!(resource(method, &format!("{pods}/p")).verb.as_str(), verb);
    }
    for (query, verb) in
        [("watch=true", Verb::Watch), ("watch", Verb::Watch), ("watch=0", Verb::List), ("watch=false", Verb::List)]
    {
        assert_eq!(resource("GET", &format!("{pods}?{query}")).verb, verb);
    }
    assert_eq!(resource("GET", &format!("{pods}/p?watch=true")).verb, Verb::Get);
}

#[test]
fn url_5_the_old_watch_prefix() {
    assert_eq!(line("GET", "/api/v1/watch/namespaces/a/pods"), "watch pods a - -");
    let one = resource("GET", "/apis/apps/v1/watch/namespaces/a/deployments/d");
    assert_eq!((one.verb, one.name.as_deref()), (Verb::Watch, Some("d")));
    assert_eq!(code(&refused("POST", "/api/v1/watch/namespaces/a/pods")), 404);
}

#[test]
fn url_6_unknown_paths() {
    for target in [
        "/",
        "/bogus",
        "/metrics",
        "/openapi/v2/x",
        "/api/v2",
        "/api/v2/pods",
        "/apis/no.such.group",
        "/apis/no.such.group/v1",
        "/apis/apps/v9/deployments",
        "/apis/sample.evenkeel.dev/v1/bars",
        "/apis/sample.evenkeel.dev/v1/namespaces/a/bars/b",
        "/apis//v1/pods",
    ] {
        let refusal = refused("GET", target);
        assert_eq!(refusal, Refusal::PageNotFound, "{target}");
        let response = refusal.response();
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(body(response), "404 page not found\n");
    }
    let response = refused("GET", "/api/v1/nothings").response();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(
        serde_json::from_slice::<Value>(&body(response)).unwrap(),
        json!({
            "apiVersion": "v1", "code": 404, "details": {}, "kind": "Status", "metadata": {}, "reason": "NotFound",
            "message": "the server could not find the requested resource", "status": "Failure"
        })
    );
}

#[test]
fn url_7_scope_and_path_must_fit() {
    assert_eq!(code(&refused("GET", "/api/v1/namespaces/a/nodes")), 404);
    assert_eq!(code(&refused("GET", "/api/v1/pods/p")), 404);
    assert_eq!(code(&refused("POST", "/api/v1/pods")), 405);
    let foos = "/apis/sample.evenkeel.dev/v1/foos";
    assert_eq!(line("GET", foos), "list foos - - -");
    for (method, target) in [("POST", foos.to_owned()), ("DELETE", format!("{foos}/f"))] {
        assert_eq!(refused(method, &target), Refusal::PageNotFound);
    }
}

#[test]
fn url_8_methods_that_do_not_fit() {
    for (method, target, allow) in [
        ("PUT", "/api/v1/namespaces/a/configmaps", "DELETE, GET, HEAD, POST"),
        ("POST", "/api/v1/namespaces/a/configmaps/c", "DELETE, GET, HEAD, PATCH, PUT"),
        ("DELETE", "/api/v1/namespaces", "GET, HEAD, POST"),
        ("DELETE", "/api/v1/namespaces/a/pods/p/status", "GET, HEAD, PATCH, PUT"),
        ("POST", "/api/v1/pods", "GET, HEAD"),
        ("OPTIONS", "/api/v1/nodes/n", "DELETE, GET, HEAD, PATCH, PUT"),
    ] {
        let response = refused(method, target).response();
        assert_eq!(response.headers()["allow"], allow, "{method} {target}");
        assert_eq!(
            serde_json::from_slice::<Value>(&body(response)).unwrap(),
            json!({
                "apiVersion": "v1", "code": 405, "details": {}, "kind": "Status", "metadata": {},
                "message": "the server does not allow this method on the requested resource",
                "reason": "MethodNotAllowed", "status": "Failure"
            })
        );
    }
    let Refusal::MethodNotAllowed { status, .. } = refused("PUT", "/apis/sample.evenkeel.dev/v1/namespaces/a/foos")
    else {
        panic!()
    };
    assert_eq!(status.message, "update is not supported on resources of kind \"foos.sample.evenkeel.dev\"");
    let details = status.details.unwrap();
    assert_eq!((&*details.group, &*details.kind), ("sample.evenkeel.dev", "foos"));
}

#[test]
fn url_8_a_verb_that_is_not_served_is_not_allowed() {
    let mut foo = custom("sample.evenkeel.dev", "v1", "Foo", "foos");
    foo.verbs = ["delete", "deletecollection", "get", "list", "watch"].map(str::to_owned).to_vec();
    let registry = Registry::builtin().with_definition("foos.sample.evenkeel.dev", vec![foo]);
    let path = "/apis/sample.evenkeel.dev/v1/namespaces/a/foos";
    let refusal = route(&registry, &Method::POST, path, &Query::default()).unwrap_err();
    assert_eq!(code(&refusal), 405);
}

#[test]
fn unknown_sub_resources_are_not_found() {
    assert_eq!(code(&refused("GET", "/api/v1/namespaces/a/configmaps/c/status")), 404);
    let Refusal::Status(status) = refused("GET", "/apis/sample.evenkeel.dev/v1/namespaces/a/foos/f/scale") else {
        panic!()
    };
    assert_eq!(status.message, "foos.sample.evenkeel.dev \"f\" not found");
}

#[test]
fn url_9_no_segment_escapes_its_position() {
    for name in
        ["%2e%2e", "..", "%2E", ".", "a%2Fb", "%2F", "%25", "a%25b", "%2e%2e%2fsecrets", "%zz", "%", "a%00b", "%ff"]
    {
        for target in [
            format!("/api/v1/namespaces/a/configmaps/{name}"),
            format!("/api/v1/namespaces/{name}/configmaps"),
            format!("/api/v1/namespaces/a/pods/{name}/status"),
            format!("/api/v1/nodes/{name}"),
        ] {
            // kube-apiserver splits the decoded path.
            let expected = if name.to_ascii_lowercase().contains("%2f") { 404 } else { 400 };
            assert_eq!(code(&refused("GET", &target)), expected, "{target}");
        }
        assert!(at("GET", &format!("/apis/{name}/v1/pods")).is_err());
        assert!(at("GET", &format!("/api/v1/{name}")).is_err());
    }
    let Refusal::Status(status) = refused("GET", "/api/v1/nodes/a%25b") else { panic!() };
    assert_eq!(status.message, "Name parameter invalid: \"a%b\": may not contain '%'");
    assert_eq!(resource("GET", "/api/v1/nodes/a%2Db").name.as_deref(), Some("a-b"));
    assert_eq!(code(&refused("GET", "/api/v1/namespaces//configmaps")), 404);
}

proptest::proptest! {
    #[test]
    fn url_9_any_path_yields_a_valid_key(
        segments in proptest::collection::vec("(\\.|%2e|%2F|%25|a|status|proxy|log|é|%[0-9a-f]{2}){1,4}", 1..5),
        root in "/api/v1/(watch/)?(namespaces/|nodes/|pods/|namespaces/a/pods/)?",
    ) {
        let target = format!("{root}{}", segments.join("/"));
        if let Ok(Route::Resource(route)) = at("GET", &target) {
            for key in [&route.namespace, &route.name].into_iter().flatten() {
                proptest::prop_assert!(!key.is_empty() && key != "." && key != ".." && !key.contains(['/', '%']));
            }
        }
    }
}
