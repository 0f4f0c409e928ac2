//! Authentication, impersonation, and requests that are refused for every user.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod support;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_apiserver::{ApiServer, User};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::Client;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Returns the user that the server authenticates.
async fn whoami(server: &ApiServer, authorization: Option<&str>) -> (u16, Value) {
    let headers: Vec<(String, String)> =
        authorization.map(|value| ("authorization".to_owned(), value.to_owned())).into_iter().collect();
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let reply = Client::new(server.url()).send("POST", REVIEW, "application/json", body, &headers).await;
    let code = reply.status().as_u16();
    let bytes = reply.into_body().collect().await.unwrap().to_bytes();
    let response: Value = serde_json::from_slice(&bytes).unwrap();
    (code, if code == 201 { response["status"]["userInfo"].clone() } else { response })
}

fn joe() -> User {
    User {
        name: "joe".into(),
        uid: "u-1".into(),
        groups: vec!["devs".into()],
        extra: [("team".to_owned(), vec!["blue".to_owned()])].into_iter().collect(),
    }
}

#[tokio::test(start_paused = true)]
async fn aut_1_without_credentials_every_client_is_administrator() {
    let server = ApiServer::start().await.unwrap();
    let admin = json!({"username": "system:admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(whoami(&server, None).await, (201, admin.clone()));
    assert_eq!(whoami(&server, Some("Bearer whatever")).await, (201, admin));
}

#[tokio::test(start_paused = true)]
async fn aut_2_aut_4_tokens_authenticate_users() {
    let server = ApiServer::builder().tokens([("joes".to_owned(), joe())]).start().await.unwrap();
    let info = json!({
        "username": "joe", "uid": "u-1", "groups": ["devs", "system:authenticated"], "extra": {"team": ["blue"]},
    });
    assert_eq!(whoami(&server, Some("Bearer joes")).await, (201, info.clone()));
    assert_eq!(whoami(&server, Some("bEARER joes")).await, (201, info));
    for wrong in [None, Some("Bearer other"), Some("Bearer "), Some("Basic am9lczo="), Some("joes")] {
        let (code, response) = whoami(&server, wrong).await;
        assert_eq!(
            (code, &response["reason"], &response["message"]),
            (401, &json!("Unauthorized"), &json!("Unauthorized"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn aut_4_anonymous_requests_have_a_user_if_allowed() {
    let server = ApiServer::builder().tokens([("joes".to_owned(), joe())]).anonymous(true).start().await.unwrap();
    let (code, refused) = whoami(&server, None).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(server.requests().last().unwrap().user, "system:anonymous");
    assert_eq!(whoami(&server, Some("Bearer other")).await.0, 401, "an invalid token is not anonymous");
}

/// Sends a request without credentials; returns its code and the message of its Status.
async fn anonymously(server: &ApiServer, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let reply = Client::new(server.url()).send(method, path, "application/json", String::new(), &headers).await;
    let code = reply.status().as_u16();
    let bytes = reply.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    (code, status["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn aut_13_anonymous_requests_read_health_and_version_and_nothing_else() {
    // No token is given, and still no client is the administrator.
    let server = ApiServer::builder().anonymous(true).start().await.unwrap();
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"] {
        assert_eq!(anonymously(&server, "GET", path, &[]).await.0, 200, "{path}");
    }
    for (method, path, message) in [
        ("GET", "/apis", r#"forbidden: User "system:anonymous" cannot get path "/apis""#),
        ("GET", "/nowhere", r#"forbidden: User "system:anonymous" cannot get path "/nowhere""#),
        (
            "GET",
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "GET",
            "/apis/apps/v1/deployments?watch=true",
            r#"deployments.apps is forbidden: User "system:anonymous" cannot watch resource "deployments" in API group "apps" at the cluster scope"#,
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/secrets/s",
            r#"secrets "s" is forbidden: User "system:anonymous" cannot delete resource "secrets" in API group "" in the namespace "default""#,
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/p/log",
            r#"pods "p" is forbidden: User "system:anonymous" cannot get resource "pods/log" in API group "" in the namespace "default""#,
        ),
    ] {
        assert_eq!(anonymously(&server, method, path, &[]).await, (403, message.to_owned()), "{method} {path}");
    }
    // The administrator has a token, which only the handle and its kubeconfig show.
    let token = format!("Bearer {}", server.token().unwrap());
    assert_eq!(anonymously(&server, "GET", "/apis", &[("authorization", &token)]).await.0, 200);
    assert!(server.kubeconfig().contains(server.token().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn aut_13_anonymous_requests_do_not_impersonate() {
    let server = ApiServer::builder().anonymous(true).start().await.unwrap();
    let headers = [("impersonate-user", "system:admin"), ("impersonate-group", "system:masters")];
    for (path, expected) in [
        (
            "/api/v1/secrets",
            r#"secrets is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list resource "secrets" in API group "" at the cluster scope"#,
        ),
        (
            "/healthz",
            r#"users.authentication.k8s.io "system:admin" is forbidden: User "system:anonymous" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
    ] {
        let (code, message) = anonymously(&server, "GET", path, &headers).await;
        assert_eq!((code, message.as_str()), (403, expected), "{path}");
    }
    let token = format!("Bearer {}", server.token().unwrap());
    let as_anonymous = [("authorization", token.as_str()), ("impersonate-user", "system:anonymous")];
    assert_eq!(anonymously(&server, "GET", "/api/v1/secrets", &as_anonymous).await.0, 403);
    assert_eq!(anonymously(&server, "GET", "/version", &as_anonymous).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn aut_13_a_review_of_an_anonymous_user_is_not_allowed() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    let review = async |spec: Value| {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (code, reviewed) = client.json("POST", path, Some(&body)).await;
        assert_eq!(code, 201, "{reviewed}");
        reviewed["status"]["allowed"].clone()
    };
    let pods = json!({"verb": "list", "resource": "pods"});
    let version = json!({"verb": "get", "path": "/version"});
    let groups = json!(["system:unauthenticated"]);
    assert_eq!(review(json!({"user": "joe", "resourceAttributes": pods})).await, true);
    assert_eq!(review(json!({"user": "system:anonymous", "resourceAttributes": pods})).await, false);
    assert_eq!(review(json!({"user": "x", "groups": groups, "resourceAttributes": pods})).await, false);
    assert_eq!(review(json!({"user": "x", "groups": groups, "nonResourceAttributes": version})).await, true);
}

#[tokio::test(start_paused = true)]
async fn sec_62_anonymous_requests_have_a_local_host() {
    let server = ApiServer::builder().anonymous(true).start().await.unwrap();
    let (code, message) = anonymously(&server, "GET", "/version", &[("origin", "http://evil.example")]).await;
    assert_eq!(code, 403);
    assert!(message.contains("evil.example"), "{message}");
    let token = format!("Bearer {}", server.token().unwrap());
    let known = [("authorization", token.as_str()), ("origin", "http://evil.example")];
    assert_eq!(anonymously(&server, "GET", "/version", &known).await.0, 200, "credentials need no host");
}

#[tokio::test(start_paused = true)]
async fn aut_14_a_token_file_without_tokens_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.csv");
    std::fs::write(&path, "").unwrap();
    let server = ApiServer::builder().token_file(&path).unwrap().start().await.unwrap();
    assert_eq!(whoami(&server, None).await.0, 401);
    std::fs::write(&path, "joes,joe,u-1,\"devs,ops\"\n").unwrap();
    let server = ApiServer::builder().token_file(&path).unwrap().start().await.unwrap();
    let info = json!({"username": "joe", "uid": "u-1", "groups": ["devs", "ops", "system:authenticated"]});
    assert_eq!(whoami(&server, Some("Bearer joes")).await, (201, info));
    assert_eq!(whoami(&server, None).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn sec_69_a_page_cannot_create_a_namespace() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pwned"}}).to_string();
    let post = async |media: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        client.send("POST", "/api/v1/namespaces", media, body.clone(), &headers).await.status().as_u16()
    };
    assert_eq!(post("text/plain", &[]).await, 415);
    assert_eq!(post("application/json", &[("origin", "http://localhost:3000")]).await, 403);
    assert_eq!(client.json("GET", "/api/v1/namespaces/pwned", None).await.0, 404);
    assert_eq!(post("application/json", &[]).await, 201);
}

#[tokio::test(start_paused = true)]
async fn aut_6_a_request_can_be_another_users() {
    let server = ApiServer::start().await.unwrap();
    let headers =
        [("impersonate-user", "joe"), ("impersonate-group", "devs")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let client = Client::new(server.url());
    let send = async |headers: &[(String, String)]| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
        let reply = client.send("POST", REVIEW, "application/json", body, headers).await;
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let (code, response) = send(&headers).await;
    let info = json!({"username": "joe", "groups": ["devs", "system:authenticated"]});
    assert_eq!((code, &response["status"]["userInfo"]), (201, &info));
    assert_eq!(server.requests().last().unwrap().user, "joe");
    let (code, response) = send(&headers[1..]).await;
    assert_eq!((code, &response["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn aut_10_reviews_are_evaluated_and_not_stored() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    let before = server.stats();
    let attributes = json!({"namespace": "default", "verb": "create", "resource": "pods"});
    for (path, kind, spec) in [
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", json!({"resourceAttributes": attributes})),
        ("subjectaccessreviews", "SubjectAccessReview", json!({"user": "joe", "resourceAttributes": attributes})),
        (
            "namespaces/default/localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            json!({"user": "joe", "resourceAttributes": attributes}),
        ),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview", json!({"namespace": "default"})),
    ] {
        let path = format!("/apis/authorization.k8s.io/v1/{path}");
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        let (code, response) = client.json("POST", &path, Some(&body)).await;
        assert_eq!((code, &response["kind"]), (201, &json!(kind)), "{response}");
        if kind == "SelfSubjectRulesReview" {
            assert_eq!(response["status"]["resourceRules"][0]["verbs"], json!(["*"]));
            assert_eq!(response["status"]["incomplete"], false);
        } else {
            assert_eq!(response["status"]["allowed"], true, "{response}");
        }
        assert_eq!(client.json("GET", &path, None).await.0, 405);
    }
    assert_eq!(server.stats(), before);
}

#[tokio::test(start_paused = true)]
async fn aut_2_a_certificate_request_records_the_requester() {
    let server = ApiServer::builder().tokens([("joes".to_owned(), joe())]).start().await.unwrap();
    let body = json!({
        "metadata": {"name": "mine"},
        "spec": {"request": "LS0tLS1CRUdJTg==", "signerName": "example.com/x", "usages": ["client auth"],
            "username": "system:admin", "groups": ["system:masters"]},
    });
    let headers = [("authorization".to_owned(), "Bearer joes".to_owned())];
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let client = Client::new(server.url());
    let reply = client.send("POST", path, "application/json", body.to_string(), &headers).await;
    assert_eq!(reply.status(), 201);
    let created: Value = serde_json::from_slice(&reply.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let spec = &created["spec"];
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("joe"), &json!("u-1")));
    assert_eq!(
        (&spec["groups"], &spec["extra"]),
        (&json!(["devs", "system:authenticated"]), &json!({"team": ["blue"]}))
    );
}

#[tokio::test(start_paused = true)]
async fn sec_60_the_default_address_is_the_loopback() {
    let server = ApiServer::start().await.unwrap();
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
}

#[tokio::test(start_paused = true)]
async fn sec_61_secrets_do_not_show() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let token = server.token().unwrap().to_owned();
    assert!(token.len() >= 32);
    let other = ApiServer::builder().tls().start().await.unwrap();
    assert_ne!(other.token().unwrap(), token);
    assert_ne!(other.ca_pem(), server.ca_pem());
    assert!(!format!("{server:?}").contains(&token));
    assert!(!server.ca_pem().unwrap().contains("PRIVATE"));
    assert!(!format!("{:?}", ApiServer::builder().token("geheim")).contains("geheim"));
}

#[tokio::test(start_paused = true)]
async fn sec_63_a_continue_token_opens_no_other_list() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    for namespace in ["a", "b"] {
        client.json("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": namespace}}))).await;
        for name in ["one", "two", "zoo"] {
            for kind in ["configmaps", "secrets"] {
                let path = format!("/api/v1/namespaces/{namespace}/{kind}");
                let (code, _) = client.json("POST", &path, Some(&json!({"metadata": {"name": name}}))).await;
                assert_eq!(code, 201);
            }
        }
    }
    let (_, page) = client.json("GET", "/api/v1/namespaces/a/configmaps?limit=1", None).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/b/configmaps?limit=10&continue={token}");
    let (code, page) = client.json("GET", &path, None).await;
    let seen: Vec<String> = page["items"].as_array().unwrap().iter().map(namespaced_name).collect();
    assert_eq!((code, seen), (200, vec!["b/two".to_owned(), "b/zoo".to_owned()]));

    // Forged tokens: outside of the list, or invalid.
    let revision = page["metadata"]["resourceVersion"].as_str().unwrap();
    for start in ["../b/one\0", "../../secrets/a/one\0", "/one\0", "a//one\0", ".\0", "..\0", "", "\0"] {
        let text = format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":{}}}"#, json!(start));
        let token = URL_SAFE_NO_PAD.encode(text);
        let path = format!("/api/v1/namespaces/a/configmaps?limit=10&continue={token}");
        let (code, response) = client.json("GET", &path, None).await;
        assert_eq!(code, 400, "{start:?}: {response}");
    }
    for text in [r#"{"v":"other","rv":1,"start":"a"}"#, "[]", "{", r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#] {
        let path = format!("/api/v1/namespaces/a/configmaps?continue={}", URL_SAFE_NO_PAD.encode(text));
        assert_eq!(client.json("GET", &path, None).await.0, 400, "{text}");
    }
}

fn namespaced_name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap();
    format!("{}/{}", text("namespace"), text("name"))
}

#[tokio::test(start_paused = true)]
async fn sec_64_expensive_requests_are_refused() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    let maps = "/api/v1/namespaces/default/configmaps";
    client.json("POST", maps, Some(&json!({"metadata": {"name": "one"}, "data": {"a": "b"}}))).await;
    let patch = async |body: String| {
        let reply = client.send("PATCH", &format!("{maps}/one"), "application/json-patch+json", body, &[]).await;
        reply.status().as_u16()
    };
    let operation = json!({"op": "add", "path": "/data/a", "value": "c"});
    assert_eq!(patch(Value::from(vec![operation.clone(); 10_000]).to_string()).await, 200);
    assert_eq!(patch(Value::from(vec![operation; 10_001]).to_string()).await, 413);
    // Copies that double the object each time.
    let copy = json!({"op": "copy", "from": "/metadata", "path": "/metadata/annotations"});
    assert!(patch(Value::from(vec![copy; 40]).to_string()).await >= 400);

    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(r#"{{"metadata":{{"name":"deep"}},"data":{deep}}}"#);
    for media in ["application/json", "application/yaml"] {
        let reply = client.send("POST", maps, media, body.clone(), &[]).await;
        assert_eq!(reply.status(), 400, "{media}");
    }

    let definition = |pattern: &str| {
        json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}}}]},
        })
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, response) = client.json("POST", definitions, Some(&definition("(((a{1000}){1000}){1000})"))).await;
    assert_eq!(code, 422, "{response}");
    // A pattern that makes backtracking engines slow.
    assert_eq!(client.json("POST", definitions, Some(&definition("^(a+)+$"))).await.0, 201);
    let body = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "a": format!("{}!", "a".repeat(50_000))});
    assert_eq!(client.json("POST", "/apis/example.com/v1/namespaces/default/foos", Some(&body)).await.0, 422);

    let selector = "a".repeat(64);
    assert_eq!(client.json("GET", &format!("{maps}?labelSelector={selector}"), None).await.0, 400);
}

#[tokio::test]
async fn aut_16_the_client_ca_is_published_for_extension_servers() {
    let mut ca = rcgen::CertificateParams::default();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = ca.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
    let server = ApiServer::builder().tls().client_ca(format!("# mine\n{ca}")).unwrap().start().await.unwrap();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let request = http::Request::builder().uri(path).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let response = tower_service::Service::call(&mut server.service(), request).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let published: Value = serde_json::from_slice(&body).unwrap();
    let expected = format!("{}{}", server.ca_pem().unwrap(), ca.replace("\r\n", "\n"));
    let text = published["data"]["client-ca-file"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(text, expected.replace("\r\n", "\n"));
}
