//! [`Route`]: answers the requests of one path. No sockets.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_client::Client;
use evenkeel_core::{Reason, Status};
use evenkeel_runtime::internals::{catch_panic, panic_message};
use http::{HeaderValue, Response, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::metrics::{RouteMetrics, count_panic};
use crate::admission::Verdict;
use crate::admission::review::{self, ReviewVersion};
use crate::admission::{AdmissionRequest, ErasedHook, ReviewFault, Reviewed};

/// How long before the end of an API server's patience the review is given up, so that the answer still arrives.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// What a review is answered with if its hook panics, fails, does not fit the object or takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An HTTP error. The `failurePolicy` of the webhook decides about the request.
    #[default]
    Fail,
    /// A refusal, as controller-runtime does it. `failurePolicy: Ignore` has no effect then.
    Deny,
}

/// What the reviews of all hooks of a server have in common.
#[derive(Clone, Debug)]
pub(crate) struct ReviewSettings {
    pub(crate) on_fault: Fault,
    pub(crate) catches_panics: bool,
    /// The client that hooks get.
    pub(crate) client: Option<Client>,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        ReviewSettings { on_fault: Fault::default(), catches_panics: true, client: None }
    }
}

/// A hook on its path.
pub(crate) struct Route {
    hook: ErasedHook,
    metrics: RouteMetrics,
}

impl Route {
    pub(crate) fn new(hook: ErasedHook) -> Self {
        let metrics = RouteMetrics::new(&hook.settings.path);
        Route { hook, metrics }
    }

    pub(crate) fn hook(&self) -> &ErasedHook {
        &self.hook
    }

    pub(super) fn metrics(&self) -> &RouteMetrics {
        &self.metrics
    }

    /// Answers a review. The hook is dropped shortly before `deadline`.
    pub(crate) async fn respond(
        &self,
        body: Bytes,
        deadline: Option<Instant>,
        settings: &ReviewSettings,
    ) -> Response<Bytes> {
        let (version, request) = match review::parse(&body) {
            Ok(parsed) => parsed,
            Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let request = request.with_client(settings.client.as_ref());
        let catches_panics = settings.catches_panics;
        let reviewed = match deadline {
            None => self.review(&request, catches_panics).await,
            Some(deadline) => {
                let end = deadline.checked_sub(ANSWER_TIME).unwrap_or(deadline);
                timeout_at(end, self.review(&request, catches_panics)).await.unwrap_or_else(|_| {
                    let message = "the hook has not returned before the timeout of the webhook".to_owned();
                    Err(ReviewFault { code: 504, message })
                })
            }
        };
        self.answer(version, &request, reviewed, settings.on_fault)
    }

    async fn review(&self, request: &AdmissionRequest, catches_panics: bool) -> Result<Reviewed, ReviewFault> {
        if !catches_panics {
            return self.hook.review(request).await;
        }
        catch_panic(self.hook.review(request)).await.unwrap_or_else(|panic| {
            count_panic();
            Err(ReviewFault::internal(format_args!("panic: {} [recovered]", panic_message(&*panic))))
        })
    }

    fn answer(
        &self,
        version: ReviewVersion,
        request: &AdmissionRequest,
        reviewed: Result<Reviewed, ReviewFault>,
        on_fault: Fault,
    ) -> Response<Bytes> {
        let operation = request.operation().as_str();
        let Reviewed { verdict, patch } = match reviewed {
            Ok(reviewed) => reviewed,
            Err(fault) => {
                let ReviewFault { code, message } = fault;
                let (path, uid) = (&self.hook.settings.path, request.uid());
                tracing::warn!(path, uid, operation, code, error = message, "hook failed");
                if on_fault == Fault::Fail {
                    self.metrics.reviewed(operation, false, code);
                    return text(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), message);
                }
                Verdict::refuse(Status::failure(code, Reason::default(), message)).into()
            }
        };
        let code = verdict.refusal().map_or(200, |status| status.code);
        self.metrics.reviewed(operation, verdict.is_allowed(), code);
        match review::answer(version, request.uid(), &verdict, patch.as_deref()) {
            Ok(body) => with_type(StatusCode::OK, "application/json", body),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "unable to encode response"),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.hook).finish()
    }
}

/// Returns a response with a sentence.
pub(super) fn text(code: StatusCode, message: impl Into<String>) -> Response<Bytes> {
    with_type(code, "text/plain; charset=utf-8", message.into())
}

fn with_type(code: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
