//! Reviews: creates that are answered and not stored (AUT-10).

use evenkeel_core::Status;
use serde_json::{Value, json};

use super::{CreateAnswer, KindHooks};
use crate::engine::ApiEngine;
use crate::engine::authorize::may_do_anything;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::Writer;
use crate::http_types::User;
use crate::listener::auth::{ANONYMOUS, MASTERS, UNAUTHENTICATED};

/// SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview.
#[derive(Debug)]
pub(crate) struct AccessReviewHooks;

impl KindHooks for AccessReviewHooks {
    fn answer_create(
        &self,
        _: &ApiEngine,
        _: &ResourceRequest<'_>,
        review: &Value,
        _: Writer<'_>,
    ) -> Result<Option<CreateAnswer>, RequestError> {
        Ok(Some(CreateAnswer::Status(match is_allowed(&review["spec"]) {
            true => json!({"allowed": true, "reason": "this server allows every authenticated request"}),
            false => json!({"allowed": false}),
        })))
    }
}

/// Returns whether the subject of a review may do what the review asks for. Reviews of the requester itself name no subject.
fn is_allowed(spec: &Value) -> bool {
    let groups: Vec<&str> = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let anonymous = spec["user"] == ANONYMOUS && !groups.contains(&MASTERS);
    if may_do_anything(&groups) && !anonymous {
        return true;
    }
    let path = spec.pointer("/nonResourceAttributes/path").and_then(Value::as_str).unwrap_or_default();
    let verb = spec.pointer("/nonResourceAttributes/verb").and_then(Value::as_str).unwrap_or_default();
    verb == "get" && groups.contains(&UNAUTHENTICATED) && matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
}

/// SelfSubjectRulesReview.
#[derive(Debug)]
pub(crate) struct RulesReviewHooks;

impl KindHooks for RulesReviewHooks {
    fn answer_create(
        &self,
        _: &ApiEngine,
        _: &ResourceRequest<'_>,
        _: &Value,
        _: Writer<'_>,
    ) -> Result<Option<CreateAnswer>, RequestError> {
        Ok(Some(CreateAnswer::Status(json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }))))
    }
}

/// SelfSubjectReview.
#[derive(Debug)]
pub(crate) struct SelfSubjectReviewHooks;

impl KindHooks for SelfSubjectReviewHooks {
    fn answer_create(
        &self,
        _: &ApiEngine,
        request: &ResourceRequest<'_>,
        _: &Value,
        _: Writer<'_>,
    ) -> Result<Option<CreateAnswer>, RequestError> {
        Ok(Some(CreateAnswer::Status(json!({"userInfo": user_info(&request.http.user)}))))
    }
}

/// TokenReview: authenticates a service-account token of this server.
#[derive(Debug)]
pub(crate) struct TokenReviewHooks;

impl KindHooks for TokenReviewHooks {
    fn answer_create(
        &self,
        engine: &ApiEngine,
        _: &ResourceRequest<'_>,
        review: &Value,
        _: Writer<'_>,
    ) -> Result<Option<CreateAnswer>, RequestError> {
        let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication").into());
        }
        let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
        let audiences: Vec<&str> = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(Some(CreateAnswer::Status(engine.review_token(token.as_bytes(), &audiences))))
    }
}

/// Returns a user as reviews and CertificateSigningRequests show it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
