//! Refreshes: when, how often, and that tokens are stored before they are used.

use std::time::Duration;

use tokio::time::{Instant, advance};

use super::*;

#[tokio::test(start_paused = true)]
async fn oid_005_new_tokens_are_stored_before_they_are_used() {
    let (old, new, newer) = (jwt(9, "old"), jwt(3600, "new"), jwt(3600, "newer"));
    let issuer = FakeIssuer::new([tokens(&new, Some("refresh-2")), tokens(&newer, None)]);
    let store = Recorder::default();
    let mut provider = provider().with_store(store.clone());
    provider.id_token = Some(old.into());
    let source = issuer.source(&provider);
    assert_eq!(token(&source.fetch().await.unwrap()), new);
    assert_eq!(store.stored(), [(new, "refresh-2".to_owned())]);
    assert_eq!(token(&source.fetch().await.unwrap()), newer);
    assert_eq!(store.stored(), [(newer, "refresh-2".to_owned())], "the refresh token that is still valid");
    let used: Vec<_> = issuer.seen().iter().filter_map(|seen| seen.form().remove("refresh_token")).collect();
    assert_eq!(used, ["refresh-1", "refresh-2"]);
}

#[tokio::test(start_paused = true)]
async fn oid_005_tokens_that_cannot_be_stored_are_not_used() {
    let new = jwt(3600, "new");
    let issuer = FakeIssuer::new([tokens(&new, Some("refresh-2"))]);
    let store = Recorder::default();
    *store.failing.lock().unwrap() = 2;
    let refresher = issuer.refresher(&provider().with_store(store.clone()));
    for pause in [1, 2] {
        let problem = refresher.credential().await.unwrap_err();
        let shown = problem.to_string();
        assert!(shown.ends_with("the new tokens could not be stored: the disk is full"), "{shown}");
        assert_eq!(store.stored(), [(new.clone(), "refresh-2".to_owned())]);
        refresher.credential().await.unwrap_err();
        assert!(store.stored().is_empty(), "not before the pause has passed");
        advance(Duration::from_secs(pause)).await;
    }
    assert_eq!(current(&refresher).await, new);
    assert_eq!(store.stored().len(), 1);
    assert_eq!(issuer.refreshes(), 1, "the issuer may not accept the old refresh token again");
}

#[tokio::test(start_paused = true)]
async fn oid_005_a_rotated_refresh_token_is_stored_beside_a_malformed_id_token() {
    let (old, new) = (jwt(5, "old"), jwt(3600, "new"));
    let malformed = ["canary".to_owned(), "a.!.c".to_owned(), format!("{new}\n"), jwt_of(r#"{"exp":"soon"}"#)];
    let malformed = malformed.map(|token| tokens(&token, Some("refresh-2")));
    let missing = r#"{"refresh_token":"refresh-2"}"#.to_owned();
    let other = r#"{"id_token":{"a":"canary"},"refresh_token":"refresh-2"}"#.to_owned();
    for response in malformed.into_iter().chain([missing, other]) {
        for previous in [Some(old.as_str()), None] {
            let issuer = FakeIssuer::new([response.clone(), tokens(&new, None)]);
            let store = Recorder::default();
            let mut provider = provider().with_store(store.clone());
            provider.id_token = previous.map(Into::into);
            let source = issuer.source(&provider);
            let problem = problem(&source).await;
            assert!(matches!(problem, OidcProblem::IdToken { .. } | OidcProblem::Response { .. }), "{problem}");
            assert!(!format!("{problem} {problem:?}").contains("canary"), "{problem}");
            let kept = (previous.unwrap_or_default().to_owned(), "refresh-2".to_owned());
            assert_eq!(store.stored(), [kept], "the id token that was stored before");
            // The next refresh succeeds.
            assert_eq!(token(&source.fetch().await.unwrap()), new);
            assert_eq!(issuer.seen().pop().unwrap().form()["refresh_token"], "refresh-2");
        }
    }
    // Without a new refresh token there is nothing to store.
    let issuer = FakeIssuer::new([tokens("canary", None)]);
    let store = Recorder::default();
    problem(&issuer.source(&provider().with_store(store.clone()))).await;
    assert!(store.stored().is_empty());
}

#[tokio::test(start_paused = true)]
async fn oid_005_a_store_that_hangs_is_an_error_after_half_a_minute() {
    struct Hanging;

    impl OidcTokenStore for Hanging {
        async fn store(&self, _: &OidcTokens) -> Result<(), BoxError> {
            std::future::pending().await
        }
    }

    let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), None)]);
    let started = Instant::now();
    let problem = problem(&issuer.source(&provider().with_store(Hanging))).await;
    assert_eq!(problem.to_string(), "the new tokens were not stored within 30s");
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn oid_005_without_a_store_the_issuer_is_not_called() {
    let issuer = FakeIssuer::new([tokens(&jwt(3600, "new"), None)]);
    let mut provider = provider();
    let valid = jwt(3600, "valid");
    provider.id_token = Some(valid.as_str().into());
    let source = issuer.source(&provider);
    assert_eq!(token(&source.fetch().await.unwrap()), valid);
    let refused = problem(&source).await;
    assert!(matches!(refused, OidcProblem::NoStore) && refused.to_string().contains("OidcTokenStore"), "{refused}");
    provider.refresh_token = None;
    provider.id_token = Some(jwt(5, "old").into());
    assert!(matches!(problem(&issuer.source(&provider)).await, OidcProblem::NoRefreshToken));
    assert!(issuer.seen().is_empty(), "a rotated refresh token would be lost");
}

#[tokio::test(start_paused = true)]
async fn oid_005_one_refresh_at_a_time() {
    let new = jwt(3600, "new");
    let issuer = FakeIssuer::new([tokens(&new, None)]);
    let refresher = issuer.refresher(&provider().with_store(Recorder::default()));
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let refresher = Arc::clone(&refresher);
            tokio::spawn(async move { current(&refresher).await })
        })
        .collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), new);
    }
    assert_eq!(issuer.refreshes(), 1);
}

#[tokio::test(start_paused = true)]
async fn oid_005_a_rejected_token_is_refreshed_once_per_pause() {
    // client-go does not react to a 401.
    let (first, second, third) = (jwt(3600, "first"), jwt(3600, "second"), jwt(3600, "third"));
    let issuer = FakeIssuer::new([tokens(&second, None), tokens(&third, None)]);
    let mut provider = provider().with_store(Recorder::default());
    provider.id_token = Some(first.as_str().into());
    let refresher = issuer.refresher(&provider);
    let credential = refresher.credential().await.unwrap();
    assert_eq!((current(&refresher).await, issuer.refreshes()), (first, 0));
    assert!(refresher.reject(credential.generation));
    assert_eq!(current(&refresher).await, second);
    let generation = refresher.credential().await.unwrap().generation;
    for _ in 0..100 {
        assert!(!refresher.reject(generation), "the server rejects every token");
        assert_eq!(current(&refresher).await, second);
    }
    assert_eq!(issuer.refreshes(), 1);
    advance(Duration::from_secs(1)).await;
    assert!(refresher.reject(generation));
    assert_eq!((current(&refresher).await, issuer.refreshes()), (third, 1));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_refreshed_ahead_of_its_expiry_without_delaying_requests() {
    let (old, new) = (jwt(1000, "old"), jwt(3600, "new"));
    let issuer = FakeIssuer::new([tokens(&new, None)]);
    let mut provider = provider().with_store(Recorder::default());
    provider.id_token = Some(old.as_str().into());
    let refresher = issuer.refresher(&provider);
    assert_eq!(current(&refresher).await, old);
    advance(Duration::from_secs(900)).await;
    assert_eq!(current(&refresher).await, old, "the request does not wait");
    advance(Duration::from_secs(1)).await;
    assert_eq!(current(&refresher).await, new);
    assert_eq!(issuer.refreshes(), 1);
}
