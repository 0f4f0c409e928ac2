//! Reviews of users and tokens: creates that are answered and not stored (AUT-10).

use evenkeel_core::Status;
use serde_json::{Value, json};

use super::{CreateAnswer, KindHooks};
use crate::engine::ApiEngine;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::Writer;
use crate::http_types::User;

/// SelfSubjectReview.
#[derive(Debug)]
pub(crate) struct SelfSubjectReviewHooks;

impl KindHooks for SelfSubjectReviewHooks {
    fn answers_creates(&self) -> bool {
        true
    }

    fn answer_create(
        &self,
        _: &ApiEngine,
        request: &ResourceRequest<'_>,
        _: &Value,
        _: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        Ok(CreateAnswer::Status(json!({"userInfo": user_info(&request.http.user)})))
    }
}

/// TokenReview: authenticates a service-account token of this server.
#[derive(Debug)]
pub(crate) struct TokenReviewHooks;

impl KindHooks for TokenReviewHooks {
    fn answers_creates(&self) -> bool {
        true
    }

    fn answer_create(
        &self,
        engine: &ApiEngine,
        _: &ResourceRequest<'_>,
        review: &Value,
        _: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication").into());
        }
        let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
        let audiences: Vec<&str> = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(CreateAnswer::Status(engine.review_token(token.as_bytes(), &audiences)))
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
