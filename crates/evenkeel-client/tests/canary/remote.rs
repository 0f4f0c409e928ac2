//! Processes in containers: the handshake carries the credentials.

use evenkeel_apiserver::{ApiServer, ContainerProcess, ExitStatus, User};
use evenkeel_client::config::{Auth, Pem, ServerUrl};
use evenkeel_client::{Client, Config};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::failures::TokenFile;
use crate::log_capture::{CANARY, assert_hidden, assert_nothing_was_logged, assert_quiet, listen};
use crate::puppet::Puppet;

/// Reads its input.
async fn read(mut process: ContainerProcess) -> ExitStatus {
    let read = tokio::io::copy(process.stdin.as_mut().unwrap(), &mut tokio::io::sink()).await;
    ExitStatus::exited(if read.is_ok() { 3 } else { 4 })
}

fn config(server: &ApiServer, token: String) -> Config {
    let mut config = Config::new(ServerUrl::parse(server.url()).unwrap());
    config.tls.ca = server.ca_pem().map(|pem| Pem::Data(pem.to_owned()));
    config.auth = Auth::Token(token.into());
    config.retry.max_retries = 0;
    config
}

#[tokio::test]
async fn sec_5_no_exec_and_no_attach_shows_a_credential() {
    listen();
    let user = User { name: "user".into(), groups: vec!["system:masters".into()], ..User::default() };
    let builder = ApiServer::builder().tls().tokens([(CANARY.to_owned(), user)]);
    let server = builder.exec(read).attach(read).start().await.unwrap();
    let client = Client::new(config(&server, CANARY.into())).unwrap();
    let pods = client.core_v1().pods("default");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "app", "image": "i"}]},
    }))
    .unwrap();
    pods.create(&pod).await.unwrap();

    let sessions = || [pods.exec("web-0", ["read"]).stdin(), pods.attach("web-0").stdin()];
    for session in sessions() {
        assert_hidden("a request", &session);
        let mut process = session.await.unwrap();
        assert_hidden("a process", &process);
        drop(process.stdin.take());
        assert_eq!(process.wait().await.unwrap().code(), 3);
    }
    let used = server.requests();
    assert_eq!(used.iter().filter(|request| request.user == "user").count(), 3, "the server knew the token");

    assert_quiet("an unknown pod", pods.exec("none", ["read"]).await.unwrap_err());
    for code in [401, 403, 500, 503] {
        for session in sessions() {
            server.faults().fail_next(1, code, None);
            assert_quiet("a refusal", session.await.unwrap_err());
        }
    }
    let unknown = Client::new(config(&server, format!("{CANARY}-unknown"))).unwrap();
    let refused = unknown.core_v1().pods("default").exec("web-0", ["read"]).await.unwrap_err();
    assert!(refused.is_unauthorized());
    assert_quiet("an unknown token", refused);
    for session in sessions() {
        let mut process = session.await.unwrap();
        server.faults().cut_connections();
        assert_quiet("a connection that is cut", process.wait().await.unwrap_err());
    }
    server.shutdown().await;
    for session in sessions() {
        assert_quiet("a server that is gone", session.await.unwrap_err());
    }
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_5_no_failed_handshake_shows_a_credential() {
    listen();
    let file = TokenFile::new("handshake");
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";
    let answers = [
        String::new(),
        "SSH-2.0-x\r\n".to_owned(),
        format!("{upgrade}\r\n"),
        format!("{upgrade}sec-websocket-accept: nonsense\r\nsec-websocket-protocol: nonsense\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{CANARY}", CANARY.len()),
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned(),
        format!("HTTP/1.1 302 Found\r\nlocation: https://u:{CANARY}@h/?t={CANARY}\r\ncontent-length: 0\r\n\r\n"),
    ];
    for answer in answers {
        for auth in file.auths() {
            let server = Puppet::new(answer.clone()).await;
            let mut config = Config::new(ServerUrl::parse(&server.url()).unwrap());
            config.retry.max_retries = 0;
            config.auth = auth;
            let pods = Client::new(config).unwrap().core_v1().pods("default");
            for session in [pods.exec("web-0", ["read"]).stdin(), pods.attach("web-0").stdin()] {
                assert_hidden("a request", &session);
                assert_quiet("a failed handshake", session.await.unwrap_err());
            }
            let heard = server.heard().await;
            assert!(heard.contains("authorization: B") && heard.contains("/pods/web-0/exec?"), "{heard}");
        }
    }
    assert_nothing_was_logged();
}
