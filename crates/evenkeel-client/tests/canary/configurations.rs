//! Configurations, and everything that is built from them before a request is sent.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use evenkeel_client::api::groups;
use evenkeel_client::auth::{AuthProxyLayer, DebugHeaders, ExecPlugin, OidcProvider, Token, TokenSource};
use evenkeel_client::config::kubeconfig::{Data, Opaque};
use evenkeel_client::config::{
    Auth, Environment, Identity, Impersonate, Kubeconfig, KubeconfigFiles, Overrides, Pem, PrivateKey, Proxy, ProxyUrl,
};
use evenkeel_client::transport::BoxError;
use evenkeel_client::{Client, ClientBuilder, Config, Patch, Path, Query, Secret};
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use k8s_openapi::api::core::v1 as core;
use serde_json::json;
use tower_layer::Layer as _;

use crate::log_capture::{CANARY, assert_hidden, assert_nothing_was_logged, assert_quiet, listen};

fn canary() -> Secret {
    Secret::new(CANARY)
}

fn config() -> Config {
    Config::new("https://h".parse().unwrap())
}

/// Returns every kind of credential.
fn auths() -> [Auth; 7] {
    let mut plugin = ExecPlugin::new("get-token");
    plugin.args = vec![canary()];
    plugin.env = vec![("SECRET".into(), canary())];
    plugin.cluster_config = Some(Opaque(json!(CANARY)));
    let mut provider = OidcProvider::new("https://issuer".parse().unwrap(), "client");
    provider.client_secret = Some(canary());
    provider.ca = Some(Pem::Data(CANARY.into()));
    provider.id_token = Some(canary());
    provider.refresh_token = Some(canary());
    [
        Auth::exec(plugin),
        Auth::oidc(provider),
        Auth::source(Fixed),
        Auth::Token(canary()),
        Auth::TokenFile { path: "/none/token".into(), fallback: Some(canary()) },
        Auth::TokenFile { path: "/none/token".into(), fallback: None },
        Auth::Basic { username: "u".into(), password: canary() },
    ]
}

struct Fixed;

impl TokenSource for Fixed {
    async fn token(&self) -> Result<Token, BoxError> {
        Ok(Token::new(CANARY))
    }
}

/// Returns a kubeconfig with a canary in every field that holds or may hold a credential.
fn kubeconfig() -> String {
    let data = BASE64_STANDARD.encode(CANARY);
    format!(
        "mine: {CANARY}
extensions: [{{name: e, extension: {{deep: [{CANARY}]}}}}]
clusters:
- name: it
  mine: {CANARY}
  cluster:
    server: https://u:{CANARY}@h
    proxy-url: 'http://u:{CANARY}@p'
    certificate-authority-data: {data}
    mine: {CANARY}
    extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: {CANARY}}}}}]
users:
- name: it
  user:
    token: {CANARY}
    username: u
    password: {CANARY}
    client-certificate-data: {data}
    client-key-data: {data}
    mine: {CANARY}
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: get-token
      args: [--secret, {CANARY}]
      env: [{{name: SECRET, value: {CANARY}, mine: {CANARY}}}]
      config: {{secret: {CANARY}}}
    auth-provider: {{name: oidc, config: {{client-secret: {CANARY}, refresh-token: {CANARY}}}, mine: {CANARY}}}
contexts: [{{name: it, context: {{cluster: it, user: it, extensions: [{{name: e, extension: {CANARY}}}]}}}}]
current-context: it
"
    )
}

#[test]
fn sec_1_no_configuration_shows_a_credential() {
    listen();
    for auth in auths() {
        let mut one = config();
        assert_hidden("auth", &auth);
        one.auth = auth;
        one.tls.ca = Some(Pem::Data(CANARY.into()));
        let identity = Identity { certificate: Pem::Data(CANARY.into()), key: PrivateKey::Data(canary()) };
        one.tls.identity = Some(identity);
        one.proxy = Proxy::Url(ProxyUrl::parse(&format!("socks5://{CANARY}:{CANARY}@p")).unwrap());
        assert_hidden("a config", &one);
        assert_hidden("its parts", &(&one.tls, &one.auth, &one.proxy, &one.impersonate));
        assert_hidden("an anonymous config", &one.anonymous());
        if let Proxy::Url(proxy) = &one.proxy {
            assert_hidden("a proxy", &format_args!("{proxy} {proxy:?}"));
        }
    }
    let overrides = Overrides {
        server: Some(format!("https://u:{CANARY}@h").into()),
        certificate_authority: Some(Pem::Data(CANARY.into())),
        client_certificate: Some(Pem::Data(CANARY.into())),
        client_key: Some(PrivateKey::Data(canary())),
        token: Some(canary()),
        basic: Some(("u".into(), canary())),
        proxy: Some(Proxy::Url(ProxyUrl::parse(&format!("http://u:{CANARY}@p")).unwrap())),
        ..Overrides::default()
    };
    assert_hidden("overrides", &overrides);
    assert_hidden("a secret", &(canary(), Data::new(CANARY), Opaque(json!({"k": CANARY}))));
    assert_nothing_was_logged();
}

#[test]
fn sec_1_no_kubeconfig_shows_a_credential() {
    listen();
    let text = kubeconfig();
    let parsed = Kubeconfig::parse(&text).unwrap();
    let written = parsed.to_yaml().unwrap();
    assert!(written.expose().matches(CANARY).count() >= 16, "they are all there: {}", written.expose());
    assert_hidden("what is written", &written);
    assert_hidden("a kubeconfig", &parsed);
    assert_hidden("a cluster", &parsed.clusters["it"]);
    let user = &parsed.users["it"];
    assert_hidden("a user", &(user, &user.exec, &user.auth_provider));
    assert_quiet("all that is wrong with it", parsed.validate().unwrap_err());
    assert_quiet("all that is wrong with what is chosen", parsed.config(&Overrides::default()).unwrap_err());
    assert_quiet("what it may not have", Config::from_untrusted(&text).unwrap_err());

    let folder = std::env::temp_dir().join(format!("evenkeel-canary-{}", std::process::id()));
    let path = folder.join("config");
    parsed.write_to(&path).unwrap();
    let files = KubeconfigFiles::explicit(&path);
    assert_hidden("files", &(&files, files.load()));
    files.edit(|config| config.users.get_mut("it").unwrap().token = Some(Secret::new(format!("{CANARY}2")))).unwrap();
    let mut environment = Environment::empty();
    environment.kubeconfig = Some(path.clone().into());
    assert_quiet("what is inferred", environment.infer(&Overrides::default()).unwrap_err());
    std::fs::write(&path, text.replace("users:", "users: {")).unwrap();
    assert_quiet("a broken file", files.load().into_config().unwrap_err());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_nothing_was_logged();
}

#[test]
fn sec_1_syntax_errors_do_not_quote_the_text() {
    listen();
    let data = BASE64_STANDARD.encode(CANARY);
    for text in [
        CANARY.to_owned(),
        format!("users: {CANARY}"),
        format!("users: [{CANARY}]"),
        format!("users: [{{name: u, user: {{token: [{CANARY}]}}}}]"),
        format!("users: [{{name: u, user: {{token: {{a: {CANARY}}}}}}}]"),
        format!("users: [{{name: u, user: {{client-key-data: '{CANARY}!'}}}}]"),
        format!("users: [{{name: u, user: {{client-key-data: {data}, client-key-data: {data}}}}}]"),
        format!("users: [{{name: u, user: {{exec: {{args: {CANARY}}}}}}}]"),
        format!("users: [{{name: u, user: {{exec: {{env: [{CANARY}]}}}}}}]"),
        format!("users: [{{name: u, user: {{auth-provider: {{config: {CANARY}}}}}}}]"),
        format!("clusters: [{{name: u, cluster: {{insecure-skip-tls-verify: {CANARY}}}}}]"),
        format!("token: \"{CANARY}"),
        format!("token: !!int {CANARY}"),
        format!("apiVersion: {CANARY}"),
        format!("{CANARY}: 1\n{CANARY}: 2"),
        format!("*{CANARY}"),
    ] {
        let Err(error) = Kubeconfig::parse(&text) else { continue };
        assert_quiet(&format!("the error about {text:?}"), error);
    }
    for url in [
        format!("https://u:{CANARY}@h:x"),
        format!("https://h:{CANARY}@"),
        format!("ftp://u:{CANARY}@h"),
        format!("https://h?token={CANARY} "),
    ] {
        assert!(!url.is_empty());
        if let Err(error) = url.parse::<evenkeel_client::config::ServerUrl>() {
            assert_quiet("the error about a server", error);
        }
        assert_quiet("the error about a proxy", ProxyUrl::parse(&url).unwrap_err());
    }
    assert_nothing_was_logged();
}

#[test]
fn sec_1_build_errors_show_no_credential() {
    listen();
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut one = config();
        change(&mut one);
        Client::new(one).unwrap_err()
    };
    let identity = |certificate: String, key: String| {
        move |config: &mut Config| {
            let (certificate, key) = (Pem::Data(certificate.clone()), PrivateKey::Data(Secret::new(key.clone())));
            config.tls.identity = Some(Identity { certificate, key });
        }
    };
    let pem = |label: &str| format!("-----BEGIN {label}-----\n{CANARY}\n-----END {label}-----\n");
    let encoded = BASE64_STANDARD.encode(CANARY);
    let sound = |label: &str| format!("-----BEGIN {label}-----\n{encoded}\n-----END {label}-----\n");
    let errors = [
        refused(&|config| config.auth = Auth::Token(Secret::new(format!("{CANARY}\n{CANARY}")))),
        refused(&|config| config.auth = Auth::Basic { username: "a:b".into(), password: canary() }),
        refused(&|config| {
            config.auth = Auth::Basic { username: "u".into(), password: Secret::new(format!("\0{CANARY}")) }
        }),
        refused(&|config| {
            config.server = "http://h".parse().unwrap();
            config.auth = Auth::Token(canary());
        }),
        refused(&|config| config.tls.ca = Some(Pem::Data(CANARY.into()))),
        refused(&|config| config.tls.ca = Some(Pem::Data(sound("CERTIFICATE")))),
        refused(&identity(CANARY.into(), CANARY.into())),
        refused(&identity(sound("CERTIFICATE"), pem("PRIVATE KEY"))),
        refused(&identity(sound("CERTIFICATE"), sound("PRIVATE KEY"))),
        refused(&identity(sound("PRIVATE KEY"), sound("CERTIFICATE"))),
        refused(&identity(sound("CERTIFICATE"), sound("ENCRYPTED PRIVATE KEY"))),
    ];
    for error in errors {
        assert_quiet("why there is no client", error);
    }
    assert_nothing_was_logged();
}

#[test]
fn sec_3_sec_5_no_request_shows_a_credential() {
    listen();
    let mut one = config();
    one.auth = Auth::Token(canary());
    let builder = ClientBuilder::new(one).unwrap();
    assert_hidden("a builder", &builder);
    let client = builder.build().unwrap();
    assert_hidden("a client", &client);
    assert_hidden("its config", client.config());
    let _: groups::CoreV1 = client.core_v1();

    let secret: core::Secret = serde_json::from_value(json!({
        "metadata": {"name": "s"}, "stringData": {"k": CANARY}, "data": {"k": BASE64_STANDARD.encode(CANARY)}
    }))
    .unwrap();
    let request = client
        .request(Method::POST, Path::raw("/api"))
        .header(AUTHORIZATION, &format!("Bearer {CANARY}"))
        .header(PROXY_AUTHORIZATION, CANARY)
        .header(COOKIE, CANARY)
        .header(HeaderName::from_static("x-remote-user"), CANARY)
        .query("token", CANARY)
        .json(&secret);
    assert_hidden("a request", &request);
    let bad = client.request(Method::GET, Path::raw("/api")).header(AUTHORIZATION, &format!("{CANARY}\n"));
    assert_hidden("a request that will fail", &bad);
    let mut query = Query::new();
    query.add("token", CANARY);
    assert_hidden("a query", &query);

    let secrets = client.core_v1().secrets("default");
    assert_hidden("an API", &secrets);
    let patches = [Patch::merge(&secret), Patch::json(&secret), Patch::strategic(&secret), Patch::apply(&secret)];
    for patch in patches {
        assert_hidden("a patch", &(&patch, secrets.patch("s", &patch)));
    }
    assert_hidden("writes", &(secrets.create(&secret), secrets.update(&secret), secrets.apply("s", "me", &secret)));

    let mut headers = HeaderMap::new();
    for name in ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-remote-user", "x-remote-extra-a"] {
        headers.append(name, HeaderValue::from_static(CANARY));
    }
    headers.append(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {CANARY}")).unwrap());
    assert_hidden("headers", &DebugHeaders(&headers));
    let layer = AuthProxyLayer::new(&Impersonate { user: CANARY.into(), ..Impersonate::default() }).unwrap();
    assert_hidden("a layer", &(&layer, layer.layer(())));
    assert_nothing_was_logged();
}
