//! Settings, tokens and messages.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};

use super::*;
use crate::auth::oidc::id_token::usable_until;
use crate::auth::oidc::registry::ProviderRegistry;
use crate::config::{Auth, Config};
use crate::secret::Secret;

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

#[test]
fn oid_001_the_settings_of_a_kubeconfig() {
    let mut all = settings(&[
        ("idp-issuer-url", "https://issuer.test/realm/"),
        ("client-id", "kube client"),
        ("client-secret", "s&cret=1"),
        ("idp-certificate-authority", "/etc/ca.pem"),
        ("id-token", "id"),
        ("refresh-token", "refresh-1"),
        ("extra-scopes", "groups"),
        ("unknown", "x"),
    ]);
    let mut expected = provider();
    expected.ca = Some(Pem::File("/etc/ca.pem".into()));
    expected.id_token = Some("id".into());
    assert_eq!(OidcProvider::from_settings(&all), Ok(expected.clone()));
    all.insert("idp-certificate-authority-data".into(), "cG\nVt".into());
    expected.ca = Some(Pem::Data("pem".into()));
    assert_eq!(OidcProvider::from_settings(&all), Ok(expected), "data takes precedence, as in client-go");
    let least = settings(&[("idp-issuer-url", "https://i"), ("client-id", "c"), ("client-secret", "")]);
    assert_eq!(OidcProvider::from_settings(&least), Ok(OidcProvider::new("https://i".parse().unwrap(), "c")));
}

#[test]
fn oid_001_invalid_settings_are_all_reported_without_their_values() {
    let problems = |pairs: &[(&str, &str)]| OidcProvider::from_settings(&settings(pairs)).unwrap_err().join("; ");
    let none = problems(&[]);
    assert!(none.contains("without idp-issuer-url") && none.contains("without client-id"), "{none}");
    for (issuer, expected) in [
        ("https://u:canary@h", "idp-issuer-url is no URL"),
        ("canary", "idp-issuer-url is no URL"),
        ("http://canary.example", "idp-issuer-url is not https"),
    ] {
        let shown = problems(&[
            ("idp-issuer-url", issuer),
            ("client-id", ""),
            ("client-secret", "canary"),
            ("idp-certificate-authority-data", "canary!"),
        ]);
        assert!(shown.contains(expected) && shown.contains("without client-id"), "{shown}");
        assert!(shown.contains("is not PEM in base64") && !shown.contains("canary"), "{shown}");
    }
    let loopback = settings(&[("idp-issuer-url", "http://127.0.0.1:5556/dex"), ("client-id", "c")]);
    assert!(OidcProvider::from_settings(&loopback).is_ok(), "secrets do not leave this machine");
}

#[test]
fn oid_004_a_configuration_without_tls_or_client_is_refused() {
    let refused = |server: &str, provider: OidcProvider| {
        let mut config = Config::new(server.parse().unwrap());
        config.auth = Auth::oidc(provider);
        config.validate().unwrap_err().to_string()
    };
    let clear = OidcProvider::new("http://issuer.test".parse().unwrap(), "");
    let shown = refused("https://h", clear);
    assert!(shown.contains("is not https") && shown.contains("no client id"), "{shown}");
    let shown = refused("http://h", provider());
    assert!(shown.contains("the id token of the OIDC provider would be sent in the clear"), "{shown}");
}

#[tokio::test]
async fn oid_002_a_provider_is_shared_by_the_clients_of_one_user() {
    let (registry, issuer) = (ProviderRegistry::default(), FakeIssuer::default());
    let of = |server: &str, provider: &OidcProvider| {
        registry.refresher(&server.parse().unwrap(), provider, issuer.connector()).unwrap()
    };
    let stored = provider().stored_in("/kube/config", "ann");
    let first = of("https://a", &stored);
    let mut newer = stored.clone();
    newer.id_token = Some("newer".into());
    newer.refresh_token = Some("newer".into());
    assert!(Arc::ptr_eq(&first, &of("https://a", &newer)), "tokens change");
    assert_eq!(issuer.servers.lock().unwrap().len(), 1, "the issuer is not connected to again");

    type Change = fn(&mut OidcProvider);
    let changes: [Change; 6] = [
        |provider| provider.issuer = "https://other".parse().unwrap(),
        |provider| provider.client_id = "other".into(),
        |provider| provider.client_secret = None,
        |provider| provider.ca = Some(Pem::File("/ca".into())),
        |provider| provider.ca = Some(Pem::Data("/ca".into())),
        |provider| *provider = provider.clone().stored_in("/kube/other", "ann"),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut other = stored.clone();
        change(&mut other);
        assert!(!Arc::ptr_eq(&first, &of("https://a", &other)), "{index}");
    }
    assert!(!Arc::ptr_eq(&first, &of("https://b", &stored)));
    // client-go gives the second user the token of the first.
    let bob = stored.clone().stored_in("/kube/config", "bob");
    assert!(!Arc::ptr_eq(&first, &of("https://a", &bob)), "another user of the same issuer and client");
    let (one, two) = (provider().with_store(Recorder::default()), provider().with_store(Recorder::default()));
    assert!(Arc::ptr_eq(&of("https://a", &one), &of("https://a", &one.clone())));
    assert!(!Arc::ptr_eq(&of("https://a", &one), &of("https://a", &two)));
    assert!(one == one.clone() && one != two && one != stored);
    let mut other = provider();
    other.refresh_token = Some("other".into());
    assert!(!Arc::ptr_eq(&of("https://a", &provider()), &of("https://a", &other)), "stored nowhere");
}

#[tokio::test]
async fn oid_002_the_shared_providers_are_bounded() {
    let (registry, issuer) = (ProviderRegistry::default(), FakeIssuer::default());
    let of = |number: usize| {
        let provider = provider().stored_in("/kube/config", number.to_string());
        registry.refresher(&"https://a".parse().unwrap(), &provider, issuer.connector()).unwrap()
    };
    let first = of(0);
    for number in 1..=64 {
        of(number);
    }
    assert_eq!(Arc::strong_count(&first), 1, "the least recently requested one is dropped");
}

#[test]
fn oid_003_the_expiry_of_a_token() {
    let until = |claims: &str| usable_until(&Secret::new(jwt_of(claims)));
    for claims in [r#"{"exp":1700000010}"#, r#"{"exp":1700000010.9}"#, r#"{"exp":1.70000001e9,"sub":"x"}"#] {
        assert_eq!(until(claims).unwrap().unwrap().as_second(), 1_700_000_000, "{claims}");
    }
    assert_eq!(until("{}").unwrap(), None);
    assert_eq!(until(r#"{"exp":null}"#).unwrap(), None);
    for bad in [
        String::new(),
        "canary".into(),
        "a.canary".into(),
        "a.b.c.canary".into(),
        "a.canary!.c".into(),
        "a.Y2FuYXJ5.c".into(),
        jwt_of(r#"{"exp":"canary"}"#),
        jwt_of(r#"{"exp":1e300}"#),
        jwt_of("[]"),
    ] {
        let error = usable_until(&Secret::new(bad.clone())).unwrap_err().to_string();
        assert!(error.starts_with("the id token ") && !error.contains("canary"), "{bad}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn oid_003_an_id_token_is_used_until_ten_seconds_before_its_expiry() {
    let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), None)]);
    let mut provider = provider().with_store(Recorder::default());
    let old = jwt(1000, "old");
    provider.id_token = Some(old.as_str().into());
    let fetched = issuer.source(&provider).fetch().await.unwrap();
    assert_eq!(token(&fetched), old);
    let lifetime = fetched.lifetime.unwrap();
    assert!(lifetime <= Duration::from_secs(990) && lifetime > Duration::from_secs(900), "{lifetime:?}");
    assert_eq!(issuer.refreshes(), 0);

    provider.id_token = Some(jwt(9, "old").into());
    let source = issuer.source(&provider);
    assert_ne!(token(&source.fetch().await.unwrap()), old);
    assert_eq!(issuer.refreshes(), 1);
}

#[tokio::test(start_paused = true)]
async fn oid_003_a_malformed_id_token_is_an_error_and_no_refresh() {
    let issuer = FakeIssuer::default();
    for bad in ["canary", "a.b", "a.!.c", "a.Y2FuYXJ5.c"] {
        let mut provider = provider().with_store(Recorder::default());
        provider.id_token = Some(bad.into());
        let problem = problem(&issuer.source(&provider)).await;
        assert!(matches!(problem, OidcProblem::IdToken { .. }), "{problem}");
        assert!(!format!("{problem} {problem:?}").contains("canary"));
    }
    assert!(issuer.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn oid_004_the_requests_of_a_refresh() {
    let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), Some("refresh-2"))]);
    issuer.source(&provider().with_store(Recorder::default())).fetch().await.unwrap();
    let seen = issuer.seen();
    let [discovery, refresh] = &seen[..] else { panic!("two requests") };
    assert_eq!(discovery.method, Method::GET);
    assert_eq!(discovery.url, "https://issuer.test/realm/.well-known/openid-configuration");
    assert_eq!((discovery.body.as_str(), &discovery.headers[ACCEPT]), ("", &"application/json".parse().unwrap()));
    assert_eq!((&refresh.method, refresh.url.as_str()), (&Method::POST, "https://issuer.test/realm/token?p=policy"));
    assert_eq!(refresh.headers[CONTENT_TYPE], "application/x-www-form-urlencoded");
    let expected = [
        ("grant_type", "refresh_token"),
        ("refresh_token", "refresh-1"),
        ("client_id", "kube client"),
        ("client_secret", "s&cret=1"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(refresh.form(), BTreeMap::from(expected));
    assert!(!refresh.headers.contains_key(AUTHORIZATION));
    assert_eq!(*issuer.servers.lock().unwrap(), [ISSUER], "the endpoint is on the same host");
}

#[tokio::test(start_paused = true)]
async fn oid_004_the_client_authenticates_as_the_issuer_supports_it() {
    let send = async |methods: &str, change: fn(&mut OidcProvider)| {
        let document = format!(
            r#"{{"token_endpoint":"https://other.test/token","token_endpoint_auth_methods_supported":{methods}}}"#
        );
        let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), None)]).discovery(200, &document);
        let mut provider = provider().with_store(Recorder::default());
        change(&mut provider);
        issuer.source(&provider).fetch().await.unwrap();
        assert_eq!(*issuer.servers.lock().unwrap(), [ISSUER, "https://other.test/token"], "another host");
        let refresh = issuer.seen().pop().unwrap();
        let basic = refresh.headers.get(AUTHORIZATION).map(|value| {
            assert!(value.is_sensitive());
            value.to_str().unwrap().to_owned()
        });
        (basic, refresh.form().contains_key("client_id"), refresh.form().contains_key("client_secret"))
    };
    let encoded = base64::prelude::BASE64_STANDARD.encode("kube+client:s%26cret%3D1");
    let basic = Some(format!("Basic {encoded}"));
    assert_eq!(send(r#"["client_secret_basic"]"#, |_| {}).await, (basic, false, false));
    assert_eq!(send(r#"["client_secret_basic","client_secret_post"]"#, |_| {}).await, (None, true, true));
    assert_eq!(send(r#"["private_key_jwt"]"#, |_| {}).await, (None, true, true));
    assert_eq!(send("7", |_| {}).await, (None, true, true));
    let public = send(r#"["client_secret_basic"]"#, |provider| provider.client_secret = None).await;
    assert_eq!(public, (None, true, false));
}

#[tokio::test(start_paused = true)]
async fn oid_004_a_useless_response_is_an_error_that_quotes_no_secret() {
    let (canary, long) = ("refresh-1", jwt(3600, "canary"));
    let fine = (200, DISCOVERY.to_owned());
    let html = format!("<html>{} {canary} s&cret=1 {long} {}</html>", "ä".repeat(10), "x ".repeat(1000));
    let endpoint = |url: &str| (200, format!(r#"{{"token_endpoint":"{url}"}}"#));
    for (discovery, response, expected) in [
        ((404, html.clone()), None, "openid-configuration returned 404 Not Found: <html>ää"),
        ((302, String::new()), None, "openid-configuration returned 302 Found"),
        ((200, html.clone()), None, "returned an invalid response: it is not the expected JSON (line 1, column 1)"),
        ((200, " ".repeat((1 << 20) + 1)), None, "it is larger than 1048576 bytes"),
        ((500, "y".repeat(2 << 20)), None, "returned 500 Internal Server Error"),
        ((200, "{}".into()), None, "it has no token_endpoint"),
        ((200, r#"{"token_endpoint":7}"#.into()), None, "it has no token_endpoint"),
        (endpoint("refresh-1"), None, "its token_endpoint is no URL"),
        (endpoint("https://u:refresh-1@h/"), None, "its token_endpoint is no URL"),
        (endpoint("http://issuer.test/token"), None, "its token_endpoint is not https"),
        (endpoint("http://localhost/token"), None, "its token_endpoint is not https"),
        (
            fine.clone(),
            Some((400, r#"{"error":"invalid_grant"}"#.to_owned())),
            r#"400 Bad Request: {"error":"invalid_grant"}"#,
        ),
        (fine.clone(), Some((401, html.clone())), "/realm/token returned 401 Unauthorized: <html>"),
        (fine.clone(), Some((307, String::new())), "/realm/token returned 307 Temporary Redirect"),
        (fine.clone(), Some((200, html)), "it is not the expected JSON"),
        (fine.clone(), Some((200, format!(r#"{{"id_token":["{long}"]}}"#))), "it has no id_token"),
        (fine.clone(), Some((200, format!(r#"["{long}"]"#))), "it is not the expected JSON"),
        (fine.clone(), Some((200, r#"{"access_token":"refresh-1"}"#.into())), "it has no id_token"),
        (fine.clone(), Some((200, tokens("refresh-1", None))), "the id token is no JWT"),
        (fine.clone(), Some((200, tokens(&jwt_of("{}"), None))), "of the issuer has no expiry"),
        (fine, Some((200, tokens(&jwt(5, "old"), None))), "which has passed; compare the clock"),
    ] {
        let issuer = FakeIssuer::with_codes(response).discovery(discovery.0, &discovery.1);
        let problem = problem(&issuer.source(&provider().with_store(Recorder::default()))).await;
        let shown = format!("{problem} {problem:?}");
        assert!(shown.contains(expected), "{expected}: {shown}");
        for secret in [canary, "s&cret", long.as_str()] {
            assert!(!shown.contains(secret), "{shown}");
        }
        if let OidcProblem::Status { body, url, .. } = problem {
            assert!(body.len() <= 80, "{body}");
            assert!(!url.contains("policy"), "{url}");
        }
    }
}

#[test]
fn oid_004_an_issuer_on_this_machine_may_be_without_tls() {
    let discovery = |issuer: &str, endpoint: &str| {
        let document = format!(r#"{{"token_endpoint":"{endpoint}"}}"#);
        super::super::protocol::discovery(&issuer.parse().unwrap(), document.as_bytes())
    };
    for endpoint in ["http://127.0.0.1:5556/token", "http://localhost/token", "https://h/token"] {
        discovery("http://127.0.0.1:5556", endpoint).unwrap();
    }
    assert!(discovery("http://127.0.0.1:5556", "http://h/token").is_err());
}

#[tokio::test(start_paused = true)]
async fn oid_004_an_issuer_that_hangs_is_an_error_after_half_a_minute() {
    let issuer = FakeIssuer::default();
    let started = tokio::time::Instant::now();
    let problem = problem(&issuer.source(&provider().with_store(Recorder::default()))).await;
    assert_eq!(problem.to_string(), "the issuer returned no tokens within 30s");
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}
