//! Service-account tokens and TokenReviews.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Builder, User};
use serde_json::{Value, json};
use support::Client;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// A server that requires credentials, and a client of it.
struct Authenticated {
    server: ApiServer,
    client: Client,
}

impl Authenticated {
    /// Starts a server with the service account `robot`.
    async fn start() -> Self {
        Self::with(ApiServer::builder()).await
    }

    async fn with(builder: Builder) -> Self {
        let joe = User { name: "joe".into(), ..User::default() };
        let builder = builder.token("admin").tokens([("joes".to_owned(), joe)]);
        let server = builder.start().await.unwrap();
        let client = Client::new(server.url());
        let this = Authenticated { server, client };
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        assert!([201, 409].contains(&this.send("admin", "POST", ACCOUNTS, &account).await.0));
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
        let (status, issued) = self.request_token(json!({"audiences": audiences})).await;
        assert_eq!(status, 201, "{issued}");
        issued["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Requests a token of `robot`.
    async fn request_token(&self, spec: Value) -> (u16, Value) {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        self.send("admin", "POST", &format!("{ACCOUNTS}/robot/token"), &request).await
    }

    /// Creates an object of the core group in `default`, or in the cluster, and returns its uid.
    async fn create(&self, plural: &str, object: Value) -> String {
        let path =
            if plural == "nodes" { "/api/v1/nodes".to_owned() } else { format!("/api/v1/namespaces/default/{plural}") };
        let (status, created) = self.send("admin", "POST", &path, &object).await;
        assert_eq!(status, 201, "{created}");
        created["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    async fn create_pod(&self, name: &str, account: &str) -> String {
        let spec =
            json!({"serviceAccountName": account, "nodeName": "n1", "containers": [{"name": "a", "image": "b"}]});
        self.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})).await
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
        assert_eq!(server.review(&token, None).await.get("authenticated"), None, "{token}");
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
        let target = audiences.map_or(API_AUDIENCE, |audiences| audiences[0]);
        let error =
            format!("token audiences [\"vault\" \"registry\"] is invalid for the target audiences [\"{target}\"]");
        assert_eq!(status, json!({"user": {}, "error": error}));
    }

    let status = server.review(&server.token(&[]).await, None).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([API_AUDIENCE])));
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_review_recognises_static_tokens() {
    let server = Authenticated::start().await;
    let status = server.review("joes", None).await;
    assert_eq!((&status["authenticated"], &status["user"]["username"]), (&json!(true), &json!("joe")));
    assert_eq!(status["audiences"], json!([API_AUDIENCE]));
    let refused = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(server.review("joes", Some(&["vault"])).await, refused);
    assert_eq!(server.review("unknown", None).await, refused);
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_ends_with_its_account() {
    let server = Authenticated::start().await;
    let token = server.token(&[]).await;
    assert_eq!(server.send("admin", "DELETE", &format!("{ACCOUNTS}/robot"), &Value::Null).await.0, 200);
    assert_eq!(server.send(&token, "GET", ACCOUNTS, &Value::Null).await.0, 401);
    let refused = json!({"user": {}, "error": "serviceaccounts \"robot\" not found"});
    assert_eq!(server.review(&token, None).await, refused);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    assert_eq!(server.send("admin", "POST", ACCOUNTS, &account).await.0, 201);
    let error = server.review(&token, None).await["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("service account UID (") && error.contains("does not match claim ("), "{error}");
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_expires_a_minute_after_its_time() {
    let server = Authenticated::start().await;
    let token = server.token(&[]).await;
    tokio::time::advance(Duration::from_secs(3600 + 59)).await;
    assert_eq!(server.review(&token, None).await["authenticated"], true);
    tokio::time::advance(Duration::from_secs(2)).await;
    let refused = json!({"user": {}, "error": "service account token has expired"});
    assert_eq!(server.review(&token, None).await, refused);
    assert_eq!(server.send(&token, "GET", ACCOUNTS, &Value::Null).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_is_bound_to_a_pod_secret_or_node() {
    let server = Authenticated::start().await;
    let node = server.create("nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}});
    let secret = server.create("secrets", secret).await;
    let pod = server.create_pod("web", "robot").await;
    let mut tokens = Vec::new();
    for (kind, name) in [("Pod", "web"), ("Secret", "web"), ("Node", "n1")] {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name});
        let (status, issued) = server.request_token(json!({"boundObjectRef": reference})).await;
        assert_eq!(status, 201, "{issued}");
        tokens.push(issued["status"]["token"].as_str().unwrap().to_owned());
    }
    let extra =
        |status: &Value, name: &str| status["user"]["extra"][format!("authentication.kubernetes.io/{name}")][0].clone();
    let of_pod = server.review(&tokens[0], None).await;
    assert_eq!((extra(&of_pod, "pod-name"), extra(&of_pod, "pod-uid")), (json!("web"), json!(pod)));
    assert_eq!((extra(&of_pod, "node-name"), extra(&of_pod, "node-uid")), (json!("n1"), json!(node)));
    assert!(extra(&of_pod, "credential-id").as_str().unwrap().starts_with("JTI="), "{of_pod}");
    let of_secret = server.review(&tokens[1], None).await;
    assert_eq!(of_secret["user"]["extra"].as_object().unwrap().len(), 1, "{of_secret}");
    let of_node = server.review(&tokens[2], None).await;
    assert_eq!((extra(&of_node, "node-name"), extra(&of_node, "pod-name")), (json!("n1"), Value::Null));

    let refused = json!({"user": {}, "error": "service account token has been invalidated"});
    for (token, path) in tokens.iter().zip([
        "/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0",
        "/api/v1/namespaces/default/secrets/web",
        "/api/v1/nodes/n1",
    ]) {
        assert_eq!(server.review(token, None).await["authenticated"], true, "{path}");
        let deleted = server.send("admin", "DELETE", path, &Value::Null).await;
        assert_eq!(deleted.0, 200, "{}", deleted.1);
        assert_eq!(server.review(token, None).await, refused, "{path}");
    }
    let again = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}});
    let again = server.create("secrets", again).await;
    let error = format!("secret UID ({again}) does not match service account secret ref claim ({secret})");
    assert_eq!(server.review(&tokens[1], None).await["error"], error);
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_is_not_bound_to_what_does_not_fit() {
    let server = Authenticated::start().await;
    let uid = server.create_pod("web", "robot").await;
    server.create_pod("other", "default").await;
    for (reference, status, message) in [
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Pod", "name": "web"}),
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod".to_owned(),
        ),
        (json!({"kind": "Pod", "name": "absent"}), 404, "pods \"absent\" not found".to_owned()),
        (
            json!({"kind": "Pod", "name": "other"}),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.".to_owned(),
        ),
        (
            json!({"kind": "Pod", "name": "web", "uid": "u-1"}),
            409,
            "Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (u-1) does not match the \
             UID in record. The object might have been deleted and then recreated"
                .to_owned(),
        ),
    ] {
        let (code, refused) = server.request_token(json!({"boundObjectRef": reference})).await;
        assert_eq!((code, &refused["message"]), (status, &json!(message)));
    }
    let reference = json!({"kind": "Pod", "name": "web", "uid": uid});
    assert_eq!(server.request_token(json!({"boundObjectRef": reference})).await.0, 201);
    let (code, refused) = server.request_token(json!({"expirationSeconds": 10})).await;
    let message = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not \
                   specify a duration less than 10 minutes";
    assert_eq!((code, &refused["message"]), (422, &json!(message)));
}

#[tokio::test(start_paused = true)]
async fn aut_5_the_token_of_a_pod_is_valid_for_a_year_and_stale_after_an_hour() {
    let server = Authenticated::start().await;
    server.create_pod("web", "robot").await;
    let reference = json!({"kind": "Pod", "name": "web"});
    let (_, issued) = server.request_token(json!({"boundObjectRef": reference, "expirationSeconds": 3607})).await;
    let token = issued["status"]["token"].as_str().unwrap();
    let claims = claims(token);
    let issued_at = claims["iat"].as_i64().unwrap();
    assert_eq!(claims["exp"], issued_at + 365 * 24 * 3600);
    assert_eq!(claims["kubernetes.io"]["warnafter"], issued_at + 3607);
    assert_eq!(issued["spec"]["expirationSeconds"], 3607);
}

fn claims(token: &str) -> Value {
    part(token, 1)
}

/// Decodes a part of a token.
fn part(token: &str, index: usize) -> Value {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn aut_15_the_issuer_publishes_its_configuration_and_keys() {
    let server = Authenticated::start().await;
    let get = async |path: &str| {
        use http_body_util::BodyExt;
        let headers = [("authorization".to_owned(), "Bearer admin".to_owned())];
        let response = server.client.send("GET", path, "", String::new(), &headers).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["cache-control"], "public, max-age=3600");
        let media = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (media, serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let (media, configuration) = get("/.well-known/openid-configuration").await;
    assert_eq!(media, "application/json");
    let expected = json!({
        "issuer": API_AUDIENCE,
        "jwks_uri": format!("{}/openid/v1/jwks", server.server.url()),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    assert_eq!(configuration, expected);
    let (media, keys) = get("/openid/v1/jwks").await;
    assert_eq!(media, "application/jwk-set+json");
    let key = &keys["keys"][0];
    let header = part(&server.token(&[]).await, 0);
    assert_eq!(header, json!({"alg": "ES256", "kid": key["kid"]}));
    assert_eq!((&key["kty"], &key["crv"], &key["use"]), (&json!("EC"), &json!("P-256"), &json!("sig")));
    let anonymous = server.client.send("GET", "/openid/v1/jwks", "", String::new(), &[]).await;
    assert_eq!(anonymous.status(), 401);
}

#[tokio::test]
async fn aut_5_a_data_directory_keeps_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let first = Authenticated::with(ApiServer::builder().data_dir(folder.path())).await;
    let token = first.token(&[]).await;
    let keys = first.send("admin", "GET", "/openid/v1/jwks", &Value::Null).await;
    first.server.shutdown().await;
    let second = Authenticated::with(ApiServer::builder().data_dir(folder.path())).await;
    assert_eq!(second.review(&token, None).await["authenticated"], true);
    assert_eq!(second.send("admin", "GET", "/openid/v1/jwks", &Value::Null).await, keys);
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
