//! [`Reviewer`]: sends reviews to the API server.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use evenkeel_base::Backoff;
use evenkeel_client::{Client, Error};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus};

/// The time for a review, with all its attempts.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of attempts.
const ATTEMPTS: u32 = 5;
/// The waits between attempts.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(500),
    factor: 1.5,
    cap: REVIEW_TIMEOUT,
    jitter: 0.2,
    reset_after: Duration::MAX,
};

/// Why the API server did not answer a review. Contains nothing of a token.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("the API server did not answer within {} seconds", REVIEW_TIMEOUT.as_secs())]
    TooSlow,
    #[error(transparent)]
    Client(#[from] Error),
    /// Servers always set it.
    #[error("the API server answered without a status")]
    NoStatus,
}

pub(super) type ReviewFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ReviewError>> + Send + 'a>>;

/// Sends reviews.
pub(super) trait Reviewer: Send + Sync + 'static {
    fn review_token(&self, spec: TokenReviewSpec) -> ReviewFuture<'_, TokenReviewStatus>;

    fn review_access(&self, spec: SubjectAccessReviewSpec) -> ReviewFuture<'_, SubjectAccessReviewStatus>;
}

impl Reviewer for Client {
    fn review_token(&self, spec: TokenReviewSpec) -> ReviewFuture<'_, TokenReviewStatus> {
        let review = TokenReview { spec, ..TokenReview::default() };
        Box::pin(async move {
            let reviews = self.authentication_v1().token_reviews();
            let send = async || reviews.create(&review).with(|request| request.max_retries(0)).await;
            with_retries(send).await?.status.ok_or(ReviewError::NoStatus)
        })
    }

    fn review_access(&self, spec: SubjectAccessReviewSpec) -> ReviewFuture<'_, SubjectAccessReviewStatus> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        Box::pin(async move {
            let reviews = self.authorization_v1().subject_access_reviews();
            let send = async || reviews.create(&review).with(|request| request.max_retries(0)).await;
            with_retries(send).await?.status.ok_or(ReviewError::NoStatus)
        })
    }
}

/// Sends until there is a response, up to five times and for up to 10 seconds. A review changes nothing, so that each can be
/// sent again.
pub(super) async fn with_retries<T, F>(mut send: impl FnMut() -> F) -> Result<T, ReviewError>
where
    F: Future<Output = Result<T, Error>>,
{
    let attempts = async {
        let mut failures = 0;
        loop {
            let error = match send().await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            failures += 1;
            if failures >= ATTEMPTS || !is_transient(&error) {
                return Err(error.into());
            }
            let wait = BACKOFF.jittered(BACKOFF.wait(failures), fastrand::f64());
            tokio::time::sleep(wait.max(error.suggests_delay().unwrap_or_default())).await;
        }
    };
    tokio::time::timeout(REVIEW_TIMEOUT, attempts).await.unwrap_or(Err(ReviewError::TooSlow))
}

/// Returns whether another attempt may succeed.
fn is_transient(error: &Error) -> bool {
    let code = error.status().map(|status| status.code);
    matches!(error, Error::Transport { .. })
        || matches!(code, Some(429 | 500 | 504))
        || error.suggests_delay().is_some()
}
