//! [`WebhookMetrics`]: how often webhooks were called and what they decided, as upstream counts it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::configuration::WebhookKind;
use crate::engine::admission::Operation;

/// The largest number of label sets; further ones are not counted.
const MAX_SERIES: usize = 1024;

/// What a review was about.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewLabels<'a> {
    pub(super) name: &'a str,
    pub(super) kind: WebhookKind,
    pub(super) operation: Operation,
}

/// Why a review refused a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RejectionCause {
    Denied,
    CallFailed,
    Internal,
}

impl RejectionCause {
    fn as_str(self) -> &'static str {
        match self {
            RejectionCause::Denied => "no_error",
            RejectionCause::CallFailed => "calling_webhook_error",
            RejectionCause::Internal => "apiserver_internal_error",
        }
    }
}

/// The labels of `apiserver_admission_webhook_request_total`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestLabels {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) code: u16,
    pub(crate) rejected: bool,
}

/// The labels of `apiserver_admission_webhook_rejection_count`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RejectionLabels {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) error: &'static str,
    pub(crate) code: u16,
}

/// The counts of all reviews.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhookCounts {
    pub(crate) requests: BTreeMap<RequestLabels, u64>,
    pub(crate) rejections: BTreeMap<RejectionLabels, u64>,
    /// By name and kind.
    pub(crate) failed_open: BTreeMap<(String, &'static str), u64>,
}

#[derive(Debug, Default)]
pub(crate) struct WebhookMetrics(Mutex<WebhookCounts>);

impl WebhookMetrics {
    pub(crate) fn counts(&self) -> WebhookCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn allowed(&self, review: ReviewLabels<'_>) {
        self.count(review, 200, None, false);
    }

    pub(super) fn rejected(&self, review: ReviewLabels<'_>, cause: RejectionCause, code: u16) {
        self.count(review, code, Some(cause), false);
    }

    /// Counts a call without a usable response.
    pub(super) fn failed(&self, review: ReviewLabels<'_>, fails_open: bool) {
        let cause = (!fails_open).then_some(RejectionCause::CallFailed);
        self.count(review, 503, cause, fails_open);
    }

    fn count(&self, review: ReviewLabels<'_>, code: u16, cause: Option<RejectionCause>, failed_open: bool) {
        let (kind, operation) = (review.kind.metric_type(), review.operation.as_str());
        let name = || review.name.to_owned();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut counts.requests, RequestLabels { name: name(), kind, operation, code, rejected: cause.is_some() });
        if let Some(cause) = cause {
            add(&mut counts.rejections, RejectionLabels { name: name(), kind, operation, error: cause.as_str(), code });
        }
        if failed_open {
            add(&mut counts.failed_open, (name(), kind));
        }
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count += 1;
    } else if counts.len() < MAX_SERIES {
        counts.insert(key, 1);
    }
}
