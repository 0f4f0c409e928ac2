//! All requests: timeouts, headers, warnings, health.

use serde_json::json;

use crate::api::Api;
use crate::*;

/// A write completes within its call, so no timeout can expire: a limit only has to be valid, however short it is.
#[tokio::test(start_paused = true)]
async fn url_10_time_limits_are_read() {
    let api = Api::start().await;
    for (number, limit) in ["1ns", "34s", "1h", "0", "2.5m", ""].iter().enumerate() {
        let object = config_map(&format!("a{number}"));
        api.post(&format!("{CONFIG_MAPS}?timeout={limit}"), &object).await.expect(201);
        api.delete(&format!("{CONFIG_MAPS}/a{number}?timeout={limit}")).await.expect(200);
    }
    let revision = api.revision(CONFIG_MAPS).await;
    for nonsense in ["soon", "5", "-1s", "1s1", "99999999999999999999h"] {
        let refused = api.post(&format!("{CONFIG_MAPS}?timeout={nonsense}"), &config_map("b")).await;
        let message = refused.refusal(400, "BadRequest");
        assert!(message.starts_with("invalid timeout specified in the request URL"), "{message}");
    }
    assert_eq!(api.revision(CONFIG_MAPS).await, revision);
}

/// A request waits only for a future revision.
#[tokio::test(start_paused = true)]
async fn url_10_no_request_waits_longer_than_its_timeout() {
    let api = Api::start().await;
    let future = api.revision(CONFIG_MAPS).await + 100;
    for (limit, seconds, message) in [
        ("&timeout=1s", 1, "Timeout: request did not complete within the allotted timeout"),
        ("&timeout=0", 3, "Timeout: Too large resource version"),
        ("&timeout=1m", 3, "Timeout: Too large resource version"),
        ("", 3, "Timeout: Too large resource version"),
    ] {
        let began = tokio::time::Instant::now();
        let response = api.get(&format!("{CONFIG_MAPS}?resourceVersion={future}{limit}")).await;
        assert!(response.refusal(504, "Timeout").starts_with(message), "{limit}: {}", response.text);
        assert_eq!(began.elapsed().as_secs(), seconds, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn url_11_a_body_may_be_three_mebibytes_long() {
    let api = Api::start().await;
    let padded = |name: &str, length: usize| {
        let mut text = config_map(name).to_string();
        text.push_str(&" ".repeat(length - text.len()));
        text
    };
    api.send("POST", CONFIG_MAPS, &[], padded("a", 3 << 20)).await.expect(201);
    let refused = api.send("POST", CONFIG_MAPS, &[], padded("b", (3 << 20) + 1)).await;
    let message = refused.refusal(413, "RequestEntityTooLarge");
    assert_eq!(message, "Request entity too large: limit is 3145728");
    let mut large = config_map("c");
    large["data"]["k"] = "x".repeat((1 << 20) + 1).into();
    api.post(CONFIG_MAPS, &large).await.refusal(422, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn url_13_unknown_headers_are_ignored() {
    let api = Api::start().await;
    let headers = [
        ("kubectl-command", "kubectl create"),
        ("kubectl-session", "7a31e1b3-0000-4000-8000-000000000000"),
        ("user-agent", "kubectl/v1.32.0 (linux/amd64) kubernetes/0000000"),
        ("x-unknown", "\"; <>"),
    ];
    let created = api.send("POST", CONFIG_MAPS, &headers, config_map("a").to_string()).await.expect(201);
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "kubectl", "the agent is the manager");
    assert_eq!(api.send("GET", &format!("{CONFIG_MAPS}/a"), &headers, "").await.expect(200), created);
}

#[tokio::test(start_paused = true)]
async fn url_14_options_that_cannot_be_read() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for query in [
        "limit=many",
        "limit=99999999999999999999",
        "labelSelector=a%20b%20c",
        "fieldSelector=metadata.name",
        "fieldSelector=spec.nothing=x",
        "allowWatchBookmarks=perhaps",
        "timeoutSeconds=1s",
    ] {
        api.get(&format!("{CONFIG_MAPS}?{query}")).await.refusal(400, "BadRequest");
        api.delete(&format!("{CONFIG_MAPS}?{query}")).await.refusal(400, "BadRequest");
    }
    api.get(&format!("{CONFIG_MAPS}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn url_7_namespaced_kinds_are_written_in_a_namespace() {
    let api = Api::start().await;
    for (method, path) in [
        ("PUT", "/api/v1/configmaps/a"),
        ("PATCH", "/api/v1/configmaps/a"),
        ("DELETE", "/api/v1/configmaps/a"),
        ("GET", "/api/v1/configmaps/a"),
        ("POST", "/api/v1/namespaces/default/nodes"),
    ] {
        let refused = api.send(method, path, &[], config_map("a").to_string()).await;
        assert_eq!(refused.status, 404, "{method} {path}: {}", refused.text);
    }
    api.post("/api/v1/configmaps", &config_map("a")).await.expect(405);
}

#[tokio::test(start_paused = true)]
async fn neg_12_warnings_are_unique_and_bounded() {
    let api = Api::start().await;
    let create = async |name: &str, fields: &[(String, i32)]| {
        let mut object = config_map(name);
        for (field, value) in fields {
            object[field] = json!(value);
        }
        let response = api.post(CONFIG_MAPS, &object).await;
        assert_eq!(response.status, 201);
        response.warnings().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let few: Vec<_> = (0..3).map(|number| (format!("field{number}"), 0)).collect();
    let warnings = create("few", &few).await;
    assert_eq!(warnings[0], "299 - \"unknown field \\\"field0\\\"\"");
    assert_eq!(warnings.len(), 3);
    let long = [("x".repeat(4000), 0)];
    assert!(create("long", &long).await[0].len() > 4000, "a warning that fits is not shortened");
    let many: Vec<_> = (0..2000).map(|number| (format!("field{number:04}{}", "x".repeat(400)), 0)).collect();
    let warnings = create("many", &many).await;
    assert!(warnings.iter().all(|warning| warning.len() <= 256 + "299 - \"\"".len() + 2), "each is cut");
    assert_eq!(warnings.len(), 4096 / 256, "warnings that still do not fit are dropped");
    let same = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let mut twice = config_map("twice");
    twice["metadata"]["ownerReferences"] = json!([same, same, same]);
    assert_eq!(api.post(CONFIG_MAPS, &twice).await.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dis_11_health_endpoints_return_ok() {
    let api = Api::start().await;
    for endpoint in ["/healthz", "/livez", "/readyz"] {
        let response = api.get(endpoint).await;
        assert_eq!((response.status, response.text.as_str()), (200, "ok"));
        assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
        let verbose = api.get(&format!("{endpoint}?verbose")).await.text;
        assert!(verbose.starts_with("[+]ping ok\n"), "{verbose}");
        assert!(verbose.ends_with(&format!("{} check passed\n", &endpoint[1..])), "{verbose}");
    }
}
