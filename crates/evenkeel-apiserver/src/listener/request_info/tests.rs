use http::{HeaderMap, HeaderValue, Method, Uri, header};

use super::RequestInfo;

/// Returns `verb metric-verb group/version resource/subresource namespace/name scope`.
fn of(method: Method, path: &str) -> String {
    let uri: Uri = path.parse().unwrap();
    let mut headers = HeaderMap::new();
    if method == Method::PATCH {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/apply-patch+yaml"));
    }
    let info = RequestInfo::of(&method, &uri, &headers);
    format!(
        "{} {} {}/{} {}/{} {}/{} {}{}{}",
        info.verb,
        info.metric_verb,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.namespace,
        info.name,
        info.scope(),
        if info.is_long_running() { " long" } else { "" },
        if info.dry_run { " dry" } else { "" },
    )
}

#[test]
fn a_path_names_the_resource() {
    let get = |path| of(Method::GET, path);
    assert_eq!(get("/api/v1/pods"), "list LIST /v1 pods/ / cluster");
    assert_eq!(get("/api/v1/namespaces/a/pods"), "list LIST /v1 pods/ a/ namespace");
    assert_eq!(get("/api/v1/namespaces/a/pods/b"), "get GET /v1 pods/ a/b resource");
    assert_eq!(get("/api/v1/namespaces/a/pods/b/log"), "get GET /v1 pods/log a/b resource long");
    assert_eq!(get("/api/v1/namespaces/a/pods?watch=1"), "watch WATCH /v1 pods/ a/ namespace long");
    assert_eq!(get("/api/v1/watch/namespaces/a/pods"), "watch WATCH /v1 pods/ a/ namespace long");
    assert_eq!(get("/api/v1/namespaces"), "list LIST /v1 namespaces/ / cluster");
    assert_eq!(get("/api/v1/namespaces/a"), "get GET /v1 namespaces/ a/a resource");
    assert_eq!(get("/apis/apps/v1/namespaces/a/deployments/b/scale"), "get GET apps/v1 deployments/scale a/b resource");
    assert_eq!(get("/apis/apps/v1"), "get GET / / / ");
    assert_eq!(get("/healthz"), "get GET / / / ");
}

#[test]
fn the_method_names_the_verb() {
    let pods = "/api/v1/namespaces/a/pods";
    let pod = "/api/v1/namespaces/a/pods/b";
    assert_eq!(of(Method::POST, pods), "create POST /v1 pods/ a/ resource");
    assert_eq!(of(Method::PUT, &format!("{pod}?dryRun=All")), "update PUT /v1 pods/ a/b resource dry");
    assert_eq!(of(Method::PATCH, pod), "patch APPLY /v1 pods/ a/b resource");
    assert_eq!(of(Method::DELETE, pod), "delete DELETE /v1 pods/ a/b resource");
    assert_eq!(of(Method::DELETE, pods), "deletecollection DELETECOLLECTION /v1 pods/ a/ namespace");
    assert_eq!(of(Method::POST, &format!("{pod}/exec")), "create CONNECT /v1 pods/exec a/b resource long");
    assert_eq!(of(Method::PUT, "/api/v1/namespaces/a/finalize"), "update PUT /v1 namespaces/finalize a/a resource");
    assert_eq!(of(Method::from_bytes(b"BREW").unwrap(), "/pot"), "other OTHER / / / ");
}
