//! Service-account tokens and TokenReviews.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use evenkeel_apiserver::{ApiServer, User};
use serde_json::{Value, json};
use support::Client;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// A server that requires credentials, and a client of it.
struct Authenticated {
    _server: ApiServer,
    client: Client,
}

impl Authenticated {
    /// Starts a server with the service account `robot`.
    async fn start() -> Self {
        let joe = User { name: "joe".into(), ..User::default() };
        let builder = ApiServer::builder().token("admin").tokens([("joes".to_owned(), joe)]);
        let server = builder.start().await.unwrap();
        let client = Client::new(server.url());
        let this = Authenticated { _server: server, client };
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        assert_eq!(this.send("admin", "POST", ACCOUNTS, &account).await.0, 201);
        this
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        use http_body_util::BodyExt;
        let headers = [("authorization".to_owned(), format!("Bearer {token}"))];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.client.send(method, path, "application/json", body, &headers).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Requests a token of `robot` for these audiences.
    async fn token(&self, audiences: &[&str]) -> String {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                             "spec": {"audiences": audiences}});
        let (status, issued) = self.send("admin", "POST", &format!("{ACCOUNTS}/robot/token"), &request).await;
        assert_eq!(status, 201, "{issued}");
        issued["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Returns the status of a TokenReview.
    async fn review(&self, token: &str, audiences: Option<&[&str]>) -> Value {
        let mut review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                                "spec": {"token": token}});
        if let Some(audiences) = audiences {
            review["spec"]["audiences"] = json!(audiences);
        }
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (status, reviewed) = self.send("admin", "POST", path, &review).await;
        assert_eq!(status, 201, "{reviewed}");
        reviewed["status"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_request_needs_a_token_for_the_audience_of_the_server() {
    let server = Authenticated::start().await;
    for (audiences, status) in [
        (&[][..], 200),
        (&[API_AUDIENCE], 200),
        (&["vault", API_AUDIENCE], 200),
        (&["vault"], 401),
        (&["vault", "https://kubernetes.default.svc"], 401),
    ] {
        let token = server.token(audiences).await;
        assert_eq!(server.send(&token, "GET", ACCOUNTS, &Value::Null).await.0, status, "{audiences:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_changed_token_is_refused() {
    let server = Authenticated::start().await;
    let token = server.token(&[]).await;
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let flipped: String = signature.chars().rev().collect();
    let mut changed = vec![format!("{signed}.{flipped}"), format!("{signed}."), signed.to_owned()];
    changed.push(format!("{signed}.{}", &signature[..20]));
    for token in changed {
        assert_eq!(server.send(&token, "GET", ACCOUNTS, &Value::Null).await.0, 401, "{token}");
        assert_eq!(server.review(&token, None).await["authenticated"], false, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_review_checks_the_audiences() {
    let server = Authenticated::start().await;
    let token = server.token(&["vault", "registry"]).await;

    let status = server.review(&token, Some(&["vault", "other"])).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!(["vault"]));
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(status["user"]["groups"], groups);

    for audiences in [Some(&["other"][..]), None] {
        let status = server.review(&token, audiences).await;
        assert_eq!(status["authenticated"], false, "{audiences:?}: {status}");
        assert_eq!(status.get("audiences"), None);
        assert!(status["error"].as_str().unwrap().contains("invalid for the target audiences"), "{status}");
    }

    let status = server.review(&server.token(&[]).await, None).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([API_AUDIENCE])));
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_review_recognises_static_tokens() {
    let server = Authenticated::start().await;
    let status = server.review("joes", None).await;
    assert_eq!((&status["authenticated"], &status["user"]["username"]), (&json!(true), &json!("joe")));
    assert_eq!(server.review("joes", Some(&["vault"])).await["authenticated"], false);
    let status = server.review("unknown", None).await;
    assert_eq!((&status["authenticated"], &status["error"]), (&json!(false), &json!("invalid bearer token")));
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_ends_with_its_account() {
    let server = Authenticated::start().await;
    let token = server.token(&[]).await;
    assert_eq!(server.send("admin", "DELETE", &format!("{ACCOUNTS}/robot"), &Value::Null).await.0, 200);
    assert_eq!(server.send(&token, "GET", ACCOUNTS, &Value::Null).await.0, 401);
    assert_eq!(server.review(&token, None).await["authenticated"], false);
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_request_of_another_shape_is_a_bad_request() {
    let server = Authenticated::start().await;
    let path = format!("{ACCOUNTS}/robot/token");
    for (body, field) in [
        (json!({"spec": 7}), "TokenRequest.spec of type"),
        (json!({"spec": {"audiences": [7]}}), "audiences of type string"),
        (json!({"spec": {"audiences": "vault"}}), "audiences of type []string"),
        (json!({"spec": {"expirationSeconds": "long"}}), "expirationSeconds of type int64"),
        (json!({"spec": {"boundObjectRef": []}}), "boundObjectRef of type"),
        (json!({"metadata": 7}), "metadata of type"),
        (json!({"status": []}), "status of type"),
    ] {
        let (status, refused) = server.send("admin", "POST", &path, &body).await;
        assert_eq!(status, 400, "{body}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(field), "{body}: {refused}");
    }
    assert_eq!(server.send("admin", "POST", &path, &json!({})).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn aut_4_health_probes_need_no_credentials() {
    let server = Authenticated::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez?verbose"] {
        let response = server.client.send("GET", path, "", String::new(), &[]).await;
        assert_eq!(response.status(), 200, "{path}");
    }
    for (method, path) in [("GET", "/version"), ("GET", "/api"), ("POST", "/healthz"), ("GET", "/healthz/../api")] {
        let response = server.client.send(method, path, "", String::new(), &[]).await;
        assert!([401, 403, 404].contains(&response.status().as_u16()), "{method} {path}: {}", response.status());
    }
    // Wrong credentials never count as absent.
    assert_eq!(server.send("wrong", "GET", "/healthz", &Value::Null).await.0, 401);
}
