//! Authentication at the server.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use evenkeel_apiserver::{ApiServer, User};
#[cfg(unix)]
use evenkeel_client::auth::ExecPlugin;
use evenkeel_client::config::{Auth, Identity, Impersonate, Kubeconfig, Overrides, Pem, PrivateKey};
use evenkeel_client::{Client, Config, Error, ListParams, WatchParams};
use evenkeel_core::WatchEvent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Tap, config, config_map, without_credentials};
#[cfg(unix)]
use crate::support::{accepted_since, reached};

/// Starts a server that authenticates the administrator by certificate, and these users by token.
async fn guarded(tokens: &[(&str, &str)]) -> ApiServer {
    let user = |name: &str| User { name: name.into(), groups: vec!["staff".into()], ..User::default() };
    let tokens = tokens.iter().map(|(token, name)| ((*token).to_owned(), user(name)));
    ApiServer::builder().tls().tokens(tokens).start().await.unwrap()
}

struct Me {
    name: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

async fn whoami(client: &Client) -> Result<Me, Error> {
    let review = client.authentication_v1().self_subject_reviews().create(&Default::default()).await?;
    let info = review.status.unwrap().user_info.unwrap();
    Ok(Me {
        name: info.username.unwrap(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default().into_iter().collect(),
    })
}

fn with_token(server: &ApiServer, token: &str) -> Config {
    let mut config = without_credentials(server);
    config.auth = Auth::Token(token.into());
    config
}

#[tokio::test]
async fn trn_011_a_client_certificate_authenticates() {
    let server = guarded(&[]).await;
    let me = whoami(&Client::new(config(&server)).unwrap()).await.unwrap();
    assert!(me.groups.contains(&"system:masters".to_owned()), "{:?}", me.groups);
    assert!(server.requests().iter().all(|request| request.user == me.name));
}

#[tokio::test]
async fn a_token_authenticates_and_a_wrong_one_is_an_error() {
    let server = guarded(&[("secret-of-ann", "ann")]).await;
    assert_eq!(whoami(&Client::new(with_token(&server, "secret-of-ann")).unwrap()).await.unwrap().name, "ann");

    let wrong = Client::new(with_token(&server, "secret-of-bob")).unwrap();
    let error = wrong.core_v1().pods("default").list(&ListParams::default()).await.unwrap_err();
    assert!(error.is_unauthorized());
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/default/pods: Unauthorized");
    assert!(!format!("{error:?} {wrong:?} {:?}", wrong.config()).contains("secret-of-bob"));
    assert_eq!(server.requests().len(), 2, "a fixed token does not get better by trying again");
    let error = wrong.core_v1().pods("default").watch(&WatchParams::default()).await.unwrap_err();
    assert!(error.is_unauthorized());
}

#[tokio::test]
async fn without_credentials_a_client_is_anonymous() {
    let server = ApiServer::builder().tls().anonymous(true).start().await.unwrap();
    let without = without_credentials(&server);
    // The same from the administrator's configuration, without its credentials.
    for config in [without, config(&server).anonymous()] {
        let error = whoami(&Client::new(config).unwrap()).await.err().unwrap();
        assert!(error.is_forbidden(), "{error}");
        assert!(error.to_string().contains("User \"system:anonymous\" cannot create"), "{error}");
    }
    let strict = guarded(&[]).await;
    assert!(whoami(&Client::new(without_credentials(&strict)).unwrap()).await.err().unwrap().is_unauthorized());
}

#[tokio::test]
async fn trn_005_impersonation() {
    let server = guarded(&[]).await;
    let mut config = config(&server);
    config.impersonate = Some(Impersonate {
        user: "jane".into(),
        groups: vec!["developers".into(), "admins".into()],
        extra: [("example.com/scope".to_owned(), vec!["one".to_owned(), "two".to_owned()])].into(),
        ..Impersonate::default()
    });
    let me = whoami(&Client::new(config).unwrap()).await.unwrap();
    assert_eq!(me.name, "jane");
    assert!(me.groups.contains(&"developers".to_owned()) && me.groups.contains(&"admins".to_owned()));
    assert_eq!(me.extra, [("example.com/scope".to_owned(), vec!["one".to_owned(), "two".to_owned()])]);
}

/// A file, removed on drop.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(name: &str, token: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-network-{name}-{}", std::process::id()));
        let file = TokenFile(path);
        file.write(token);
        file
    }

    fn write(&self, token: &str) {
        std::fs::write(&self.0, token).unwrap();
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // The lock of a kubeconfig.
        let name = self.0.file_name().unwrap().to_string_lossy();
        let _ = std::fs::remove_file(self.0.with_file_name(format!(".{name}.lock")));
    }
}

#[tokio::test]
async fn trn_016_a_rotated_token_is_read_after_a_401() {
    // Better than client-go, which rereads its token file on a timer only, regardless of a 401.
    let server = guarded(&[("first", "ann"), ("second", "ann-renewed")]).await;
    let file = TokenFile::new("rotated", "first\n");
    let mut config = without_credentials(&server);
    config.auth = Auth::TokenFile { path: file.0.clone(), fallback: None };
    let tap = Tap::default();
    let client = tap.client(config);
    assert_eq!(whoami(&client).await.unwrap().name, "ann");
    let maps = client.core_v1().config_maps("default");
    let mut watch = maps.watch(&WatchParams::default().without_bookmarks()).await.unwrap();

    // Nothing has caused a re-read yet.
    file.write("second");
    assert_eq!(whoami(&client).await.unwrap().name, "ann");
    // Now there is one. A write is retried too: the server rejected it.
    let refuse = evenkeel_apiserver::Faults::parse("status:code=401,times=1").unwrap();
    server.faults().add(refuse);
    let before = tap.attempts().len();
    maps.create(&config_map("a")).await.unwrap();
    let attempts = tap.attempts().split_off(before);
    let tokens: Vec<_> = attempts.iter().map(|attempt| attempt.authorization.as_deref().unwrap()).collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second"]);
    assert_eq!(whoami(&client).await.unwrap().name, "ann-renewed");
    let seen = watch.next().await.unwrap().unwrap();
    assert!(matches!(seen, WatchEvent::Added(map) if map.key().name() == "a"), "the watch lives on");

    // A token that stays invalid is rejected after the second read.
    file.write("wrong");
    let refuse = evenkeel_apiserver::Faults::parse("status:code=401,times=1").unwrap();
    server.faults().add(refuse);
    let before = tap.attempts().len();
    assert!(whoami(&client).await.err().unwrap().is_unauthorized());
    assert_eq!(tap.attempts().len() - before, 2);
}

/// Returns a plugin that runs this script.
#[cfg(unix)]
fn plugin(script: &str) -> Auth {
    let mut plugin = ExecPlugin::new("/bin/sh");
    plugin.args = vec!["-c".into(), script.into()];
    Auth::exec(plugin)
}

#[cfg(unix)]
#[tokio::test]
async fn exe_010_a_plugin_runs_again_after_a_401() {
    let server = guarded(&[("first", "ann"), ("second", "ann-renewed")]).await;
    let file = TokenFile::new("plugin", "first");
    let mut config = without_credentials(&server);
    let kind = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
    config.auth = plugin(&format!(r#"printf '{{{kind},"status":{{"token":"%s"}}}}' "$(cat '{}')""#, file.0.display()));
    let tap = Tap::default();
    let client = tap.client(config);
    assert_eq!(whoami(&client).await.unwrap().name, "ann");
    file.write("second");
    assert_eq!(whoami(&client).await.unwrap().name, "ann", "the token is reused");
    server.faults().add(evenkeel_apiserver::Faults::parse("status:code=401,times=1").unwrap());
    let before = tap.attempts().len();
    client.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    let attempts = tap.attempts().split_off(before);
    let tokens: Vec<_> = attempts.iter().map(|attempt| attempt.authorization.as_deref().unwrap()).collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second"]);
}

#[cfg(unix)]
#[tokio::test]
async fn exe_011_exe_012_a_certificate_of_a_plugin_authenticates() {
    let server = guarded(&[]).await;
    let mut config = config(&server);
    let Some(Identity { certificate: Pem::Data(certificate), key: PrivateKey::Data(key) }) = config.tls.identity.take()
    else {
        panic!("the server's kubeconfig has the certificate inline")
    };
    let status = serde_json::json!({"clientCertificateData": certificate, "clientKeyData": key.expose()});
    let credential = serde_json::json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status,
    });
    config.auth = plugin(&format!("cat <<'END'\n{credential}\nEND"));
    let client = Client::new(config.clone()).unwrap();
    let me = whoami(&client).await.unwrap();
    assert!(me.groups.contains(&"system:masters".to_owned()), "{:?}", me.groups);
    let opened = server.connections().accepted;
    whoami(&Client::new(config).unwrap()).await.unwrap();
    assert_eq!(server.connections().accepted, opened, "clients with equal plugins share connections");
}

#[cfg(unix)]
#[tokio::test]
async fn exe_012_chc_19_only_a_changed_certificate_of_a_plugin_replaces_the_connection() {
    for changed in [false, true] {
        let server = guarded(&[("first", "ann"), ("second", "ann")]).await;
        let mut config = config(&server);
        let Some(Identity { certificate: Pem::Data(certificate), key: PrivateKey::Data(key) }) =
            config.tls.identity.take()
        else {
            panic!("the server's kubeconfig has the certificate inline")
        };
        let credential = |token: &str, certificate: &str| {
            let status = serde_json::json!({
                "token": token, "clientCertificateData": certificate, "clientKeyData": key.expose(),
            });
            serde_json::json!({
                "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status,
            })
            .to_string()
        };
        let file = TokenFile::new(&format!("certificate-{changed}"), &credential("first", &certificate));
        config.auth = plugin(&format!("cat '{}'", file.0.display()));
        let tap = Tap::default();
        let client = tap.client(config);
        let maps = client.core_v1().config_maps("default");
        whoami(&client).await.unwrap();
        let mut watch = maps.watch(&WatchParams::default().without_bookmarks()).await.unwrap();
        let before = server.connections();

        // The same certificate with that of its issuer is another one.
        let chain = format!("{certificate}{}", server.ca_pem().unwrap());
        file.write(&credential("second", if changed { &chain } else { &certificate }));
        server.faults().add(evenkeel_apiserver::Faults::parse("status:code=401,times=1").unwrap());
        maps.create(&config_map("a")).await.unwrap();
        assert_eq!(tap.attempts().last().unwrap().authorization.as_deref(), Some("Bearer second"));
        let opened = u64::from(changed);
        assert_eq!(accepted_since(&server, before), opened);
        let seen = watch.next().await.unwrap().unwrap();
        assert!(matches!(seen, WatchEvent::Added(map) if map.key().name() == "a"), "the watch lives on");
        for _ in 0..5 {
            whoami(&client).await.unwrap();
        }
        assert_eq!(accepted_since(&server, before), opened, "replaced once");
        // The old connections, of requests and of watches, are closed after their last request.
        drop(watch);
        let open = if changed { 1 } else { before.open };
        reached(|| server.connections().open == open).await;
        whoami(&client).await.unwrap();
        assert_eq!((server.connections().open, accepted_since(&server, before)), (open, opened));
        server.shutdown().await;
    }
}

/// Returns an id token with this expiry.
fn id_token(exp: u64, name: &str) -> String {
    format!("e30.{}.{name}", BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{exp}}}"#)))
}

/// Starts an issuer that returns these id tokens in turn, each with a new refresh token. It accepts a refresh token once.
async fn issuer(id_tokens: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let discovery = format!(r#"{{"token_endpoint":"{url}/token"}}"#);
    tokio::spawn(async move {
        let mut id_tokens = id_tokens.into_iter().enumerate();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = String::new();
            let mut buffer = [0; 4096];
            while !request.starts_with("GET") && !request.contains("grant_type") || !request.contains("\r\n\r\n") {
                let length = stream.read(&mut buffer).await.unwrap();
                if length == 0 {
                    break;
                }
                request.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
            let (code, body) = if request.starts_with("GET /.well-known/openid-configuration ") {
                (200, discovery.clone())
            } else {
                match id_tokens.next() {
                    Some((index, token)) if request.contains(&format!("refresh_token=refresh-{index}")) => {
                        (200, format!(r#"{{"id_token":"{token}","refresh_token":"refresh-{}"}}"#, index + 1))
                    }
                    _ => (400, r#"{"error":"invalid_grant"}"#.to_owned()),
                }
            };
            let head = format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // A client may close early.
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn oid_005_refreshed_tokens_authenticate_and_are_written_to_the_kubeconfig() {
    const VALID: u64 = 4_102_444_800;
    let (first, second) = (id_token(VALID, "Zmlyc3Q"), id_token(VALID, "c2Vjb25k"));
    let server = guarded(&[(&first, "ann"), (&second, "ann-renewed")]).await;
    let issuer = issuer(vec![first.clone(), second.clone()]).await;
    let kubeconfig = format!(
        "clusters: [{{name: c, cluster: {{server: '{}', certificate-authority-data: {}}}}}]
users:
- name: ann
  user:
    auth-provider:
      name: oidc
      config: {{idp-issuer-url: '{issuer}', client-id: c, id-token: {}, refresh-token: refresh-0}}
contexts: [{{name: it, context: {{cluster: c, user: ann}}}}]
current-context: it
",
        server.url(),
        BASE64_STANDARD.encode(server.ca_pem().unwrap()),
        id_token(1, "b2xk"),
    );
    let file = TokenFile::new("oidc", &kubeconfig);
    let stored = || {
        let config = Kubeconfig::parse(&std::fs::read_to_string(&file.0).unwrap()).unwrap();
        let settings = &config.users["ann"].auth_provider.as_ref().unwrap().config;
        (settings["id-token"].expose().to_owned(), settings["refresh-token"].expose().to_owned())
    };
    let tap = Tap::default();
    let client = tap.client(Config::from_kubeconfig_file(&file.0, &Overrides::default()).unwrap());
    assert_eq!(whoami(&client).await.unwrap().name, "ann");
    assert_eq!(stored(), (first.clone(), "refresh-1".to_owned()));

    server.faults().add(evenkeel_apiserver::Faults::parse("status:code=401,times=1").unwrap());
    let before = tap.attempts().len();
    client.core_v1().config_maps("default").create(&config_map("a")).await.unwrap();
    let attempts = tap.attempts().split_off(before);
    let tokens: Vec<_> = attempts.iter().map(|attempt| attempt.authorization.clone().unwrap()).collect();
    assert_eq!(tokens, [format!("Bearer {first}"), format!("Bearer {second}")], "a 401 refreshes");
    assert_eq!(whoami(&client).await.unwrap().name, "ann-renewed");
    assert_eq!(stored(), (second.clone(), "refresh-2".to_owned()));

    // Another program of the same user needs no refresh.
    let other = Client::new(Config::from_kubeconfig_file(&file.0, &Overrides::default()).unwrap()).unwrap();
    assert_eq!(whoami(&other).await.unwrap().name, "ann-renewed");
}

/// The test that this program runs again in a process with its own environment.
const INFERRED: &str = "credentials::a_client_is_inferred_from_the_environment";

#[tokio::test]
async fn a_client_is_inferred_from_the_environment() {
    if std::env::var_os("EVENKEEL_TEST_INFERS").is_some() {
        let client = Client::infer().await.unwrap();
        assert_eq!(client.config().namespace, "default");
        assert!(whoami(&client).await.unwrap().groups.contains(&"system:masters".to_owned()));
        return;
    }
    let server = guarded(&[]).await;
    let path = std::env::temp_dir().join(format!("evenkeel-network-infer-{}", std::process::id()));
    server.write_kubeconfig(&path).unwrap();
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", INFERRED]).env("EVENKEEL_TEST_INFERS", "1").env("KUBECONFIG", &path);
    // Loopback never uses a proxy, regardless of the environment.
    again.env("HTTPS_PROXY", "http://127.0.0.1:1");
    let ended = tokio::task::spawn_blocking(move || again.output()).await.unwrap().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert_eq!(server.requests().len(), 1);
}
