//! The audit log of a whole server, in process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use evenkeel_core::{Reason, Status};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::AuditPolicy;
use crate::http_types::{Body, User};
use crate::listener::observation::Observation;
use crate::listener::service::Caller;
use crate::negotiate::status_response;
use crate::server::{ApiServer, Builder};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn builder(policy: &str) -> Builder {
    let policy = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, {policy}}}");
    ApiServer::builder().in_process_only().audit_policy(AuditPolicy::parse(&policy).unwrap())
}

async fn send(server: &ApiServer, request: http::request::Builder, body: &Value) -> Response<Body> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    server.service().serve(request.body(Full::new(body)).unwrap()).await.unwrap()
}

async fn get(server: &ApiServer, path: &str) -> Response<Body> {
    send(server, Request::get(path), &Value::Null).await
}

fn stages(server: &ApiServer) -> Vec<String> {
    server.audit_events().iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn aud_001_an_event_has_the_fields_of_upstream() {
    let server = builder("rules: [{level: RequestResponse}]").start().await.unwrap();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}});
    let request = Request::post("/api/v1/namespaces?fieldManager=me")
        .header("content-type", "application/json")
        .header("user-agent", "test/1")
        .header("x-forwarded-for", "10.0.0.7, nonsense")
        .header("authorization", "Bearer secret-token");
    // A header with credentials authenticates an in-process request, here as the administrator of an open server.
    let response = send(&server, request, &body).await;
    let id = response.headers()["audit-id"].to_str().unwrap().to_owned();
    let created: Value = serde_json::from_slice(&response.collect().await.unwrap().to_bytes()).unwrap();
    let events = server.audit_events();
    assert_eq!(stages(&server), ["RequestReceived", "ResponseComplete"]);
    let time = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    let expected = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": id,
        "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces?fieldManager=me", "verb": "create",
        "user": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["10.0.0.7"], "userAgent": "test/1",
        "objectRef": {"resource": "namespaces", "name": "one", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": body, "responseObject": created,
        "requestReceivedTimestamp": time(&events[1], "requestReceivedTimestamp"),
        "stageTimestamp": time(&events[1], "stageTimestamp"),
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    });
    assert_eq!(events[1], expected);
    assert_eq!(events[0]["auditID"], events[1]["auditID"]);
    assert_eq!((&events[0]["annotations"], &events[0]["responseStatus"]), (&Value::Null, &Value::Null));
    assert!(!events.iter().any(|event| event.to_string().contains("secret-token")), "no credentials");
}

#[tokio::test(start_paused = true)]
async fn aud_001_the_audit_id_of_the_client_is_kept() {
    let server = builder("rules: [{level: Metadata}]").start().await.unwrap();
    let response = send(&server, Request::get("/version").header("audit-id", "mine"), &Value::Null).await;
    assert_eq!(response.headers()["audit-id"], "mine");
    assert_eq!(server.audit_events()[1]["auditID"], "mine");
    assert_eq!(server.audit_events()[1]["objectRef"], Value::Null, "not a resource");
}

#[tokio::test(start_paused = true)]
async fn aud_001_an_error_has_its_status() {
    let server = builder("rules: [{level: Metadata}], omitStages: [RequestReceived]").start().await.unwrap();
    get(&server, &format!("{CONFIG_MAPS}/none")).await;
    let event = &server.audit_events()[0];
    assert_eq!(event["objectRef"]["namespace"], "default");
    assert_eq!(event["responseStatus"]["reason"], "NotFound");
    assert_eq!(event["responseStatus"]["code"], 404);
    assert_eq!(event["responseStatus"]["details"], json!({"name": "none", "kind": "configmaps"}));
}

#[tokio::test(start_paused = true)]
async fn aud_001_an_impersonated_user_stands_beside_the_authenticated_one() {
    let server = builder("rules: [{level: Metadata}]").start().await.unwrap();
    send(&server, Request::get("/version").header("impersonate-user", "joe"), &Value::Null).await;
    let event = &server.audit_events()[1];
    assert_eq!(event["user"]["username"], "system:admin");
    assert_eq!(event["impersonatedUser"]["username"], "joe");
    assert_eq!(event["authenticationMetadata"], json!({"impersonationConstraint": "impersonate:user-info"}));
}

#[tokio::test(start_paused = true)]
async fn aud_001_refused_credentials_are_recorded_without_them() {
    let server = builder("rules: [{level: RequestResponse}]").token("right").start().await.unwrap();
    let response = send(&server, Request::get("/api/v1/pods").header("authorization", "Bearer wrong"), &Value::Null);
    assert_eq!(response.await.status(), 401);
    let events = server.audit_events();
    assert_eq!((events.len(), &events[0]["stage"]), (1, &json!("ResponseStarted")));
    assert_eq!((&events[0]["responseStatus"]["code"], &events[0]["user"]), (&json!(401), &json!({})));
    assert!(!events[0].to_string().contains("wrong"));
}

#[tokio::test(start_paused = true)]
async fn aud_002_a_policy_decides_what_is_recorded() {
    let policy = "rules: [{level: Request, resources: [{resources: [configmaps]}], omitManagedFields: true}, \
                  {level: None}]";
    let server = builder(policy).start().await.unwrap();
    get(&server, "/api/v1/pods").await;
    assert_eq!(stages(&server), [""; 0]);
    let body = json!({"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "data": {"k": "v"}});
    send(&server, Request::post(CONFIG_MAPS).header("content-type", "application/json"), &body).await;
    let events = server.audit_events();
    assert_eq!(events[1]["requestObject"], json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    assert_eq!(events[1]["responseObject"], Value::Null, "level Request");
}

#[tokio::test(start_paused = true)]
async fn ops_1_a_watch_has_the_stage_response_started_and_completes_at_its_end() {
    let server = builder("rules: [{level: RequestResponse}]").start().await.unwrap();
    let watch = get(&server, &format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(stages(&server), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    assert_eq!(stages(&server), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(server.audit_events()[2]["verb"], "watch");
    assert_eq!(server.audit_events()[2]["responseStatus"]["code"], 200);
}

#[tokio::test(start_paused = true)]
async fn ops_1_a_panic_is_a_stage() {
    let server = builder("rules: [{level: Metadata}]").start().await.unwrap();
    let (uri, caller) = (Uri::from_static("/version"), Caller::InProcess(Arc::new(User::default())));
    let handler = AssertUnwindSafe(|| {
        let headers = HeaderMap::new();
        let mut observation = Observation::start(&server.shared, &caller, &Method::GET, &uri, &headers);
        observation.authenticated(&User::default());
        // Without the message that a panic prints.
        std::panic::resume_unwind(Box::new("a defect"));
    });
    assert!(catch_unwind(handler).is_err());
    assert_eq!(stages(&server), ["RequestReceived", "Panic"]);
    assert_eq!(server.audit_events()[1]["responseStatus"]["code"], 500);
    assert_eq!(server.requests()[0].status, None);
}

#[tokio::test(start_paused = true)]
async fn aud_003_a_request_that_is_refused_before_it_is_authorized_is_forbidden() {
    let server = builder("rules: [{level: Metadata}]").start().await.unwrap();
    let (uri, caller) = (Uri::from_static("/version"), Caller::InProcess(Arc::new(User::default())));
    let mut observation = Observation::start(&server.shared, &caller, &Method::GET, &uri, &HeaderMap::new());
    observation.authenticated(&User::default());
    let status = Status::failure(403, Reason::FORBIDDEN, "not you");
    observation.finish(Ok(status_response(&status))).unwrap();
    let expected = json!({"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": "not you"});
    assert_eq!(server.audit_events()[1]["annotations"], expected);
}

#[tokio::test(start_paused = true)]
async fn aud_003_a_user_without_the_permission_is_forbidden() {
    let server = builder("rules: [{level: Metadata}]").start().await.unwrap();
    for (path, decision) in [("/api/v1/secrets", "forbid"), ("/version", "allow")] {
        send(&server, Request::get(path).header("impersonate-user", "system:anonymous"), &Value::Null).await;
        let event = server.audit_events().pop().unwrap();
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], decision, "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_66_an_issued_token_is_not_recorded() {
    let server = builder("rules: [{level: RequestResponse}]").start().await.unwrap();
    let json_type = ("content-type", "application/json");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let request = Request::post(accounts).header(json_type.0, json_type.1);
    send(&server, request, &json!({"metadata": {"name": "robot"}})).await;
    let request = Request::post(format!("{accounts}/robot/token")).header(json_type.0, json_type.1);
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let response = send(&server, request, &body).await;
    let issued: Value = serde_json::from_slice(&response.collect().await.unwrap().to_bytes()).unwrap();
    let token = issued["status"]["token"].as_str().unwrap();
    let events = server.audit_events();
    let event = events.last().unwrap();
    assert_eq!((&event["level"], &event["objectRef"]["subresource"]), (&json!("Metadata"), &json!("token")));
    assert!(!events.iter().any(|event| event.to_string().contains(token)));
}

#[tokio::test(start_paused = true)]
async fn ops_1_a_large_object_is_left_out() {
    let server = builder("rules: [{level: RequestResponse}]").start().await.unwrap();
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(200 * 1024)}});
    send(&server, Request::post(CONFIG_MAPS).header("content-type", "application/json"), &body).await;
    let event = &server.audit_events()[1];
    assert_eq!((&event["requestObject"], &event["responseObject"]), (&Value::Null, &Value::Null));
    assert_eq!(event["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(event["objectRef"]["name"], "a");
}

#[tokio::test]
async fn ops_1_a_file_has_the_same_events() {
    let path = std::env::temp_dir().join(format!("evenkeel-audit-{}.log", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let server = ApiServer::builder().in_process_only().audit_log(&path).start().await.unwrap();
    get(&server, "/version").await;
    let events = server.audit_events();
    server.shutdown().await;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), lines), (2, events));
}

#[tokio::test]
async fn ops_1_a_sink_receives_the_same_events() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let lines = Arc::clone(&lines);
        move |line: &[u8]| lines.lock().unwrap().push(serde_json::from_slice::<Value>(line).unwrap())
    };
    let server = ApiServer::builder().in_process_only().audit_sink(sink).start().await.unwrap();
    get(&server, "/version").await;
    let lines = lines.lock().unwrap();
    assert_eq!((lines.len(), &*lines), (2, &server.audit_events()));
}

#[tokio::test]
async fn a_server_whose_audit_log_cannot_be_opened_does_not_start() {
    let error = ApiServer::builder().in_process_only().audit_log("/no/such/folder/a").start().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot open the audit log /no/such/folder/a");
}
