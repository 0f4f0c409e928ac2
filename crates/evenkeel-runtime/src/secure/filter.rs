//! [`AccessFilter`]: authenticates and authorises requests.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_base::log_throttle::LogThrottle;
use hmac::{Hmac, Mac};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReviewSpec, TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReviewSpec};
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::reviewer::{ReviewError, Reviewer};
use super::verdicts::{Reviewed, VerdictKey, Verdicts};
use crate::serve::{FullResponse, text};

/// How long the verdict about a token counts, good or bad.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// How long a permission counts.
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
/// How long a refusal counts.
const DENIED_TTL: Duration = Duration::from_secs(30);
/// The maximum number of reviews at once, so that clients without rights do not occupy the program's own client.
const REVIEWS_AT_ONCE: usize = 8;
/// The interval between log messages about reviews that fail.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Decides which requests are served. It fails closed: without a verdict of the API server there is no access.
pub(crate) struct AccessFilter {
    reviewer: Box<dyn Reviewer>,
    /// The audiences of tokens; empty for that of the API server.
    audiences: Vec<String>,
    /// Verdicts are found by hashes with this key. Tokens are not kept.
    hash_key: Hmac<Sha256>,
    tokens: Verdicts<TokenVerdict>,
    access: Verdicts<AccessVerdict>,
    slots: Semaphore,
    warnings: Mutex<LogThrottle>,
}

/// The verdict about a token.
#[derive(Clone)]
enum TokenVerdict {
    User(Arc<UserInfo>),
    Invalid,
    Unknown,
}

/// The verdict about what a user may do.
#[derive(Clone, Copy)]
enum AccessVerdict {
    Allowed,
    Denied,
    Unknown,
}

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no valid token.
    Unauthorized,
    /// The API server cannot be asked about the token.
    NotAuthenticated,
    /// The user has no right to do this.
    Denied { user: String },
    /// The API server cannot be asked about the rights of the user.
    NotAuthorized { user: String },
}

impl Refusal {
    pub(crate) fn into_response(self) -> FullResponse {
        match self {
            Refusal::Unauthorized => {
                let mut response = text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
            Refusal::Denied { user } => text(StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")),
            Refusal::NotAuthenticated => text(StatusCode::SERVICE_UNAVAILABLE, "Authentication failed\n"),
            Refusal::NotAuthorized { user } => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("Authorization for user {user} failed\n"))
            }
        }
    }
}

impl AccessFilter {
    /// Returns a filter. `key` is random.
    pub(super) fn new(reviewer: Box<dyn Reviewer>, audiences: Vec<String>, key: &[u8; 64]) -> Self {
        AccessFilter {
            reviewer,
            audiences,
            hash_key: Hmac::new(key.into()),
            tokens: Verdicts::new(),
            access: Verdicts::new(),
            slots: Semaphore::new(REVIEWS_AT_ONCE),
            warnings: Mutex::new(LogThrottle::new(LOG_INTERVAL)),
        }
    }

    /// Returns why a request is not served, if it is not.
    pub(crate) async fn admit(&self, request: &Parts) -> Result<(), Refusal> {
        let token = bearer_token(&request.headers).ok_or(Refusal::Unauthorized)?;
        let key = self.key(token.as_bytes());
        let user = match self.tokens.get_or_review(key, self.review_token(token)).await {
            TokenVerdict::User(user) => user,
            TokenVerdict::Invalid => return Err(Refusal::Unauthorized),
            TokenVerdict::Unknown => return Err(Refusal::NotAuthenticated),
        };
        let spec = access_spec(&user, request);
        let name = || user.username.clone().unwrap_or_default();
        // A user with an unusual attribute that cannot be written as JSON has no rights.
        let Ok(subject) = serde_json::to_vec(&spec) else { return Err(Refusal::Denied { user: name() }) };
        match self.access.get_or_review(self.key(&subject), self.review_access(spec)).await {
            AccessVerdict::Allowed => Ok(()),
            AccessVerdict::Denied => Err(Refusal::Denied { user: name() }),
            AccessVerdict::Unknown => Err(Refusal::NotAuthorized { user: name() }),
        }
    }

    async fn review_token(&self, token: &str) -> Reviewed<TokenVerdict> {
        let audiences = (!self.audiences.is_empty()).then(|| self.audiences.clone());
        let spec = TokenReviewSpec { audiences, token: token.to_owned() };
        let _slot = self.slots.acquire().await;
        match self.reviewer.review_token(spec).await {
            // Most invalid tokens are this case. It may also be a failure of an authenticator, and is not kept.
            Ok(status) if status.error.as_ref().is_some_and(|error| !error.is_empty()) => {
                Reviewed { verdict: TokenVerdict::Invalid, keep: None }
            }
            Ok(status) => Reviewed { verdict: self.judge(status), keep: Some(TOKEN_TTL) },
            Err(error) => {
                self.warn("tokenreviews", &error);
                Reviewed { verdict: TokenVerdict::Unknown, keep: None }
            }
        }
    }

    fn judge(&self, status: TokenReviewStatus) -> TokenVerdict {
        let audiences = status.audiences.unwrap_or_default();
        let is_for_us = self.audiences.is_empty() || audiences.iter().any(|one| self.audiences.contains(one));
        match status.user {
            Some(user) if status.authenticated == Some(true) && is_for_us => TokenVerdict::User(Arc::new(user)),
            _ => TokenVerdict::Invalid,
        }
    }

    async fn review_access(&self, spec: SubjectAccessReviewSpec) -> Reviewed<AccessVerdict> {
        let _slot = self.slots.acquire().await;
        match self.reviewer.review_access(spec).await {
            Ok(status) if status.allowed && status.denied != Some(true) => {
                Reviewed { verdict: AccessVerdict::Allowed, keep: Some(ALLOWED_TTL) }
            }
            Ok(_) => Reviewed { verdict: AccessVerdict::Denied, keep: Some(DENIED_TTL) },
            Err(error) => {
                self.warn("subjectaccessreviews", &error);
                Reviewed { verdict: AccessVerdict::Unknown, keep: None }
            }
        }
    }

    fn warn(&self, resource: &str, error: &ReviewError) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unlogged) = warnings.admit(Instant::now()) {
            tracing::warn!(resource, %error, unlogged, "review failed; request refused (needs the right to create it)");
        }
    }

    fn key(&self, content: &[u8]) -> VerdictKey {
        self.hash_key.clone().chain_update(content).finalize().into_bytes().into()
    }
}

/// Returns the token of a request. The scheme has no case.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The question whether a user may send this request.
fn access_spec(user: &UserInfo, request: &Parts) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(request.uri.path().to_owned()),
            verb: Some(request.method.as_str().to_ascii_lowercase()),
        }),
        resource_attributes: None,
    }
}

impl fmt::Debug for AccessFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessFilter").field("audiences", &self.audiences).finish_non_exhaustive()
    }
}
