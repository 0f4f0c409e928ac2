//! Service-account tokens: `POST serviceaccounts/X/token` issues them, requests and TokenReviews present them (AUT-5).
//!
//! A token is a JSON web token, signed with a key that this server generates at its start and never exposes (HS256;
//! kube-apiserver signs with a key pair, so that others can verify). It is valid until it expires, while its account
//! and the object that it is bound to exist, and for its audiences only.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_core::Status;
use hmac::{Hmac, Mac};
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::Sha256;

use super::check_kind;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::strategies::user_info;
use crate::engine::target::{Target, WriteScope, key};
use crate::engine::{ApiEngine, decode, response, view};
use crate::env::{Env, rfc3339, uuid};
use crate::field::{self, FieldError};
use crate::http_types::{HandlerOutcome, User};
use crate::listener::auth::authenticated;
use crate::negotiate::Endpoint;
use crate::registry::storage_key;
use crate::schema::Schema;

/// The lifetime of a token in seconds: the default, the minimum and the maximum.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The audience of this server. A request authenticates only with a token for this audience.
const API_AUDIENCE: &str = ISSUER;

/// The key that signs tokens.
#[derive(Clone)]
pub(crate) struct SigningKey(pub(crate) [u8; 64]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey([redacted])")
    }
}

impl SigningKey {
    pub(crate) fn random(env: &dyn Env) -> Self {
        let mut key = [0; 64];
        for bytes in key.chunks_exact_mut(8) {
            bytes.copy_from_slice(&env.random().to_le_bytes());
        }
        SigningKey(key)
    }

    /// HMAC-SHA-256 of a message.
    fn mac(&self, message: &[u8]) -> Hmac<Sha256> {
        Hmac::new(&self.0.into()).chain_update(message)
    }
}

/// A token that is authentic, unexpired, and whose account and bound object exist.
struct VerifiedToken {
    user: User,
    audiences: Vec<String>,
}

impl ApiEngine {
    /// Serves `POST serviceaccounts/X/token`.
    pub(super) fn create_token(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let representation = request.representation(Endpoint::Plain)?;
        let body = decode::parse(request.http, "TokenRequest")?.value;
        let issued = self.issue_token(request.target(WriteScope::Main), body)?;
        let body = view::encode(view::render(issued), representation)?;
        Ok(HandlerOutcome::Response(response::with_code(StatusCode::CREATED, representation, body)))
    }

    /// Returns a `TokenRequest` with a token in its status.
    fn issue_token(&self, target: Target<'_>, mut body: Value) -> Result<Value, Status> {
        check_kind(&body, &["authentication.k8s.io/v1"], "TokenRequest")?;
        if let Some(schema) = Schema::builtin(TOKEN_REQUEST) {
            schema.decode_builtin(&mut body).map_err(|fault| fault.status("TokenRequest", "v1"))?;
        }
        let Some(account) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found());
        };
        let seconds = match body.pointer("/spec/expirationSeconds").filter(|seconds| !seconds.is_null()) {
            None => DEFAULT_SECONDS,
            Some(given) => given.as_i64().unwrap_or_default(),
        };
        let mut errors = Vec::new();
        let given = json!(seconds);
        if seconds < MIN_SECONDS {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid("spec.expirationSeconds", &given, detail));
        }
        if seconds > MAX_SECONDS {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(FieldError::invalid("spec.expirationSeconds", &given, detail));
        }
        if !errors.is_empty() {
            return Err(field::invalid("authentication.k8s.io", "TokenRequest", target.name, &errors));
        }
        let bound = self.bound_object(target, &body)?;
        let now = self.env.wall();
        let Ok(expires) = now.checked_add(SignedDuration::from_secs(seconds)) else {
            return Err(Status::bad_request("the token would expire after the last representable time"));
        };
        let audiences = match body.pointer("/spec/audiences").and_then(Value::as_array) {
            Some(audiences) if !audiences.is_empty() => json!(audiences),
            _ => json!([API_AUDIENCE]),
        };
        let namespace = target.namespace.unwrap_or_default();
        let mut private = json!({
            "namespace": namespace,
            "serviceaccount": {"name": target.name, "uid": &*account.facts.uid},
        });
        if let Some((kind, name, uid)) = bound {
            private[kind] = json!({"name": name, "uid": uid});
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
        body["metadata"]["name"] = target.name.into();
        body["metadata"]["namespace"] = namespace.into();
        body["metadata"]["creationTimestamp"] = rfc3339(now).into();
        body["spec"]["audiences"] = audiences;
        body["spec"]["expirationSeconds"] = seconds.into();
        body["status"] = json!({"token": self.sign_token(&claims), "expirationTimestamp": rfc3339(expires)});
        Ok(body)
    }

    /// Returns the object that the token is bound to: its kind as the claims spell it, its name and its uid.
    fn bound_object(&self, target: Target<'_>, body: &Value) -> Result<Option<(&'static str, String, String)>, Status> {
        let Some(reference) = body.pointer("/spec/boundObjectRef").filter(|reference| reference.is_object()) else {
            return Ok(None);
        };
        let text = |member| reference.get(member).and_then(Value::as_str).unwrap_or_default();
        let (claim, table) = match text("kind") {
            "Pod" => ("pod", "pods"),
            "Secret" => ("secret", "secrets"),
            "Node" => ("node", "nodes"),
            kind => {
                let message =
                    format!("cannot bind token for serviceaccount {:?} to object of kind {kind:?}", target.name);
                return Err(Status::bad_request(message));
            }
        };
        let name = text("name");
        let namespace = (claim != "node").then(|| target.namespace.unwrap_or_default());
        let Some(record) = self.store.get(&storage_key("", table), &key(namespace, name)) else {
            return Err(Status::not_found("", table, name));
        };
        if !text("uid").is_empty() && text("uid") != &*record.facts.uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(Status::conflict("", table, name, why));
        }
        Ok(Some((claim, name.to_owned(), record.facts.uid.to_string())))
    }

    fn sign_token(&self, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "HS256", "typ": "JWT"})), encode(claims));
        let signature = self.signing_key.mac(signed.as_bytes()).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the service account of a token that is valid for requests to this server.
    pub(crate) fn user_of_token(&self, token: &[u8]) -> Option<User> {
        let verified = self.verify_token(token)?;
        verified.audiences.iter().any(|audience| audience == API_AUDIENCE).then_some(verified.user)
    }

    /// Returns the status of a TokenReview. Without audiences the token must be valid for this server.
    pub(crate) fn review_token(&self, token: &[u8], audiences: &[&str]) -> Value {
        let wanted = if audiences.is_empty() { &[API_AUDIENCE][..] } else { audiences };
        let verified = self.verify_token(token).or_else(|| {
            // A static token has no audience of its own: it is valid for this server.
            let user = self.settings.static_tokens.find(token)?.clone();
            Some(VerifiedToken { user, audiences: vec![API_AUDIENCE.to_owned()] })
        });
        let Some(VerifiedToken { user, audiences }) = verified else {
            return json!({"authenticated": false, "user": {}, "error": "invalid bearer token"});
        };
        let common: Vec<&String> = audiences.iter().filter(|audience| wanted.contains(&audience.as_str())).collect();
        if common.is_empty() {
            let error = format!("token audiences {audiences:?} is invalid for the target audiences {wanted:?}");
            return json!({"authenticated": false, "user": {}, "error": error});
        }
        json!({"authenticated": true, "user": user_info(&authenticated(user)), "audiences": common})
    }

    fn verify_token(&self, token: &[u8]) -> Option<VerifiedToken> {
        let token = std::str::from_utf8(token).ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.signing_key.mac(signed.as_bytes()).verify_slice(&signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        if claims.get("exp")?.as_i64()? <= self.env.wall().as_second() {
            return None;
        }
        let audiences = claims.get("aud")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let private = claims.get("kubernetes.io")?;
        let namespace = private.get("namespace")?.as_str()?;
        let name = self.existing_object(private, "serviceaccount", "serviceaccounts", Some(namespace))?;
        for (claim, table) in [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")] {
            if private.get(claim).is_some() {
                self.existing_object(private, claim, table, (claim != "node").then_some(namespace))?;
            }
        }
        let uid = object_uid(private, "serviceaccount")?.to_owned();
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid,
            groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
            ..User::default()
        };
        Some(VerifiedToken { user, audiences })
    }

    /// Returns the name of an object in the claims, if an object of that name and uid exists.
    fn existing_object<'a>(
        &self,
        private: &'a Value,
        claim: &str,
        table: &str,
        namespace: Option<&str>,
    ) -> Option<&'a str> {
        let name = private.get(claim)?.get("name")?.as_str()?;
        let record = self.store.get(&storage_key("", table), &key(namespace, name))?;
        (*record.facts.uid == *object_uid(private, claim)?).then_some(name)
    }
}

fn object_uid<'a>(private: &'a Value, claim: &str) -> Option<&'a str> {
    private.get(claim)?.get("uid")?.as_str()
}
