//! Logs of pods, and tokens of service accounts.

use evenkeel_apiserver::{ApiServer, LogStream};
use evenkeel_client::{Client, Error, ListParams};
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::{Value, json};

/// The audience that the embedded server accepts as its own.
const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn with_pod(containers: &[&str]) -> (ApiServer, Client) {
    let server = ApiServer::builder().token("admin").start().await.unwrap();
    let client = server.client();
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let pod: Pod = from(json!({"metadata": {"name": "a"}, "spec": {"containers": containers}}));
    client.core_v1().pods("default").create(&pod).await.unwrap();
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn msc_5_a_log_contains_what_was_written() {
    let (server, client) = with_pod(&["c"]).await;
    let pods = client.core_v1().pods("default");
    assert_eq!(pods.logs("a").await.unwrap(), "", "no container is created before the pod has a node");
    pods.bind(&from(json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}))).await.unwrap();
    let waiting = pods.logs("a").await.unwrap_err();
    assert!(waiting.to_string().ends_with("container \"c\" in pod \"a\" is waiting to start: ContainerCreating"));

    let log = server.logs().container("default", "a", "c");
    log.write("one\ntwo\nthr");
    assert_eq!(pods.logs("a").await.unwrap(), "one\ntwo\n", "a line is shown when it is whole");
    tokio::time::advance(std::time::Duration::from_secs(100)).await;
    log.write("ee\n");
    log.write_to(LogStream::Stderr, "oops\n");
    assert_eq!(pods.logs("a").container("c").await.unwrap(), "one\ntwo\nthree\noops\n");
    assert_eq!(pods.logs("a").tail_lines(2).await.unwrap(), "three\noops\n");
    assert_eq!(pods.logs("a").limit_bytes(5).await.unwrap(), "one\nt");
    assert_eq!(pods.logs("a").only(evenkeel_client::api::LogStream::Stderr).await.unwrap(), "oops\n");
    assert_eq!(pods.logs("a").since(std::time::Duration::from_secs(50)).await.unwrap(), "oops\n");
    let stamped = pods.logs("a").timestamps().tail_lines(1).await.unwrap();
    let (time, text) = stamped.split_once(' ').unwrap();
    assert_eq!(text, "oops\n");
    let time: jiff::Timestamp = time.parse().unwrap();
    assert_eq!(pods.logs("a").since_time(time).await.unwrap(), "oops\n");

    let none = pods.logs("a").previous().await.unwrap_err();
    assert!(none.to_string().ends_with("previous terminated container \"c\" in pod \"a\" not found"), "{none}");
    log.restart();
    assert_eq!(pods.logs("a").await.unwrap(), "");
    assert_eq!(pods.logs("a").previous().tail_lines(1).await.unwrap(), "oops\n");
}

#[tokio::test(start_paused = true)]
async fn msc_5_invalid_log_requests() {
    let (server, client) = with_pod(&["c", "d"]).await;
    let pods = client.core_v1().pods("default");
    server.logs().container("default", "a", "c").write("x\n");
    let which = pods.logs("a").await.unwrap_err();
    let text = "a container name must be specified for pod a, choose one of: [c d]";
    assert_eq!(which.status().unwrap().message, text);
    assert_eq!(which.status().unwrap().code, 400);
    let unknown = pods.logs("a").container("e").await.unwrap_err();
    assert_eq!(unknown.status().unwrap().message, "container e is not valid for pod a");
    assert!(pods.logs("b").await.unwrap_err().is_not_found());
    let both = pods.logs("a").container("c").since(std::time::Duration::from_secs(1)).since_time(jiff::Timestamp::MIN);
    assert_eq!(both.await.unwrap_err().status().unwrap().code, 422);
    let nothing = pods.logs("a").container("c").limit_bytes(0).await.unwrap_err();
    assert_eq!(nothing.status().unwrap().code, 422);
}

#[tokio::test(start_paused = true)]
async fn wch_012_a_followed_log_continues_until_the_container_ends() {
    let (server, client) = with_pod(&["c"]).await;
    let log = server.logs().container("default", "a", "c");
    log.write("one\ntwo\n");
    let mut follow = client.core_v1().pods("default").logs("a").tail_lines(1).follow().stream().await.unwrap();
    assert_eq!(follow.next().await.unwrap().unwrap(), "two\n");
    log.write("three\n");
    assert_eq!(follow.next().await.unwrap().unwrap(), "three\n");
    log.write("no newline");
    log.end();
    assert_eq!(follow.next().await.unwrap().unwrap(), "no newline");
    assert!(follow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_authenticates_its_service_account() {
    let server = ApiServer::builder().token("admin").start().await.unwrap();
    let client = server.client();
    let accounts = client.core_v1().service_accounts("default");
    let account: ServiceAccount = from(json!({"metadata": {"name": "robot"}}));
    let created = accounts.create(&account).await.unwrap();
    let asked: TokenRequest = from(json!({"spec": {"audiences": ["me", API_AUDIENCE], "expirationSeconds": 600}}));
    let answer = accounts.create_token("robot", &asked).await.unwrap();
    assert_eq!(answer.spec.unwrap().audiences.unwrap(), ["me", API_AUDIENCE]);
    let token = answer.status.unwrap().token.unwrap();

    let whoami = || async {
        let reviews = client.authentication_v1().self_subject_reviews();
        let review = reviews.create(&Default::default());
        review.with(|request| request.header(AUTHORIZATION, &format!("Bearer {token}"))).await
    };
    let info = whoami().await.unwrap().status.unwrap().user_info.unwrap();
    assert_eq!(info.username.as_deref(), Some("system:serviceaccount:default:robot"));
    assert_eq!(info.uid.as_deref(), Some(created.uid()));
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(info.groups.unwrap(), groups);

    let forged = format!("{}x", &token[..token.len() - 1]);
    let list = client.core_v1().pods("default").list(&ListParams::default()).await;
    list.unwrap();
    let refused = client
        .request(http::Method::GET, evenkeel_client::Path::raw("/api/v1/pods"))
        .header(AUTHORIZATION, &format!("Bearer {forged}"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.status().unwrap().code, 401);

    // The leeway for clocks that differ is a minute.
    tokio::time::advance(std::time::Duration::from_secs(661)).await;
    assert_eq!(whoami().await.unwrap_err().status().unwrap().code, 401, "it has expired");
}

#[tokio::test(start_paused = true)]
async fn aut_5_a_token_is_invalid_after_its_object_was_deleted() {
    let (_server, client) = with_pod(&["c"]).await;
    let accounts = client.core_v1().service_accounts("default");
    let ask = |spec: Value| -> TokenRequest { from(json!({"spec": spec})) };
    let missing = accounts.create_token("robot", &ask(json!({"audiences": []}))).await.unwrap_err();
    assert!(missing.is_not_found());
    accounts.create(&from(json!({"metadata": {"name": "robot"}}))).await.unwrap();
    let short = accounts.create_token("robot", &ask(json!({"audiences": [], "expirationSeconds": 10})));
    let short = short.await.unwrap_err();
    assert!(matches!(&short, Error::Api { status, .. } if status.is_invalid()), "{short}");
    let elsewhere = json!({"audiences": [], "boundObjectRef": {"kind": "Pod", "name": "b", "apiVersion": "v1"}});
    assert!(accounts.create_token("robot", &ask(elsewhere)).await.unwrap_err().is_not_found());
    let of_pod =
        |name: &str| json!({"audiences": [], "boundObjectRef": {"kind": "Pod", "name": name, "apiVersion": "v1"}});
    let other_account = accounts.create_token("robot", &ask(of_pod("a"))).await.unwrap_err();
    assert!(matches!(&other_account, Error::Api { status, .. } if status.code == 400), "{other_account}");
    let spec = json!({"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    client.core_v1().pods("default").create(&from(json!({"metadata": {"name": "own"}, "spec": spec}))).await.unwrap();
    let here = of_pod("own");
    let token = accounts.create_token("robot", &ask(here)).await.unwrap().status.unwrap().token.unwrap();
    let pods = || {
        let pods = client.request(http::Method::GET, evenkeel_client::Path::raw("/api/v1/pods"));
        pods.header(AUTHORIZATION, &format!("Bearer {token}"))
    };
    pods().send().await.unwrap();
    client.core_v1().pods("default").delete("own").grace_period(0).await.unwrap();
    assert_eq!(pods().send().await.unwrap_err().status().unwrap().code, 401);
}

#[tokio::test(start_paused = true)]
async fn wch_012_a_followed_log_ends_with_its_run_when_the_container_restarts() {
    let (server, client) = with_pod(&["c"]).await;
    let log = server.logs().container("default", "a", "c");
    log.write("one\ntwo\n");
    let stream = client.core_v1().pods("default").logs("a").follow().stream().await.unwrap();
    let mut lines = stream.lines(1024);
    assert_eq!(lines.next().await.unwrap().unwrap(), "one");
    assert_eq!(lines.next().await.unwrap().unwrap(), "two");
    log.write("last words\n");
    log.restart();
    log.write("hello again\n");
    assert_eq!(lines.next().await.unwrap().unwrap(), "last words");
    assert!(lines.next().await.is_none());
    let mut again = client.core_v1().pods("default").logs("a").follow().stream().await.unwrap().lines(1024);
    assert_eq!(again.next().await.unwrap().unwrap(), "hello again");
}
