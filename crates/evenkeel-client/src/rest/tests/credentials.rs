//! Requests whose credentials are from an exec plugin or a token source.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::AUTHORIZATION;

use super::*;
use crate::auth::{CredentialError, ExecPlugin, Token, TokenSource};
use crate::config::Auth;

/// Returns `token-1`, `token-2` and so on, each after a second.
#[derive(Clone, Default)]
struct Numbered(Arc<AtomicUsize>);

impl TokenSource for Numbered {
    async fn token(&self) -> Result<Token, BoxError> {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Token::new(format!("token-{number}")))
    }
}

impl Numbered {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn tokens(script: &Script) -> Vec<String> {
    script.seen().iter().map(|seen| seen.headers[AUTHORIZATION].to_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn exe_010_sec_21_after_a_401_a_request_is_sent_once_more_with_a_new_credential() {
    let (script, source) = (Script::new([ScriptStep::code(401), ScriptStep::ok()]), Numbered::default());
    let client = script.client_with(|config| config.auth = Auth::source(source.clone()));
    post(&client).send().await.unwrap();
    assert_eq!(tokens(&script), ["Bearer token-1", "Bearer token-2"]);
    get(&client).send().await.unwrap();
    assert_eq!((tokens(&script), source.calls()), (vec!["Bearer token-2".to_owned()], 2));

    let script = Script::always(ScriptStep::code(401));
    let source = Numbered::default();
    let client = script.client_with(|config| config.auth = Auth::source(source.clone()));
    let error = get(&client).send().await.unwrap_err();
    assert!(error.is_unauthorized());
    assert_eq!(tokens(&script), ["Bearer token-1", "Bearer token-2"], "once more, and no more");
    for _ in 0..100 {
        get(&client).send().await.unwrap_err();
    }
    assert_eq!(source.calls(), 2, "the source is not called for every rejected request");
}

#[tokio::test(start_paused = true)]
async fn chc_18_a_storm_of_requests_calls_the_source_once() {
    let (script, source) = (Script::always(ScriptStep::code(401)), Numbered::default());
    let client = script.client_with(|config| config.auth = Auth::source(source.clone()));
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { post(&client).send().await.unwrap_err().is_unauthorized() })
        })
        .collect();
    for request in requests {
        assert!(request.await.unwrap());
    }
    assert_eq!(source.calls(), 2, "once for all, and once more after the 401");
    // A request that still waits when the first one is rejected takes the second token.
    assert!((50..=100).contains(&tokens(&script).len()), "no request is sent more than twice");
}

#[tokio::test(start_paused = true)]
async fn exe_002_a_request_with_its_own_authorization_needs_no_credential() {
    let (script, source) = (Script::new([]), Numbered::default());
    let client = script.client_with(|config| config.auth = Auth::source(source.clone()));
    get(&client).header(AUTHORIZATION, "Bearer mine").send().await.unwrap();
    assert_eq!((tokens(&script), source.calls()), (vec!["Bearer mine".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_configuration_share_the_token() {
    let (script, source) = (Script::new([]), Numbered::default());
    let auth = Auth::source(source.clone());
    for _ in 0..3 {
        get(&script.client_with(|config| config.auth = auth.clone())).send().await.unwrap();
    }
    assert_eq!((tokens(&script).len(), source.calls()), (3, 1));
}

#[tokio::test]
async fn exe_008_an_error_names_the_user_and_the_command_and_nothing_is_sent() {
    let script = Script::new([]);
    let client = script.client_with(|config| {
        config.auth = Auth::exec(ExecPlugin::new("evenkeel-no-such-plugin"));
        config.chosen.user = Some("eks".into());
    });
    let error = post(&client).send().await.unwrap_err();
    assert_eq!(error.to_string(), "POST /things: no credentials for api.example");
    let cause = std::error::Error::source(&error).unwrap();
    assert!(
        cause.to_string().starts_with("user \"eks\": the exec plugin \"evenkeel-no-such-plugin\" is not installed")
    );
    assert_eq!(cause.downcast_ref::<CredentialError>().unwrap().user(), Some("eks"));
    assert_eq!(script.count(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn exe_003_clients_with_equal_plugins_share_one_run() {
    let path = std::env::temp_dir().join(format!("evenkeel-runs-{}-{}", std::process::id(), fastrand::u64(..)));
    let credential =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#;
    let mut plugin = ExecPlugin::new("/bin/sh");
    plugin.args = vec!["-c".into(), format!("echo run >> '{}'; echo '{credential}'", path.display()).into()];
    let script = Script::new([]);
    let requests: Vec<_> = (0..10)
        .map(|_| {
            let client = script.client_with(|config| config.auth = Auth::exec(plugin.clone()));
            tokio::spawn(async move { get(&client).send().await.is_ok() })
        })
        .collect();
    for request in requests {
        assert!(request.await.unwrap());
    }
    assert_eq!(tokens(&script), vec!["Bearer t"; 10]);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    std::fs::remove_file(path).unwrap();
}
