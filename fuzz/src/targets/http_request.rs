//! Requests to the server (FUZ-20).
//!
//! A line of two percent signs separates requests. A request is a line with the method and the path, lines of headers, an empty line,
//! and the body.

use serde_json::{Value, json};

use crate::budget::{TREE, within};
use crate::input::Input;
use crate::test_server::{TestResponse, TestServer};

/// Documents that the server writes once, and lists of all that it has.
const SERVER: usize = 1 << 20;
/// Later requests of an input are not sent.
const MAX_REQUESTS: usize = 8;

thread_local! {
    static SERVER_OF_THREAD: TestServer = TestServer::with_objects(&objects());
}

fn objects() -> [(&'static str, Value); 6] {
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 1}, "tags": {"type": "array", "items": {"type": "string"}}
            }}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}],
    }});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
        (
            "/apis/example.com/v1/namespaces/default/widgets",
            json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a"}, "spec": {"size": 1}}),
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"k": "v"}}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        ),
        ("/api/v1/namespaces/default/services", json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})),
    ]
}

pub(super) fn run(data: &[u8]) {
    SERVER_OF_THREAD.with(|server| {
        server.reset();
        for request in split_requests(data).into_iter().take(MAX_REQUESTS) {
            send(server, request);
        }
    });
}

fn split_requests(data: &[u8]) -> Vec<&[u8]> {
    const SEPARATOR: &[u8] = b"\n%%\n";
    let mut requests = Vec::new();
    let mut rest = data;
    while let Some(end) = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        requests.push(&rest[..end]);
        rest = &rest[end + SEPARATOR.len()..];
    }
    requests.push(rest);
    requests
}

fn send(server: &TestServer, request: &[u8]) {
    let mut input = Input(request);
    let first = input.text_line();
    let Some((method, path)) = first.split_once(' ') else { return };
    let mut headers = Vec::new();
    loop {
        let line = input.text_line();
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let before = server.revision();
    let sent = within(TREE, request.len() + SERVER, || server.send(method, path, &headers, input.0.to_vec()));
    let Some(response) = sent else { return };
    check(&response, method, &format!("{method} {path}"));
    if !response.status.is_success() {
        assert_eq!(server.revision(), before, "a refused request has changed something: {first}: {response:?}");
    }
}

/// Every response is one that kube-apiserver could send.
fn check(response: &TestResponse, method: &str, request: &str) {
    let is_json =
        response.headers.get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if response.status.is_client_error() && is_json && method != "HEAD" {
        let status = &response.body;
        assert_eq!(status["kind"], "Status", "{request}: {response:?}");
        assert_eq!(status["status"], "Failure", "{request}: {response:?}");
        assert_eq!(status["code"], response.status.as_u16(), "{request}: {response:?}");
        assert!(status["message"].as_str().is_some_and(|text| !text.is_empty()), "{request}: {response:?}");
    }
    if response.status.is_server_error() {
        // What kube-apiserver says with these codes, too.
        let expected = response.status.as_u16() == 501
            || [
                "Too large resource version",
                "failed to create typed patch object",
                "more than one PodDisruptionBudget",
                "resourceVersion should not be set",
            ]
            .iter()
            .any(|text| response.text.contains(text));
        assert!(expected, "{request}: {response:?}");
    }
}
