use super::*;

#[test]
fn req_022_templates_have_no_names_and_values() {
    for (path, expected) in [
        ("/", "/"),
        ("/api", "/api"),
        ("/version", "/version"),
        ("/api/v1", "/api/v1"),
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/nodes/n1", "/api/v1/nodes/{name}"),
        ("/api/v1/namespaces/ns", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/ns/status", "/api/v1/namespaces/{name}/status"),
        ("/api/v1/namespaces/ns/finalize", "/api/v1/namespaces/{name}/finalize"),
        ("/api/v1/nodes/n1/status", "/api/v1/nodes/{name}/status"),
        ("/api/v1/nodes/n1/proxy", "/api/v1/nodes/{name}/proxy"),
        ("/api/v1/namespaces/ns/pods", "/api/v1/namespaces/{namespace}/pods"),
        ("/api/v1/namespaces/ns/pods/p", "/api/v1/namespaces/{namespace}/pods/{name}"),
        ("/api/v1/namespaces/ns/pods/p/log", "/api/v1/namespaces/{namespace}/pods/{name}/log"),
        ("/apis/apps/v1", "/apis/apps/v1"),
        (
            "/apis/apps/v1/namespaces/ns/deployments/d/scale",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        ),
        ("/apis/example.com/v1/things/t", "/apis/example.com/v1/things/{name}"),
        ("/healthz/ping", "/{prefix}"),
    ] {
        for base in ["", "/some/base"] {
            let path = format!("{base}{path}");
            let template = UrlTemplate { base, path: &path, query: &Query::new() }.to_string();
            let expected = if expected == "/{prefix}" { expected.to_owned() } else { format!("{base}{expected}") };
            assert_eq!(template, expected);
        }
    }
    let mut query = Query::new();
    query.add("b", "secret").add("a", "x").add("b", "y");
    let template = |path| UrlTemplate { base: "", path, query: &query }.to_string();
    assert_eq!(template("/api/v1/pods"), "/api/v1/pods?a={value}&b={value}");
    assert_eq!(template("/other/secret"), "/{prefix}");
}
