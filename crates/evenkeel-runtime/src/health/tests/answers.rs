//! Responses, without sockets.

use super::*;

const FAILED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;

#[tokio::test]
async fn co_023_no_checks_is_a_ping() {
    let site = site(&Health::new());
    for path in ["/healthz", "/livez", "/readyz", "/readyz/", "/healthz/ping"] {
        assert_eq!(get(&site, path).await, (StatusCode::OK, "ok".to_owned()), "{path}");
    }
    assert_eq!(get(&site, "/readyz?verbose").await.1, "[+]ping ok\nreadyz check passed\n");
    assert_eq!(get(&site, "/readyz?exclude=ping&verbose").await.1, "[+]ping excluded: ok\nreadyz check passed\n");
}

#[tokio::test]
async fn co_023_a_failure_is_500_with_the_reason() {
    let site = site(&half_well());
    let report = "[+]good ok\n[-]poor failed: it broke in two\nhealthz check failed\n";
    assert_eq!(get(&site, "/healthz").await, (FAILED, report.to_owned()));
    assert_eq!(get(&site, "/healthz?verbose").await, (FAILED, report.to_owned()));
    assert_eq!(get(&site, "/livez").await, (FAILED, report.replace("healthz", "livez")));
    assert_eq!(get(&site, "/readyz").await.0, StatusCode::OK, "life and readiness are asked apart");
}

#[tokio::test]
async fn co_023_reasons_can_be_hidden() {
    let site = HealthSite { withholds_reasons: true, ..site(&half_well()) };
    assert_eq!(get(&site, "/healthz").await.1, "[+]good ok\n[-]poor failed: reason withheld\nhealthz check failed\n");
    assert_eq!(get(&site, "/healthz/poor").await.1, "internal server error: reason withheld\n");
}

#[tokio::test]
async fn co_023_one_check_by_its_name() {
    let site = site(&half_well());
    assert_eq!(get(&site, "/healthz/good").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(get(&site, "/healthz/poor").await, (FAILED, "internal server error: it broke in two\n".to_owned()));
    assert_eq!(get(&site, "/healthz/none").await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&site, "/readyz/good").await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&site, "/healthz/ping").await.0, StatusCode::NOT_FOUND, "there are others to ask");
}

#[tokio::test]
async fn co_023_excluded_checks_do_not_run() {
    let site = site(&half_well());
    assert_eq!(get(&site, "/healthz?exclude=poor").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(
        get(&site, "/healthz?verbose&exclude=poor&exclude=gone").await.1,
        "[+]good ok\n[+]poor excluded: ok\n\
         warn: some health checks cannot be excluded: no matches for [\"gone\"]\nhealthz check passed\n"
    );
}

#[tokio::test]
async fn co_023_checks_can_be_added_and_removed_at_run_time() {
    let health = Health::new();
    let site = site(&health);
    assert_eq!(get(&site, "/readyz").await.0, StatusCode::OK);
    health.ready().add(Check::new("late", || Err("not yet".into()))).unwrap();
    assert_eq!(get(&site, "/readyz").await.0, FAILED);
    assert!(health.ready().remove("late"));
    assert!(!health.ready().remove("late"));
    assert_eq!(get(&site, "/readyz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors() {
    let site = site(&Health::new());
    for path in ["/", "/nothing", "/metrics/x", "//healthz/x/y", "/HEALTHZ"] {
        assert_eq!(get(&site, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    for method in [Method::POST, Method::OPTIONS, Method::DELETE] {
        let answer = site.respond(&method, &"/healthz".parse().unwrap(), &HeaderMap::new()).await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers()[header::ALLOW], "GET, HEAD");
        let nowhere = site.respond(&method, &"/nothing".parse().unwrap(), &HeaderMap::new()).await;
        assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn co_029_metrics_are_what_their_source_renders() {
    let without = site(&Health::new());
    let (code, report) = get(&without, "/metrics").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert!(report.contains("no metrics source"), "{report}");
    let with = HealthSite { metrics: Some(Box::new(|| "up 1\n".to_owned())), ..site(&Health::new()) };
    assert_eq!(get(&with, "/metrics").await, (StatusCode::OK, "up 1\n".to_owned()));
    let answer = with.respond(&Method::GET, &"/metrics".parse().unwrap(), &HeaderMap::new()).await;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
}

#[tokio::test]
async fn diagnostics_can_be_requested_for_a_key() {
    let diagnostics = Diagnostics::new();
    let keys = serde_json::json!({"list": [{"key": "default/a"}, {"key": "default/b"}, 1], "count": 2});
    diagnostics.add(Source::new("own", "x", move || keys.clone()));
    diagnostics.error("foos", "default/a", "one");
    diagnostics.error("foos", "default/b", "another");
    let site = HealthSite { diagnostics: Some(diagnostics), ..site(&Health::new()) };
    let ask = async |path| serde_json::from_str::<serde_json::Value>(&get(&site, path).await.1).unwrap();
    let report = ask("/debug?key=default/b").await;
    assert_eq!(report["own"]["x"], serde_json::json!({"list": [{"key": "default/b"}, 1], "count": 2}));
    assert_eq!((report["errors"].as_array().unwrap().len(), &report["errors"][0]["error"]), (1, &"another".into()));
    assert_eq!(ask("/debug/errors?key=default%2Fa&key=default/b").await.as_array().unwrap().len(), 2);
    assert_eq!(ask("/debug/errors?key=default/c").await, serde_json::json!([]));
}

#[tokio::test]
async fn diagnostics_are_off_by_default_and_local_only() {
    assert_eq!(get(&site(&Health::new()), "/debug").await.0, StatusCode::NOT_FOUND);
    let diagnostics = Diagnostics::new();
    diagnostics.add(Source::new("build", "version", || "1.2.3".into()));
    let local = HealthSite { diagnostics: Some(diagnostics.clone()), ..site(&Health::new()) };
    let report: serde_json::Value = serde_json::from_str(&get(&local, "/debug").await.1).unwrap();
    assert_eq!(report, serde_json::json!({"build": {"version": "1.2.3"}, "errors": []}));
    assert_eq!(get(&local, "/debug/build").await.1, "{\n  \"version\": \"1.2.3\"\n}\n");
    assert_eq!(get(&local, "/debug/errors").await.1, "[]\n");
    assert_eq!(get(&local, "/debug/nothing").await.0, StatusCode::NOT_FOUND);

    let asked_as = async |site: &HealthSite, host: Option<&'static str>| {
        let headers = host.map(|host| (header::HOST, HeaderValue::from_static(host)));
        site.respond(&Method::GET, &"/debug".parse().unwrap(), &headers.into_iter().collect()).await.status()
    };
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8081", "127.9.9.9", "[::1]:8081"] {
        assert_eq!(asked_as(&local, Some(host)).await, StatusCode::OK, "{host}");
    }
    for host in ["evil.example", "10.0.0.1", "localhost.evil.example", "[::2]", "a b"] {
        assert_eq!(asked_as(&local, Some(host)).await, StatusCode::FORBIDDEN, "{host}");
    }
    assert_eq!(asked_as(&local, None).await, StatusCode::FORBIDDEN);
    let open = HealthSite { is_local: false, diagnostics: Some(diagnostics), ..site(&Health::new()) };
    assert_eq!(asked_as(&open, Some("controller.example")).await, StatusCode::OK);
}
