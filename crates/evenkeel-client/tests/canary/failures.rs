//! Servers that refuse, fail, send invalid responses and redirect, with every kind of credential.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use evenkeel_client::auth::{ExecPlugin, OidcProvider, OidcTokenStore, OidcTokens, Token, TokenSource};
use evenkeel_client::config::{Auth, HttpVersions, Overrides, Redirects, ServerUrl};
use evenkeel_client::transport::BoxError;
use evenkeel_client::{Client, Config, ListParams, Path, WatchParams};
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderName, Method};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::Secret;

use crate::log_capture::{CANARY, assert_hidden, assert_nothing_was_logged, assert_quiet, listen};
use crate::puppet::Puppet;

fn config(url: &str) -> Config {
    let mut config = Config::new(ServerUrl::parse(url).unwrap());
    config.retry.max_retries = 0;
    config
}

/// A token file, removed on drop.
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-canary-{test}-{}", std::process::id()));
        std::fs::write(&path, CANARY).unwrap();
        TokenFile(path)
    }

    /// Returns every kind of credential.
    pub(crate) fn auths(&self) -> [Auth; 7] {
        let mut plugin = ExecPlugin::new("/bin/sh");
        plugin.args = vec!["-c".into(), format!("echo {CANARY} >&2; cat <<'END'\n{}\nEND", printed(CANARY)).into()];
        plugin.env = vec![("SECRET".into(), CANARY.into())];
        // No issuer listens at this port.
        let mut provider = OidcProvider::new("http://127.0.0.1:1".parse().unwrap(), "client").with_store(Fixed);
        provider.client_secret = Some(CANARY.into());
        provider.id_token = Some(id_token(VALID, CANARY).into());
        provider.refresh_token = Some(CANARY.into());
        [
            Auth::exec(plugin),
            Auth::oidc(provider),
            Auth::source(Fixed),
            Auth::Token(CANARY.into()),
            Auth::TokenFile { path: self.0.clone(), fallback: None },
            Auth::TokenFile { path: self.0.with_extension("missing"), fallback: Some(CANARY.into()) },
            Auth::Basic { username: "u".into(), password: CANARY.into() },
        ]
    }
}

struct Fixed;

impl TokenSource for Fixed {
    async fn token(&self) -> Result<Token, BoxError> {
        Ok(Token::new(CANARY))
    }
}

impl OidcTokenStore for Fixed {
    async fn store(&self, _: &OidcTokens) -> Result<(), BoxError> {
        Ok(())
    }
}

/// An expiry in the year 2100.
const VALID: u64 = 4_102_444_800;

/// Returns an id token with this expiry and this signature.
fn id_token(exp: u64, signature: &str) -> String {
    format!("e30.{}.{signature}", BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{exp}}}"#)))
}

/// Returns the credential of a plugin.
fn printed(token: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": token},
    })
}

#[cfg(unix)]
#[tokio::test]
async fn sec_5_sec_27_no_plugin_that_fails_shows_a_credential() {
    listen();
    let server = Puppet::http(200, JSON, "{}").await;
    for (script, expected) in [
        ("echo $SECRET; echo $SECRET >&2; exit 1", "exit code 1: [redacted]"),
        ("echo $SECRET", "no ExecCredential in JSON"),
        ("printf '{\"status\":{\"token\":[\"%s\"]}}' $SECRET", "no ExecCredential in JSON"),
        ("printf '{\"kind\":\"%s\"}' $SECRET", "its kind is not ExecCredential"),
        ("yes $SECRET", "printed more than"),
        ("exec $SECRET", "[redacted]"),
    ] {
        let mut plugin = ExecPlugin::new("/bin/sh");
        plugin.args = vec!["-c".into(), script.into(), CANARY.into()];
        plugin.env = vec![("SECRET".into(), CANARY.into())];
        let mut config = config(&server.url());
        config.auth = Auth::exec(plugin);
        let client = Client::new(config).unwrap();
        let error = client.core_v1().secrets("default").get("a").await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("the exec plugin \"/bin/sh\" ") && cause.contains(expected), "{cause}");
        assert_quiet("a plugin that fails", error);
    }
    assert_eq!(server.heard().await, "", "nothing was sent");
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_5_no_oidc_refresh_shows_a_credential() {
    listen();
    let (new, path) = (id_token(VALID, CANARY), TokenFile::new("oidc"));
    let refreshed = format!(r#"{{"access_token":"{CANARY}","id_token":"{new}","refresh_token":"{CANARY}2"}}"#);
    let refused = format!(r#"{{"error":"invalid_grant","error_description":"{CANARY} {new}"}}"#);
    for (code, response, expected) in [
        (200, refreshed, None),
        (
            400,
            refused.clone(),
            Some("400 Bad Request: {\"error\":\"invalid_grant\",\"error_description\":\"[redacted]"),
        ),
        (200, refused, Some("it has no id_token")),
        (200, CANARY.to_owned(), Some("it is not the expected JSON")),
        (200, format!(r#"{{"id_token":"{CANARY}"}}"#), Some("the id token is no JWT")),
        (302, CANARY.to_owned(), Some("302 Found")),
    ] {
        let server = Puppet::http(403, JSON, "{}").await;
        let endpoint = Puppet::http(code, JSON, &response).await;
        let discovery = format!(r#"{{"token_endpoint":"{}/token?key={CANARY}"}}"#, endpoint.url());
        let issuer = Puppet::http(200, JSON, &discovery).await;
        let kubeconfig = format!(
            "clusters: [{{name: it, cluster: {{server: '{}'}}}}]
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
current-context: it
users:
- name: it
  user:
    auth-provider:
      name: oidc
      config: {{idp-issuer-url: '{}', client-id: c, client-secret: {CANARY}, id-token: {}, refresh-token: {CANARY}}}
",
            server.url(),
            issuer.url(),
            id_token(1, CANARY),
        );
        std::fs::write(&path.0, kubeconfig).unwrap();
        let config = Config::from_kubeconfig_file(&path.0, &Overrides::default()).unwrap();
        assert_hidden("a config", &config);
        let client = Client::new(config).unwrap();
        assert_hidden("a client", &client);
        let error = client.core_v1().secrets("default").get("a").await.unwrap_err();
        let asked = endpoint.heard().await;
        assert!(asked.contains(&format!("client_secret={CANARY}")), "{asked}");
        assert!(asked.contains(&format!("refresh_token={CANARY}")), "{asked}");
        match expected {
            None => {
                assert!(server.heard().await.contains(&format!("authorization: Bearer {new}\r\n")));
                let written = std::fs::read_to_string(&path.0).unwrap();
                assert!(written.contains(&new) && written.contains(&format!("refresh-token: {CANARY}2")), "{written}");
            }
            Some(expected) => {
                let cause = std::error::Error::source(&error).unwrap().to_string();
                assert!(cause.starts_with("user \"it\": the OIDC provider http://127.0.0.1:"), "{cause}");
                assert!(cause.contains(expected), "{cause}");
                assert_eq!(server.heard().await, "", "nothing was sent");
            }
        }
        assert_quiet("a refresh", error);
    }
    assert_nothing_was_logged();
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // The lock of a kubeconfig.
        let name = self.0.file_name().unwrap().to_string_lossy();
        let _ = std::fs::remove_file(self.0.with_file_name(format!(".{name}.lock")));
    }
}

const JSON: &str = "content-type: application/json\r\n";

/// Returns responses that are errors or cannot be decoded. A secret in one of them is the server's own.
fn answers() -> Vec<(u16, String, String)> {
    let json = |code, body: String| (code, JSON.to_owned(), body);
    let status = |code: u16, reason: &str| {
        json(
            code,
            format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code}}}"#),
        )
    };
    let protobuf = |body: String| (200, "content-type: application/vnd.kubernetes.protobuf\r\n".to_owned(), body);
    let length = |bytes: usize| char::from(u8::try_from(bytes).unwrap());
    vec![
        status(401, "Unauthorized"),
        status(403, "Forbidden"),
        status(500, "InternalError"),
        (401, "www-authenticate: Basic realm=\"x\"\r\n".into(), "who are you?".into()),
        (429, "retry-after: 0\r\n".into(), String::new()),
        (502, "content-type: text/html\r\n".into(), "<html>bad gateway</html>".into()),
        (200, format!("set-cookie: session={CANARY}\r\ncontent-type: image/png\r\n"), "{}".into()),
        json(200, CANARY.into()),
        json(200, format!("\"{CANARY}\"")),
        json(200, format!("{{\"kind\": \"Secret\", \"data\": {{\"k\": {CANARY}")),
        json(200, format!(r#"{{"kind":"Secret","apiVersion":"v1","metadata":"{CANARY}"}}"#)),
        json(200, format!(r#"{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":["{CANARY}"]}}}}"#)),
        json(200, format!(r#"{{"kind":"SecretList","apiVersion":"v1","items":["{CANARY}"]}}"#)),
        json(200, format!(r#"{{"type":"ADDED","object":"{CANARY}"}}"#)),
        json(200, format!(r#"{{"type":"ADDED","object":{{"kind":"Secret","data":{{"k":"{CANARY}"}}}}"#)),
        (200, format!("{JSON}content-encoding: gzip\r\n"), CANARY.into()),
        protobuf(CANARY.into()),
        protobuf(format!("k8s\0{CANARY}")),
        // Claims to be a Secret, and is not.
        protobuf(format!("k8s\0\n\x0c\n\x02v1\x12\x06Secret\x12{}{CANARY}", length(CANARY.len()))),
        // A Secret with a name, whose data is not a map.
        protobuf(format!(
            "k8s\0\n\x0c\n\x02v1\x12\x06Secret\x12{}\n\x03\n\x01a\x12{}{CANARY}",
            length(CANARY.len() + 7),
            length(CANARY.len())
        )),
        (302, format!("location: https://u:{CANARY}@elsewhere/x?token={CANARY}#{CANARY}\r\n"), String::new()),
        (307, format!("location: /x?token={CANARY}\r\n"), String::new()),
    ]
}

#[tokio::test]
async fn sec_5_no_failure_shows_credentials() {
    listen();
    let file = TokenFile::new("failures");
    for (code, headers, body) in answers() {
        for auth in file.auths() {
            let server = Puppet::http(code, &headers, &body).await;
            let mut config = config(&server.url());
            config.auth = auth.clone();
            // Responses with a `Retry-After` are retried once.
            config.retry.max_retries = 1;
            let client = Client::new(config).unwrap();
            let secrets = client.core_v1().secrets("default");
            let what = format!("{code} {headers:?} {body:?} for {auth:?}").replace(CANARY, "(canary)");
            match secrets.get("a").await {
                Err(error) => assert_quiet(&what, error),
                Ok(object) => {
                    assert_hidden(&what, &object);
                    if let Err(error) = object.typed() {
                        assert_quiet(&what, error);
                    }
                }
            }
            if let Ok(answer) = secrets.get("a").send().await {
                assert_hidden(&what, &answer);
                for error in [answer.json::<Secret>().err(), answer.json::<TokenRequest>().err()].into_iter().flatten()
                {
                    assert_quiet(&what, error);
                }
            }
            match secrets.list(&ListParams::default()).await {
                Err(error) => assert_quiet(&what, error),
                Ok(list) => assert_hidden(&what, &list),
            }
            match secrets.watch(&WatchParams::default()).await {
                Err(error) => assert_quiet(&what, error),
                Ok(mut watch) => {
                    while let Some(event) = watch.next().await {
                        match event {
                            Ok(event) => assert_hidden(&what, &event),
                            Err(error) => assert_quiet(&what, error),
                        }
                    }
                }
            }
            let heard = server.heard().await;
            let expected = match auth {
                Auth::Basic { .. } => "authorization: Basic ".to_owned(),
                Auth::Oidc(_) => format!("authorization: Bearer {}\r\n", id_token(VALID, CANARY)),
                _ => format!("authorization: Bearer {CANARY}\r\n"),
            };
            assert!(heard.contains(&expected), "the server received: {heard}");
        }
    }
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_5_user_headers_are_not_shown() {
    listen();
    let names = [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, HeaderName::from_static("x-remote-user")];
    for name in names {
        let server = Puppet::http(403, "", "no").await;
        let client = Client::new(config(&server.url())).unwrap();
        let request = client.request(Method::GET, Path::raw("/x")).header(name.clone(), CANARY);
        assert_hidden("a request", &request);
        assert_quiet("a refusal", request.send().await.unwrap_err());
        assert!(server.heard().await.contains(&format!("{name}: {CANARY}")), "{}", server.heard().await);
    }
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_5_errors_of_malformed_responses_show_no_credential() {
    listen();
    let file = TokenFile::new("improper");
    let nonsense =
        ["", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", "\0\0\0", "HTTP/1.1 200"];
    for answer in nonsense {
        for auth in file.auths() {
            for http in [HttpVersions::Http1Only, HttpVersions::Http2Only] {
                let server = Puppet::new(answer).await;
                let mut config = config(&server.url());
                config.auth = auth.clone();
                config.connections.http = http;
                let client = Client::new(config).unwrap();
                let error = client.core_v1().secrets("default").get("a").await.unwrap_err();
                assert_quiet("a server that speaks nonsense", error);
            }
        }
    }
    let gone = Puppet::http(200, "", "").await.url();
    for auth in file.auths() {
        let mut config = config(&gone);
        config.auth = auth;
        let client = Client::new(config).unwrap();
        assert_quiet("connection refused", client.core_v1().secrets("default").get("a").await.unwrap_err());
    }
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_39_sec_5_a_redirect_carries_no_credential() {
    listen();
    let elsewhere = Puppet::http(200, JSON, "{}").await;
    for redirects in [Redirects::Refuse, Redirects::SameOrigin] {
        let location = format!("location: {}/collect\r\n", elsewhere.url());
        let server = Puppet::http(302, &location, "").await;
        let mut config = config(&server.url());
        config.auth = Auth::Token(CANARY.into());
        config.redirects = redirects;
        let client = Client::new(config).unwrap();
        let error = client.request(Method::GET, Path::raw("/x")).send().await.unwrap_err();
        assert_quiet("a redirect", error);
        assert!(server.heard().await.contains(CANARY));
    }
    assert_eq!(elsewhere.heard().await, "", "another port heard nothing");
    assert_nothing_was_logged();
}
