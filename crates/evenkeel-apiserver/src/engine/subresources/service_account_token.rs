//! `POST serviceaccounts/X/token` issues service-account tokens (AUT-5).
//!
//! A token is a JSON web token, signed with the [`TokenKeys`](crate::token_keys::TokenKeys) of the server.
//! [`token_authentication`](crate::engine::token_authentication) verifies it.

use std::sync::Arc;

use evenkeel_core::Status;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::check_kind;
use crate::engine::admission::Operation;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, key};
use crate::engine::token_authentication::{API_AUDIENCE, ISSUER};
use crate::engine::{ApiEngine, decode, response, view};
use crate::env::{rfc3339, uuid};
use crate::field::{self, FieldError};
use crate::http_types::HandlerOutcome;
use crate::negotiate::Endpoint;
use crate::registry::storage_key;
use crate::schema::Schema;

/// The lifetime of a token in seconds: the default, the minimum and the maximum.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The lifetime that kubelets request for pods. Such a token is valid for a year, because old clients do not read it again; its
/// claims say from when on a client is stale.
const EXTENDED_SECONDS: i64 = 3607;
const EXTENSION_SECONDS: i64 = 365 * 24 * 3600;

const GROUP: &str = "authentication.k8s.io";
const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";

/// The object that a token is bound to.
struct BoundObject {
    /// The kind as the claims spell it.
    claim: &'static str,
    reference: Value,
    /// The node of a bound pod.
    node: Option<Value>,
}

impl ApiEngine {
    /// Serves `POST serviceaccounts/X/token`.
    pub(super) fn create_token(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let representation = request.representation(Endpoint::Plain)?;
        let mut body = decode::parse(request.http, "TokenRequest")?.value;
        let target = request.target(WriteScope::Main);
        let dry_run = request.query.get("dryRun").is_some();
        let warnings = self.admit_subresource(Operation::Create, target, "token", &mut body, request.http, dry_run)?;
        let issued = self.issue_token(target, body)?;
        let body = view::encode(view::render(issued), representation)?;
        let mut response = response::with_code(StatusCode::CREATED, representation, body);
        response::warn(&mut response, &warnings);
        Ok(HandlerOutcome::Response(response))
    }

    /// Returns a `TokenRequest` with a token in its status.
    fn issue_token(&self, target: Target<'_>, mut body: Value) -> Result<Value, Status> {
        check_kind(&body, &["authentication.k8s.io/v1"], "TokenRequest")?;
        if let Some(schema) = Schema::builtin(TOKEN_REQUEST) {
            schema.decode_builtin(&mut body).map_err(|fault| fault.status("TokenRequest", "v1"))?;
        }
        let namespace = target.namespace.unwrap_or_default();
        for (member, expected, noun) in [("name", target.name, "name"), ("namespace", namespace, "namespace")] {
            let given = &body["metadata"][member];
            if given.as_str().is_some_and(|given| !given.is_empty() && given != expected) {
                let detail = format!("must match the service account {noun} if specified");
                let error = FieldError::invalid(format!("metadata.{member}"), given, detail);
                return Err(field::invalid(GROUP, "TokenRequest", target.name, &[error]));
            }
        }
        let Some(account) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found());
        };
        let uid = &*account.facts.uid;
        if let Some(given) = body["metadata"]["uid"].as_str().filter(|given| !given.is_empty() && *given != uid) {
            let why =
                format!("the UID in the token request ({given}) does not match the UID of the service account ({uid})");
            return Err(Status::conflict(GROUP, "TokenRequest", target.name, why));
        }
        let seconds = requested_seconds(&body)?;
        let bound = self.bound_object(target, &body)?;
        let now = self.env.wall();
        let audiences = match body.pointer("/spec/audiences").and_then(Value::as_array) {
            Some(audiences) if !audiences.is_empty() => json!(audiences),
            _ => json!([API_AUDIENCE]),
        };
        let extended = seconds == EXTENDED_SECONDS
            && bound.as_ref().is_some_and(|bound| bound.claim == "pod")
            && audiences == json!([API_AUDIENCE]);
        let after = |seconds: i64| {
            now.checked_add(SignedDuration::from_secs(seconds))
                .map_err(|_| Status::bad_request("the token would expire after the last representable time"))
        };
        let expires = after(if extended { EXTENSION_SECONDS } else { seconds })?;
        let mut private = json!({"namespace": namespace, "serviceaccount": {"name": target.name, "uid": uid}});
        if let Some(BoundObject { claim, reference, node }) = bound {
            private[claim] = reference;
            if let Some(node) = node {
                private["node"] = node;
            }
        }
        if extended {
            private["warnafter"] = after(seconds)?.as_second().into();
        }
        let claims = json!({
            "iss": ISSUER,
            "sub": format!("system:serviceaccount:{namespace}:{}", target.name),
            "aud": audiences,
            "iat": now.as_second(),
            "nbf": now.as_second(),
            "exp": expires.as_second(),
            "jti": uuid(|| self.env.random()),
            "kubernetes.io": private,
        });
        let token = self.settings.token_keys.sign(&claims).map_err(|error| {
            tracing::error!(%error, "failed to sign a service-account token");
            Status::internal(format!("failed to generate token: {error}"))
        })?;
        body["metadata"]["name"] = target.name.into();
        body["metadata"]["namespace"] = namespace.into();
        body["metadata"]["uid"] = uid.into();
        body["metadata"]["creationTimestamp"] = rfc3339(now).into();
        body["spec"]["audiences"] = audiences;
        body["spec"]["expirationSeconds"] = seconds.into();
        body["status"] = json!({"token": token, "expirationTimestamp": rfc3339(after(seconds)?)});
        Ok(body)
    }

    /// Returns the object that the token is bound to.
    fn bound_object(&self, target: Target<'_>, body: &Value) -> Result<Option<BoundObject>, Status> {
        let Some(reference) = body.pointer("/spec/boundObjectRef").filter(|reference| reference.is_object()) else {
            return Ok(None);
        };
        let text = |member| reference.get(member).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let (claim, table) = match (group, kind) {
            ("", "Pod") => ("pod", "pods"),
            ("", "Secret") => ("secret", "secrets"),
            ("", "Node") => ("node", "nodes"),
            _ => {
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(message));
            }
        };
        let namespace = (claim != "node").then(|| target.namespace.unwrap_or_default());
        let Some(record) = self.store.get(&storage_key("", table), &key(namespace, name)) else {
            return Err(Status::not_found("", table, name));
        };
        let mut node = None;
        if claim == "pod" {
            let pod: Value = serde_json::from_slice(record.json()).unwrap_or_default();
            if pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default() != target.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    target.name
                )));
            }
            node = pod.pointer("/spec/nodeName").and_then(Value::as_str).filter(|node| !node.is_empty()).map(|node| {
                match self.store.get(&storage_key("", "nodes"), &key(None, node)) {
                    Some(record) => json!({"name": node, "uid": &*record.facts.uid}),
                    None => json!({"name": node}),
                }
            });
        }
        if !text("uid").is_empty() && text("uid") != &*record.facts.uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(Status::conflict("", kind, name, why));
        }
        let reference = json!({"name": name, "uid": &*record.facts.uid});
        Ok(Some(BoundObject { claim, reference, node }))
    }
}

/// Returns the requested lifetime.
fn requested_seconds(body: &Value) -> Result<i64, Status> {
    let seconds = match body.pointer("/spec/expirationSeconds").filter(|seconds| !seconds.is_null()) {
        None => return Ok(DEFAULT_SECONDS),
        Some(given) => given.as_i64().unwrap_or_default(),
    };
    let detail = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", &json!(seconds), detail);
    Err(field::invalid(GROUP, "TokenRequest", "", &[error]))
}
