//! Headers of requests, and files that change while a client uses them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request};
use tokio::time::{Instant, advance};
use tower_layer::Layer as _;
use tower_service::Service as _;

use super::*;
use crate::config::{Auth, ConfigError, Impersonate};
use crate::secret::Secret;
use crate::small_file::tests::Folder;
use crate::tls::tests::logs::Logs;

const SECOND: Duration = Duration::from_secs(1);

fn credentials(auth: Auth, impersonate: Option<Impersonate>) -> Result<Credentials, ConfigError> {
    Credentials::new(&auth, impersonate.as_ref(), "tester/1", Instant::now())
}

fn token_file(path: PathBuf, fallback: Option<&str>) -> Result<Credentials, ConfigError> {
    credentials(Auth::TokenFile { path, fallback: fallback.map(Secret::new) }, None)
}

async fn headers(credentials: &Credentials) -> HeaderMap {
    let mut headers = HeaderMap::new();
    credentials.apply(&mut headers).await.unwrap();
    headers
}

async fn authorization(credentials: &Credentials) -> String {
    headers(credentials).await[AUTHORIZATION].to_str().unwrap().to_owned()
}

fn jane() -> Impersonate {
    Impersonate {
        user: "jane".into(),
        uid: "u-1".into(),
        groups: vec!["devs".into(), "ops".into()],
        extra: BTreeMap::from([("test.example.com/thing".into(), vec!["one".into(), "two".into()])]),
    }
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

#[tokio::test]
async fn trn_004_sec_38_existing_headers_of_a_request_are_kept() {
    for auth in [Auth::Token("ours".into()), Auth::Basic { username: "us".into(), password: "ours".into() }] {
        let credentials = credentials(auth, None).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer theirs"));
        headers.insert(USER_AGENT, HeaderValue::from_static("theirs/2"));
        credentials.apply(&mut headers).await.unwrap();
        assert_eq!(all(&headers, "authorization"), ["Bearer theirs"], "exactly one is sent");
        assert_eq!(all(&headers, "user-agent"), ["theirs/2"]);
        credentials.apply(&mut headers).await.unwrap();
        assert_eq!(headers.len(), 2, "a repeated request gets nothing twice");
    }
}

#[tokio::test]
async fn trn_002_layers_see_requests_with_all_headers() {
    let made = headers(&credentials(Auth::Token("abc".into()), Some(jane())).unwrap()).await;
    assert_eq!(all(&made, "authorization"), ["Bearer abc"]);
    assert_eq!(all(&made, "user-agent"), ["tester/1"]);
    assert_eq!(all(&made, "impersonate-user"), ["jane"]);
    assert!(made[AUTHORIZATION].is_sensitive());
    let made =
        headers(&credentials(Auth::Basic { username: "joe".into(), password: "s:cret".into() }, None).unwrap()).await;
    assert_eq!(all(&made, "authorization"), ["Basic am9lOnM6Y3JldA=="]);
    assert!(made[AUTHORIZATION].is_sensitive());
    assert!(headers(&credentials(Auth::None, None).unwrap()).await.get(AUTHORIZATION).is_none());
}

#[tokio::test]
async fn trn_005_trn_006_each_impersonated_attribute_is_a_header() {
    let made = headers(&credentials(Auth::None, Some(jane())).unwrap()).await;
    assert_eq!(all(&made, "impersonate-user"), ["jane"]);
    assert_eq!(all(&made, "impersonate-uid"), ["u-1"]);
    assert_eq!(all(&made, "impersonate-group"), ["devs", "ops"]);
    assert_eq!(all(&made, "impersonate-extra-test.example.com%2fthing"), ["one", "two"]);

    let only_groups = Impersonate { groups: vec!["devs".into()], ..Impersonate::default() };
    let made = headers(&credentials(Auth::None, Some(only_groups)).unwrap()).await;
    assert_eq!(all(&made, "impersonate-user"), [""], "always there, even empty");
    assert_eq!(all(&made, "impersonate-group"), ["devs"]);
    assert!(!made.contains_key("impersonate-uid"));

    let anonymous = headers(&credentials(Auth::None, Some(Impersonate::default())).unwrap()).await;
    assert!(!anonymous.contains_key("impersonate-user"));

    let mut theirs = HeaderMap::new();
    theirs.insert("impersonate-user", HeaderValue::from_static("joe"));
    credentials(Auth::None, Some(jane())).unwrap().apply(&mut theirs).await.unwrap();
    assert_eq!(all(&theirs, "impersonate-user"), ["joe"]);
    assert!(!theirs.contains_key("impersonate-group"), "nothing is mixed into what the request says itself");
}

#[tokio::test]
async fn trn_003_basic_and_bearer_cannot_be_configured_together() {
    // There is one `Auth`, so client-go's error cannot occur. Only invalid pairs remain to be rejected.
    for (username, password) in [("", "p"), ("a:b", "p"), ("a\n", "p"), ("a", "p\0")] {
        let error =
            credentials(Auth::Basic { username: username.into(), password: password.into() }, None).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{username:?}");
    }
    assert!(credentials(Auth::Token("".into()), None).is_err());
}

#[test]
fn sec_37_control_characters_are_refused_before_anything_is_sent() {
    for bad in ["a\r\nX-Evil: 1", "a\n", "a\0", "a\x01", "a\x7f"] {
        let canary = format!("canary{bad}");
        let impersonations = [
            Impersonate { user: canary.clone(), ..Impersonate::default() },
            Impersonate { uid: canary.clone(), ..Impersonate::default() },
            Impersonate { groups: vec![canary.clone()], ..Impersonate::default() },
            Impersonate { extra: BTreeMap::from([("k".into(), vec![canary.clone()])]), ..Impersonate::default() },
        ];
        for impersonate in impersonations {
            assert!(credentials(Auth::None, Some(impersonate.clone())).is_err(), "{impersonate:?}");
            assert!(AuthProxyLayer::new(&impersonate).is_err(), "{impersonate:?}");
        }
        assert!(Credentials::new(&Auth::None, None, &canary, Instant::now()).is_err(), "user agent {bad:?}");
        let error = credentials(Auth::Token(canary.into()), None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "the error repeats the token: {error}");
    }
}

#[tokio::test]
async fn sec_37_utf8_is_allowed() {
    let jose = Impersonate { user: "jos\u{e9}".into(), ..Impersonate::default() };
    assert_eq!(all(&headers(&credentials(Auth::None, Some(jose)).unwrap()).await, "impersonate-user"), ["jos\u{e9}"]);
}

#[tokio::test(start_paused = true)]
async fn trn_015_sec_20_token_file_is_reread_after_50_s() {
    let folder = Folder::new();
    let path = folder.write("token", " one\n");
    let credentials = token_file(path, None).unwrap();
    assert_eq!(authorization(&credentials).await, "Bearer one", "trimmed");
    folder.write("token", "two");
    advance(50 * SECOND - Duration::from_millis(1)).await;
    assert_eq!(authorization(&credentials).await, "Bearer one");
    advance(Duration::from_millis(1)).await;
    assert_eq!(authorization(&credentials).await, "Bearer two");
    assert!(headers(&credentials).await[AUTHORIZATION].is_sensitive());
    folder.write("token", "three");
    advance(49 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer two", "the clock starts anew with every read");
    advance(SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer three");
}

#[tokio::test(start_paused = true)]
async fn chc_15_a_token_file_rotates_and_fails_without_losing_the_last_good_token() {
    let folder = Folder::new();
    let path = folder.write("token", "B");
    let credentials = token_file(path.clone(), Some("A")).unwrap();
    assert_eq!(authorization(&credentials).await, "Bearer B", "the file wins over the fallback");
    folder.write("token", "C");
    advance(50 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer C");
    folder.write("token", "");
    advance(50 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer C", "an empty file changes nothing");
    std::fs::remove_file(&path).unwrap();
    advance(50 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer C", "nor does a missing one");
    folder.write("token", "D");
    advance(10 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer D", "after a failure the file is tried again soon");

    std::fs::remove_file(&path).unwrap();
    let error = token_file(path.clone(), None).unwrap_err();
    assert!(matches!(&error, ConfigError::Read { path: named, source, .. }
        if *named == path && source.kind() == std::io::ErrorKind::NotFound));
}

#[tokio::test(start_paused = true)]
async fn sec_20_a_token_file_that_cannot_be_used_is_logged_without_its_content() {
    let folder = Folder::new();
    let credentials = token_file(folder.write("token", "one"), None).unwrap();
    let logs = Logs::default();
    let _guard = crate::test_logs::listen(logs.clone());
    folder.write("token", "canary\ncanary");
    advance(50 * SECOND).await;
    for _ in 0..100 {
        assert_eq!(authorization(&credentials).await, "Bearer one");
    }
    assert_eq!(logs.warnings(), 1, "once, not at every request: {}", logs.text());
    assert!(logs.text().contains("token") && !logs.text().contains("canary"), "{}", logs.text());
}

#[tokio::test(start_paused = true)]
async fn trn_015_the_fallback_is_used_until_the_file_exists() {
    let folder = Folder::new();
    let credentials = token_file(folder.path("token"), Some("A")).unwrap();
    assert_eq!(authorization(&credentials).await, "Bearer A");
    folder.write("token", "B");
    assert_eq!(authorization(&credentials).await, "Bearer A", "the disk is not asked at every request");
    advance(10 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer B");
}

#[test]
fn sec_22_odd_token_files_are_refused() {
    let folder = Folder::new();
    for (name, content) in
        [("empty", &b""[..]), ("blank", b" \n\t"), ("cr", b"ca\rnary"), ("lf", b"ca\nnary"), ("nul", b"ca\0nary")]
    {
        let error = token_file(folder.write(name, content), None).unwrap_err();
        assert!(matches!(error, ConfigError::Read { .. }), "{name}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("nary"), "{shown}");
    }
    let path = folder.path("large");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&vec![b'a'; 1 << 20]).unwrap();
    assert!(token_file(path.clone(), None).is_ok(), "1 MiB is allowed");
    file.write_all(b"a").unwrap();
    assert!(token_file(path, None).is_err(), "more is not");
    assert!(token_file("/dev/zero".into(), None).is_err());
    assert!(token_file(folder.path(""), None).is_err(), "a folder is no token");
}

#[cfg(unix)]
#[test]
fn sec_22_a_pipe_is_rejected_without_blocking() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(token_file(pipe, None).is_err());
}

#[tokio::test(start_paused = true)]
async fn trn_016_a_401_forces_one_reread() {
    // client-go's file tokens do not react to a 401: a revoked token is used for up to 50 seconds more.
    let folder = Folder::new();
    let credentials = token_file(folder.write("token", "one"), None).unwrap();
    assert_eq!(authorization(&credentials).await, "Bearer one");
    folder.write("token", "two");
    advance(SECOND).await;
    let sent = Instant::now();
    assert!(credentials.invalidate(sent, 0), "another try makes sense");
    assert_eq!(authorization(&credentials).await, "Bearer two");

    folder.write("token", "three");
    advance(SECOND).await;
    credentials.invalidate(sent - SECOND, 0);
    assert_eq!(
        authorization(&credentials).await,
        "Bearer two",
        "an answer to what was sent before the reread is old news"
    );

    let fixed = super::Credentials::new(&Auth::Token("t".into()), None, "x", Instant::now()).unwrap();
    assert!(!fixed.invalidate(Instant::now(), 0), "there is no other token to try");
}

#[tokio::test(start_paused = true)]
async fn trn_015_concurrent_requests_share_one_read() {
    let folder = Folder::new();
    let credentials = std::sync::Arc::new(token_file(folder.write("token", "one"), None).unwrap());
    folder.write("token", "two");
    advance(50 * SECOND).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let credentials = credentials.clone();
        tasks.spawn(async move { authorization(&credentials).await });
    }
    // The first finished task has read the file, and later ones do not read it: a second read would find an invalid
    // token, and would be retried within ten seconds instead of fifty.
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), "Bearer two");
    folder.write("token", "");
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.unwrap(), "Bearer two");
    }
    folder.write("token", "three");
    advance(49 * SECOND).await;
    assert_eq!(authorization(&credentials).await, "Bearer two");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_read_of_the_token_file_is_taken_over() {
    let folder = Folder::new();
    let credentials = token_file(folder.write("token", "one"), None).unwrap();
    folder.write("token", "two");
    advance(50 * SECOND).await;
    {
        let mut headers = HeaderMap::new();
        let mut gives_up = Box::pin(credentials.apply(&mut headers));
        std::future::poll_fn(|context| {
            let _ = gives_up.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    assert_eq!(authorization(&credentials).await, "Bearer two");
}

#[test]
fn trn_025_authorization_is_masked() {
    let mask = |text: &str| mask_authorization(&HeaderValue::from_str(text).unwrap()).into_owned();
    for (given, shown) in [
        ("", ""),
        ("Bearer canary", "Bearer <masked>"),
        ("bearer canary", "bearer <masked>"),
        ("BASIC canary", "BASIC <masked>"),
        ("Negotiate canary and more", "Negotiate <masked>"),
        ("Bearer", "Bearer"),
        ("bearer ", "bearer"),
        ("Digest canary", "<masked>"),
        ("canary", "<masked>"),
        (" canary", "<masked>"),
    ] {
        assert_eq!(mask(given), shown, "{given:?}");
    }
    assert_eq!(mask_authorization(&HeaderValue::from_bytes(b"Bearer \xff").unwrap()), "<masked>");
}

#[tokio::test]
async fn sec_3_no_secret_is_in_logged_headers() {
    let credentials = credentials(Auth::Token("canary".into()), Some(jane())).unwrap();
    let mut headers = headers(&credentials).await;
    for name in ["proxy-authorization", "cookie", "set-cookie", "x-remote-user", "x-remote-extra-scopes"] {
        headers.append(name, HeaderValue::from_static("canary"));
    }
    let mut marked = HeaderValue::from_static("canary");
    marked.set_sensitive(true);
    headers.append("x-custom", marked);
    headers.append("accept", HeaderValue::from_static("application/json"));
    let shown = format!("{:?} {:#?}", DebugHeaders(&headers), DebugHeaders(&headers));
    assert!(!shown.contains("canary"), "{shown}");
    for seen in ["\"authorization\": \"Bearer <masked>\"", "\"impersonate-user\": \"jane\"", "application/json"] {
        assert!(shown.contains(seen), "{seen} in {shown}");
    }
    let shown = format!("{credentials:?}");
    assert!(!shown.contains("canary") && shown.contains("jane"), "{shown}");
}

#[test]
fn trn_007_front_proxy_headers_replace_those_of_the_request() {
    #[derive(Clone)]
    struct Echo;
    impl tower_service::Service<Request<()>> for Echo {
        type Response = HeaderMap;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<HeaderMap, Self::Error>>;
        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn call(&mut self, request: Request<()>) -> Self::Future {
            std::future::ready(Ok(request.into_parts().0.headers))
        }
    }
    let layer = AuthProxyLayer::new(&jane()).unwrap();
    let request = Request::builder()
        .header("X-Remote-User", "admin")
        .header("X-Remote-Group", "system:masters")
        .header("X-Remote-Extra-Evil", "1")
        .header("X-Other", "stays")
        .body(())
        .unwrap();
    let headers = layer.layer(Echo).call(request).into_inner().unwrap();
    assert_eq!(all(&headers, "x-remote-user"), ["jane"]);
    assert_eq!(all(&headers, "x-remote-uid"), ["u-1"]);
    assert_eq!(all(&headers, "x-remote-group"), ["devs", "ops"]);
    assert_eq!(all(&headers, "x-remote-extra-test.example.com%2fthing"), ["one", "two"]);
    assert_eq!(all(&headers, "x-other"), ["stays"]);
    assert!(!headers.contains_key("x-remote-extra-evil"));
}
