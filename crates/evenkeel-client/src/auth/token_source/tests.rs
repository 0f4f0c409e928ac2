use std::sync::Mutex;
use std::time::Duration;

use super::*;

/// Returns what it was given, then waits forever.
struct Script(Mutex<Vec<Result<Token, BoxError>>>);

impl TokenSource for Script {
    async fn token(&self) -> Result<Token, BoxError> {
        let next = self.0.lock().unwrap().pop();
        match next {
            Some(next) => next,
            None => std::future::pending().await,
        }
    }
}

fn refresher(result: Result<Token, BoxError>) -> SharedTokenSource {
    SharedTokenSource::new(Script(Mutex::new(vec![result])))
}

async fn problem(source: &SharedTokenSource) -> String {
    let problem = source.refresher().credential().await.unwrap_err();
    let source = std::error::Error::source(&*problem).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{problem}{source}")
}

#[tokio::test(start_paused = true)]
async fn a_token_is_sent_as_a_bearer_token_and_not_shown() {
    let source = refresher(Ok(Token::new("canary")));
    let credential = source.refresher().credential().await.unwrap();
    assert_eq!(credential.authorization.as_ref().unwrap(), "Bearer canary");
    let shown = format!("{source:?} {credential:?} {:?} {:?}", Token::new("canary"), source.refresher());
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_token_source_are_shown() {
    assert_eq!(problem(&refresher(Err("no network".into()))).await, "the token source failed: no network");
    for bad in ["", "can\nary"] {
        let problem = problem(&refresher(Ok(Token::new(bad)))).await;
        assert!(problem.contains("control character") && !problem.contains("ary"), "{problem}");
    }
    let past = "2020-01-01T00:00:00Z".parse().unwrap();
    let problem = problem(&refresher(Ok(Token::new("t").expires_at(past)))).await;
    assert!(problem.contains("expired at 2020-01-01T00:00:00Z"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_token_source_that_hangs_is_an_error_after_a_minute() {
    let source = SharedTokenSource::new(Script(Mutex::default()));
    let started = tokio::time::Instant::now();
    assert!(problem(&source).await.contains("did not return within 60s"));
    assert_eq!(started.elapsed(), Duration::from_secs(60));
}

#[test]
fn sources_are_equal_if_they_share_a_token() {
    let source = refresher(Ok(Token::new("t")));
    assert_eq!(source, source.clone());
    assert_ne!(source, refresher(Ok(Token::new("t"))));
}
