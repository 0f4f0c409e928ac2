//! Whole sessions with an API server over TLS and HTTP/2, including every failure.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use evenkeel_apiserver::{ApiServer, User};
#[cfg(unix)]
use evenkeel_client::auth::ExecPlugin;
use evenkeel_client::config::{Auth, Identity, Overrides, Pem, PrivateKey, ServerUrl};
use evenkeel_client::{Client, Config, ListParams, Patch, Path, Unstructured, WatchParams, Wire};
use evenkeel_core::WatchEvent;
use http::Method;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use serde_json::json;

use crate::log_capture::{
    CANARY, assert_clean, assert_hidden, assert_nothing_was_logged, assert_quiet, listen, watch_for,
};

fn secret(name: &str) -> Secret {
    let data = BASE64_STANDARD.encode(CANARY);
    serde_json::from_value(json!({"metadata": {"name": name}, "type": "Opaque", "data": {"password": data}})).unwrap()
}

/// A client of this server that trusts it, and has no credentials yet.
fn config(server: &ApiServer) -> Config {
    let mut config = Config::new(ServerUrl::parse(server.url()).unwrap());
    config.tls.ca = server.ca_pem().map(|pem| Pem::Data(pem.to_owned()));
    config
}

async fn token_server() -> ApiServer {
    let user = User { name: "user".into(), groups: vec!["system:masters".into()], ..User::default() };
    ApiServer::builder().tls().tokens([(CANARY.to_owned(), user)]).start().await.unwrap()
}

fn users(server: &ApiServer) -> Vec<String> {
    server.requests().into_iter().map(|request| request.user).collect()
}

#[tokio::test]
async fn sec_5_a_session_with_a_token_does_not_log_it() {
    session(Wire::Json).await;
}

#[tokio::test]
async fn sec_5_a_protobuf_session_logs_no_contents() {
    session(Wire::Protobuf).await;
}

async fn session(wire: Wire) {
    listen();
    let server = token_server().await;
    let mut config = config(&server);
    config.wire = wire;
    config.auth = Auth::Token(CANARY.into());
    let client = Client::new(config).unwrap();
    let secrets = client.core_v1().secrets("default");

    let mut watch = secrets.watch(&WatchParams::default()).await.unwrap();
    let created = secrets.create(&secret("a")).await.unwrap();
    assert_eq!(created.typed().unwrap().data.as_ref().unwrap()["password"].0, CANARY.as_bytes(), "it came back");
    assert_hidden("an object", &created);
    loop {
        let event = watch.next().await.unwrap().unwrap();
        assert_hidden("a watch", &(&event, &watch));
        if matches!(event, WatchEvent::Added(_)) {
            break;
        }
    }
    let list = secrets.list(&ListParams::default()).await.unwrap();
    assert_hidden("a list", &list);
    let patch = Patch::merge(&json!({"stringData": {"more": CANARY}}));
    assert_hidden("what a patch made", &secrets.patch("a", &patch).await.unwrap());
    let answer = secrets.get("a").send().await.unwrap();
    let encoded = BASE64_STANDARD.encode(CANARY);
    let shown = if wire == Wire::Protobuf { CANARY } else { &encoded };
    assert!(answer.bytes().windows(shown.len()).any(|bytes| bytes == shown.as_bytes()), "it is in there, in its form");
    assert_hidden("an answer", &answer);
    assert_hidden("an answer that was read", &answer.object::<Secret>(&client.resource::<Secret>()).unwrap());
    let dynamic = client.dynamic(&client.resource::<Secret>()).namespace("default").wire(wire);
    assert_hidden("a dynamic object", &dynamic.get("a").await.unwrap());

    // The failures.
    assert_quiet("a name that is taken", secrets.create(&secret("a")).await.unwrap_err());
    assert_quiet("a name that is not there", secrets.get("b").await.unwrap_err());
    let mut stale = secret("a");
    stale.metadata.resource_version = Some("1".into());
    assert_quiet("a conflict", secrets.update(&stale).await.unwrap_err());
    let odd = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}, "data": {"k": CANARY, "l": [CANARY]}
    });
    assert_quiet("an invalid Secret", dynamic.create(&Unstructured::from(odd)).await.unwrap_err());
    for code in [429, 500] {
        server.faults().fail_next(1, code, None);
        assert_quiet("an error of the server", secrets.get("a").await.unwrap_err());
    }
    server.faults().cut_connections();
    secrets.get("a").await.unwrap();
    // The watch may have been cut as well; its error must not show what it carried.
    if let Ok(Some(Err(error))) = tokio::time::timeout(Duration::from_secs(5), watch.next()).await {
        assert_quiet("a watch that ended", error);
    }

    assert!(users(&server).iter().any(|user| user == "user"), "the server knew the token: {:?}", users(&server));
    server.shutdown().await;
    assert_quiet("a server that is gone", secrets.create(&secret("z")).await.unwrap_err());
    let heard = assert_nothing_was_logged();
    assert!(heard.contains(" TRACE h2::"), "the library below was heard as well");
    assert!(heard.contains("evenkeel.request method=POST"), "and so were we");
    assert!(heard.contains("rest_client_requests_total"), "and so were the metrics");
}

#[tokio::test]
async fn sec_5_issued_and_rejected_tokens_are_not_shown() {
    listen();
    let server = token_server().await;
    let mut known = config(&server);
    known.auth = Auth::Token(CANARY.into());
    let client = Client::new(known).unwrap();
    let accounts = client.core_v1().service_accounts("default");
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&account).await.unwrap();
    let asked: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let call = accounts.create_token("robot", &asked);
    assert_hidden("a call", &call);
    let answer = call.send().await.unwrap();
    let made: TokenRequest = answer.json().unwrap();
    let token = made.status.unwrap().token.unwrap();
    watch_for(&token);
    assert_hidden("an answer with a token", &answer);

    let maps = || client.request(Method::GET, Path::resource(&client.resource::<ConfigMap>()));
    let request = maps().header(AUTHORIZATION, &format!("Bearer {token}"));
    assert_hidden("a request with a token", &request);
    request.send().await.unwrap();
    assert!(users(&server).contains(&"system:serviceaccount:default:robot".to_owned()), "the token was used");
    let forged = format!("Bearer {CANARY}-forged");
    let refused = maps().header(AUTHORIZATION, &forged).send().await.unwrap_err();
    assert!(refused.is_unauthorized());
    assert_quiet("an unknown token", refused);

    let mut unknown = config(&server);
    unknown.auth = Auth::Token(format!("{CANARY}-unknown").into());
    let unknown_client = Client::new(unknown).unwrap();
    let refused = unknown_client.core_v1().secrets("default").get("a").await.unwrap_err();
    assert!(refused.is_unauthorized());
    assert_quiet("an unknown client", refused);
    let mut distrusting = Config::new(ServerUrl::parse(server.url()).unwrap());
    distrusting.auth = Auth::Token(CANARY.into());
    let refused = Client::new(distrusting).unwrap().core_v1().secrets("default").get("a").await.unwrap_err();
    assert_quiet("a server that is not trusted", refused);
    assert_nothing_was_logged();
    server.shutdown().await;
}

#[tokio::test]
async fn sec_5_sec_9_a_client_key_is_never_shown() {
    listen();
    let server = ApiServer::builder().tls().start().await.unwrap();
    let inline = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    let Some(Identity { certificate: Pem::Data(certificate), key: PrivateKey::Data(key) }) =
        inline.tls.identity.clone()
    else {
        panic!("the kubeconfig of a server with TLS has a certificate in it")
    };
    watch_for(key.expose());
    let folder = std::env::temp_dir().join(format!("evenkeel-canary-key-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate_file, key_file) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate_file, &certificate).unwrap();
    std::fs::write(&key_file, key.expose()).unwrap();
    let mut files = inline.clone();
    files.tls.identity =
        Some(Identity { certificate: Pem::File(certificate_file), key: PrivateKey::File(key_file.clone()) });

    for config in [&inline, &files] {
        assert_hidden("a config", config);
        let client = Client::new(config.clone()).unwrap();
        assert_hidden("a client", &client);
        client.core_v1().secrets("default").list(&ListParams::default()).await.unwrap();
    }
    assert!(users(&server).iter().all(|user| !user.is_empty() && user != "system:anonymous"), "{:?}", users(&server));

    // A client key that is damaged in various ways.
    let other = ApiServer::builder().tls().start().await.unwrap();
    let other_key = match Config::from_kubeconfig_str(&other.kubeconfig(), &Overrides::default()).unwrap().tls.identity
    {
        Some(Identity { key: PrivateKey::Data(key), .. }) => key,
        _ => panic!("the kubeconfig of a server with TLS has a key in it"),
    };
    watch_for(other_key.expose());
    let spoiled = [
        key.expose().replace("PRIVATE KEY", "CERTIFICATE"),
        key.expose().replace("-----END", "----END"),
        key.expose().chars().take(key.expose().len() / 2).collect(),
        key.expose().replacen('M', "!", 1),
        other_key.expose().to_owned(),
    ];
    for text in spoiled {
        std::fs::write(&key_file, &text).unwrap();
        let mut inline = inline.clone();
        inline.tls.identity =
            Some(Identity { certificate: Pem::Data(certificate.clone()), key: PrivateKey::Data(text.as_str().into()) });
        // A mismatched key may be detected only when the server requests it.
        for config in [inline, files.clone()] {
            match Client::new(config) {
                Err(error) => assert_quiet("a spoiled key", error),
                Ok(client) => {
                    let secrets = client.core_v1().secrets("default");
                    assert_quiet("a wrong key", secrets.list(&ListParams::default()).await.unwrap_err());
                }
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert_clean("a kubeconfig that is shown", &{
        let mut shown: evenkeel_client::config::Kubeconfig = server.kubeconfig().parse().unwrap();
        shown.shorten();
        shown.to_yaml().unwrap().expose().to_owned()
    });
    assert_nothing_was_logged();
    server.shutdown().await;
    other.shutdown().await;
}

#[cfg(unix)]
#[tokio::test]
async fn sec_5_sec_27_the_key_and_the_token_of_a_plugin_are_never_shown() {
    listen();
    let server = token_server().await;
    let mut config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    let Some(Identity { certificate: Pem::Data(certificate), key: PrivateKey::Data(key) }) = config.tls.identity.take()
    else {
        panic!("the kubeconfig of a server with TLS has a certificate in it")
    };
    watch_for(key.expose());
    let path = std::env::temp_dir().join(format!("evenkeel-canary-plugin-{}", std::process::id()));
    let print = |token: &str, certificate: &str, key: &str| {
        let mut status = json!({"token": token, "clientCertificateData": certificate, "clientKeyData": key});
        status.as_object_mut().unwrap().retain(|_, value| value != "");
        let head = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status});
        std::fs::write(&path, head.to_string()).unwrap();
    };
    // Each plugin is another one, because its arguments differ.
    let client = |number: usize| {
        let mut plugin = ExecPlugin::new("/bin/sh");
        let script = "cat \"$0\"";
        plugin.args = vec!["-c".into(), script.into(), path.display().to_string().into(), number.to_string().into()];
        let mut config = config.clone();
        config.auth = Auth::exec(plugin);
        assert_hidden("a config", &config);
        Client::new(config).unwrap()
    };
    print(CANARY, &certificate, key.expose());
    let working = client(0);
    let secrets = working.core_v1().secrets("default");
    secrets.list(&ListParams::default()).await.unwrap();
    assert_hidden("a client", &working);
    assert_eq!(users(&server), ["system:admin"], "the certificate was used");
    // The plugin runs again, and prints a token only.
    print(CANARY, "", "");
    server.faults().fail_next(1, 401, None);
    secrets.list(&ListParams::default()).await.unwrap();
    assert!(users(&server).contains(&"user".to_owned()), "the token was used: {:?}", users(&server));
    print(&format!("{CANARY}-unknown"), "", "");
    assert_quiet("an unknown token", client(1).core_v1().secrets("default").get("a").await.unwrap_err());

    let damaged: String = key.expose().chars().take(key.expose().len() / 2).collect();
    for (number, (certificate, key)) in [
        (certificate.as_str(), damaged.as_str()),
        (certificate.as_str(), CANARY),
        (key.expose(), certificate.as_str()),
        (certificate.as_str(), ""),
        ("", key.expose()),
    ]
    .into_iter()
    .enumerate()
    {
        print(CANARY, certificate, key);
        assert_quiet("a key of no use", client(2 + number).core_v1().secrets("default").get("a").await.unwrap_err());
    }
    std::fs::remove_file(&path).unwrap();
    let logged = assert_nothing_was_logged();
    assert!(logged.contains("the exec plugin returned a credential"), "it was captured");
    server.shutdown().await;
}
