//! Tokens in kubeconfig files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::auth::oidc::issuer::connector;
use crate::config::{Auth, Config, Environment, Kubeconfig, Overrides};
use crate::small_file::tests::Folder;
use crate::tls::tests::pki::{Authority, VALID, server};

/// Returns a kubeconfig with these tokens for the user `ann`.
fn kubeconfig(id_token: &str, refresh_token: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{server: 'https://h'}}}}]
contexts: [{{name: it, context: {{cluster: c, user: ann}}}}]
current-context: it
users:
- name: bob
  user: {{token: bob-token}}
- name: ann
  user:
    mine: kept
    auth-provider:
      name: oidc
      config:
        idp-issuer-url: {ISSUER}
        client-id: kube client
        client-secret: s&cret=1
        id-token: {id_token}
        refresh-token: {refresh_token}
        extra-scopes: groups
"
    )
}

fn provider_in(config: &Config) -> OidcProvider {
    match &config.auth {
        Auth::Oidc(provider) => (**provider).clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the id token and the refresh token in a file.
fn stored(path: &Path) -> (String, String) {
    let config = Kubeconfig::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let settings = &config.users["ann"].auth_provider.as_ref().unwrap().config;
    (settings["id-token"].expose().to_owned(), settings["refresh-token"].expose().to_owned())
}

#[tokio::test]
async fn oid_005_new_tokens_are_written_to_the_file_that_the_user_is_from() {
    let folder = Folder::new();
    let other = folder.write("a", "users: [{name: carl, user: {token: t}}]");
    let path = folder.write("b", kubeconfig(&jwt(5, "old"), "refresh-1"));
    let mut environment = Environment::empty();
    environment.kubeconfig = Some(std::env::join_paths([&other, &path]).unwrap());
    let inferred = environment.infer(&Overrides::default()).unwrap();
    let explicit = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
    assert_eq!(inferred.auth, explicit.auth, "both know the file");

    let before = std::fs::read_to_string(&other).unwrap();
    let new = jwt(3600, "new");
    let issuer = FakeIssuer::new([tokens(&new, Some("refresh-2"))]);
    let source = issuer.source(&provider_in(&inferred));
    assert_eq!(token(&source.fetch().await.unwrap()), new);
    assert_eq!(stored(&path), (new, "refresh-2".to_owned()));
    let written = std::fs::read_to_string(&path).unwrap();
    for kept in ["mine: kept", "bob-token", "extra-scopes: groups", "s&cret=1", "current-context: it"] {
        assert!(written.contains(kept), "{kept}: {written}");
    }
    assert_eq!(std::fs::read_to_string(&other).unwrap(), before);
    #[cfg(unix)]
    assert_eq!(mode(&path), 0o600);
}

/// Returns the access mode of a file.
#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
}

#[cfg(unix)]
#[tokio::test]
async fn oid_005_a_linked_kubeconfig_stays_a_link_and_becomes_private() {
    let folder = Folder::new();
    let target = folder.write("target", format!("# a comment\nmine: {{a: 1}}\n{}", kubeconfig(&jwt(5, "old"), "r")));
    let link = folder.path("config");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    std::fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let config = Config::from_kubeconfig_file(&link, &Overrides::default()).unwrap();
    let new = jwt(3600, "new");
    let issuer = FakeIssuer::new([tokens(&new, None)]);
    issuer.source(&provider_in(&config)).fetch().await.unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((stored(&target), mode(&target)), ((new, "r".to_owned()), 0o600));
    let written = std::fs::read_to_string(&target).unwrap();
    assert!(
        written.contains("mine:") && !written.contains('#'),
        "unknown fields are kept, comments are not: {written}"
    );
}

#[tokio::test]
async fn oid_005_tokens_that_many_users_store_at_the_same_time_are_all_kept() {
    let folder = Folder::new();
    let names: Vec<String> = (0..10).map(|number| format!("user-{number}")).collect();
    let entry = |name: &String| {
        format!(
            "- name: {name}\n  user: {{auth-provider: {{name: oidc, config: {{idp-issuer-url: '{ISSUER}', \
             client-id: kube client, refresh-token: refresh-1}}}}}}\n"
        )
    };
    let path = folder.write("config", format!("users:\n{}", names.iter().map(entry).collect::<String>()));
    let mut tasks = tokio::task::JoinSet::new();
    for name in &names {
        let issuer = FakeIssuer::new([tokens(&jwt(3600, name), Some(&format!("refresh-of-{name}")))]);
        let source = issuer.source(&provider().stored_in(&path, name));
        tasks.spawn(async move { source.fetch().await.map(drop) });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    let config = Kubeconfig::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for name in &names {
        let settings = &config.users[name].auth_provider.as_ref().unwrap().config;
        assert_eq!(settings["refresh-token"].expose(), format!("refresh-of-{name}"));
    }
}

#[tokio::test]
async fn oid_005_two_programs_do_not_refresh_at_the_same_time() {
    let folder = Folder::new();
    let path = folder.write("config", kubeconfig(&jwt(5, "old"), "refresh-1"));
    let config = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
    let new = jwt(3600, "new");
    // The issuer grants one refresh, and hangs if it is called again. Sources of two programs share nothing but the file.
    let issuer = FakeIssuer::new([tokens(&new, Some("refresh-2"))]);
    let sources = [issuer.source(&provider_in(&config)), issuer.source(&provider_in(&config))];
    let [one, two] = sources.each_ref().map(|source| source.fetch());
    let (one, two) = tokio::join!(one, two);
    assert_eq!((token(&one.unwrap()), token(&two.unwrap())), (new.clone(), new));
    assert_eq!((issuer.refreshes(), stored(&path).1.as_str()), (1, "refresh-2"));
}

#[tokio::test(start_paused = true)]
async fn oid_005_a_kubeconfig_that_stays_locked_is_an_error_after_half_a_minute() {
    let folder = Folder::new();
    let path = folder.write("config", kubeconfig(&jwt(5, "old"), "refresh-1"));
    let config = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
    let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), None)]);
    let source = issuer.source(&provider_in(&config));
    let held = crate::config::KubeconfigFiles::explicit(&path).try_lock().unwrap().unwrap();
    let locked = problem(&source).await;
    assert_eq!(locked.to_string(), "the kubeconfig was locked by another program for 30s");
    assert!(issuer.seen().is_empty());
    drop(held);
    source.fetch().await.unwrap();
}

#[tokio::test]
async fn oid_005_tokens_of_another_program_are_used_before_the_issuer_is_called() {
    let folder = Folder::new();
    let path = folder.write("config", kubeconfig(&jwt(5, "old"), "refresh-1"));
    let config = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
    let (theirs, ours) = (jwt(3600, "theirs"), jwt(3600, "ours"));
    let issuer = FakeIssuer::with_codes([(200, tokens(&ours, None)), (500, String::new())]);
    let source = issuer.source(&provider_in(&config));
    folder.write("config", kubeconfig(&theirs, "refresh-7"));
    assert_eq!(token(&source.fetch().await.unwrap()), theirs);
    assert!(issuer.seen().is_empty());
    // That token was rejected, or expires soon.
    assert_eq!(token(&source.fetch().await.unwrap()), ours);
    assert_eq!(issuer.seen().pop().unwrap().form()["refresh_token"], "refresh-7");
    assert_eq!(stored(&path), (ours, "refresh-7".to_owned()));
    // The tokens of another issuer are not.
    folder.write("config", kubeconfig(&theirs, "refresh-8").replace(ISSUER, "https://evil.test"));
    assert!(matches!(problem(&source).await, OidcProblem::Status { .. }));
    assert_eq!(issuer.seen().pop().unwrap().form()["refresh_token"], "refresh-7");
}

#[tokio::test]
async fn oid_005_a_file_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    for broken in ["users: [{name: ann, user: {token: t}}]", "users: []", "users: {"] {
        let path = folder.write("config", kubeconfig(&jwt(5, "old"), "refresh-1"));
        let config = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
        folder.write("config", broken);
        let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), Some("refresh-2"))]);
        let source = issuer.source(&provider_in(&config));
        let problem = problem(&source).await;
        assert!(matches!(problem, OidcProblem::Store(_)), "{problem}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), broken, "unchanged");
        // Once the file is whole again, the tokens are written without another refresh.
        folder.write("config", kubeconfig(&jwt(5, "old"), "refresh-1"));
        source.fetch().await.unwrap();
        assert_eq!((stored(&path).1.as_str(), issuer.refreshes()), ("refresh-2", 1));
    }
}

#[test]
fn oid_005_a_text_has_no_file_to_write_to() {
    let text = kubeconfig("a.b.c", "refresh-1");
    let provider = provider_in(&Config::from_kubeconfig_str(&text, &Overrides::default()).unwrap());
    assert_eq!(provider.store, TokenStore::None);
    let error = Config::from_untrusted(&text).unwrap_err().to_string();
    assert!(error.contains("may not have auth-provider"), "{error}");
}

#[test]
fn oid_001_static_credentials_take_precedence_and_a_certificate_is_used_in_addition() {
    let with = |line: &str| {
        let text = kubeconfig("a.b.c", "r").replace("    mine: kept\n", &format!("    {line}\n"));
        Config::from_kubeconfig_str(&text, &Overrides::default()).unwrap()
    };
    assert_eq!(with("token: t").auth, Auth::Token("t".into()));
    assert!(matches!(with("username: u").auth, Auth::Basic { .. }));
    let both = with("client-certificate-data: Yw==\n    client-key-data: aw==");
    assert!(matches!(both.auth, Auth::Oidc(_)) && both.tls.identity.is_some());
}

#[test]
fn sec_31_the_ca_of_the_issuer_is_relative_to_the_kubeconfig() {
    let folder = Folder::new();
    let ca = folder.write("ca.pem", "ca");
    let text = |path: &str| {
        kubeconfig("a.b.c", "r").replace("extra-scopes: groups", &format!("idp-certificate-authority: {path}"))
    };
    let path = folder.write("config", text("ca.pem"));
    let config = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap();
    assert_eq!(provider_in(&config).ca, Some(Pem::File(ca)));
    let path = folder.write("config", text("missing.pem"));
    let error = Config::from_kubeconfig_file(&path, &Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("the certificates of the issuer") && error.contains("missing.pem"), "{error}");
    let path = folder.write("config", text("/etc/passwd"));
    let error = crate::config::KubeconfigFiles::explicit(&path).confined().load().into_config().unwrap_err();
    assert!(error.to_string().contains("idp-certificate-authority of user \"ann\" points to"), "{error}");
}

/// Serves these responses over TLS, one for each connection.
async fn tls_issuer(config: Arc<ServerConfig>, responses: impl FnOnce(&str) -> Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let responses = responses(&url);
    tokio::spawn(async move {
        for body in responses {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = TlsAcceptor::from(Arc::clone(&config)).accept(socket).await else { continue };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn oid_004_only_the_ca_of_the_issuer_is_trusted() {
    let (authority, stranger) = (Authority::new("issuer"), Authority::new("other"));
    let new = jwt(3600, "new");
    let certificate = authority.server(&["127.0.0.1"], VALID);
    let url = tls_issuer(server(&certificate, &["http/1.1"], None), |url| {
        let discovery = format!(r#"{{"token_endpoint":"{url}/token"}}"#);
        // The first two connections end with the handshake.
        vec![String::new(), String::new(), discovery, tokens(&new, None)]
    })
    .await;
    let folder = Folder::new();
    let mut config = Config::new("https://cluster.test".parse().unwrap());
    // The CA of the cluster is not that of the issuer.
    config.tls.ca = Some(Pem::Data(authority.pem()));
    let mut provider = provider().with_store(Recorder::default());
    provider.issuer = url.parse().unwrap();
    let source = |provider: &OidcProvider| OidcSource::new(provider, connector(&config, provider));
    for ca in [None, Some(Pem::Data(stranger.pem()))] {
        provider.ca = ca;
        let error = source(&provider).unwrap().fetch().await.unwrap_err();
        assert!(error.to_string().contains("no secure connection to 127.0.0.1"), "{error}");
    }
    provider.ca = Some(Pem::File(folder.write("ca.pem", authority.pem())));
    assert_eq!(token(&source(&provider).unwrap().fetch().await.unwrap()), new);
    provider.ca = Some(Pem::Data("canary".into()));
    let error = source(&provider).err().unwrap().to_string();
    assert!(!error.contains("canary"), "{error}");
}
