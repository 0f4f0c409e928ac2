//! `POST serviceaccounts/X/token`: tokens of service accounts, and who they stand for (AUT-5).
//!
//! Tokens are JSON web tokens signed with a key that this server made at its start and shows nobody (HS256; upstream signs
//! with a key pair, so that others can check). They are good for as long as they say, and while their account, and the
//! object they are bound to, is there.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_core::Status;
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ApiEngine;
use super::scale::check_kind;
use super::write::Target;
use crate::env::{Env, rfc3339, uuid};
use crate::field::{self, FieldError};
use crate::http_types::User;
use crate::registry::storage_key;

/// How long tokens last unless they are asked to last otherwise, and the least and the most they may.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The key that tokens are signed with.
#[derive(Clone)]
pub(crate) struct SigningKey(pub(crate) [u8; 64]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey([redacted])")
    }
}

impl SigningKey {
    pub(super) fn random(env: &dyn Env) -> Self {
        let mut key = [0; 64];
        for bytes in key.chunks_exact_mut(8) {
            bytes.copy_from_slice(&env.random().to_le_bytes());
        }
        SigningKey(key)
    }

    /// HMAC-SHA-256. The key fills exactly one block of the hash.
    fn sign(&self, message: &[u8]) -> [u8; 32] {
        let inner = Sha256::new().chain_update(self.0.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
        Sha256::new().chain_update(self.0.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
    }
}

impl ApiEngine {
    /// Answers a `TokenRequest` with itself and a token in its status.
    pub(super) fn request_token(self: &Arc<Self>, target: Target<'_>, mut body: Value) -> Result<Value, Status> {
        check_kind(&body, &["authentication.k8s.io/v1"], "TokenRequest")?;
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
            return Err(Status::bad_request("the token would outlive time itself"));
        };
        let audiences = match body.pointer("/spec/audiences").and_then(Value::as_array) {
            Some(audiences) if !audiences.is_empty() => json!(audiences),
            _ => json!([ISSUER]),
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
            "jti": uuid(&*self.env),
            "kubernetes.io": private,
        });
        body["metadata"]["name"] = target.name.into();
        body["metadata"]["namespace"] = namespace.into();
        body["metadata"]["creationTimestamp"] = rfc3339(now).into();
        body["spec"]["audiences"] = audiences;
        body["spec"]["expirationSeconds"] = seconds.into();
        body["status"] = json!({"token": self.token(&claims), "expirationTimestamp": rfc3339(expires)});
        Ok(body)
    }

    /// The object that a token shall not outlive: its kind as the claims name it, its name and its uid.
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
        let Some(record) = self.store.get(&storage_key("", table), &super::write::key(namespace, name)) else {
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

    fn token(&self, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "HS256", "typ": "JWT"})), encode(claims));
        let signature = self.signing_key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The service account that a token stands for, if it is one of ours and still good.
    pub(super) fn user_of_token(&self, token: &[u8]) -> Option<User> {
        let token = std::str::from_utf8(token).ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let signature: [u8; 32] = URL_SAFE_NO_PAD.decode(signature).ok()?.try_into().ok()?;
        if !crate::listener::auth::same(&self.signing_key.sign(signed.as_bytes()), &signature) {
            return None;
        }
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        if claims.get("exp")?.as_i64()? <= self.env.wall().as_second() {
            return None;
        }
        let private = claims.get("kubernetes.io")?;
        let namespace = private.get("namespace")?.as_str()?;
        let name = self.still_there(private, "serviceaccount", "serviceaccounts", Some(namespace))?;
        for (claim, table) in [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")] {
            if private.get(claim).is_some() {
                self.still_there(private, claim, table, (claim != "node").then_some(namespace))?;
            }
        }
        let uid = object_uid(private, "serviceaccount")?.to_owned();
        Some(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid,
            groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
            ..User::default()
        })
    }

    /// The name of an object that a token was made for, if that very object is still there.
    fn still_there<'a>(
        &self,
        private: &'a Value,
        claim: &str,
        table: &str,
        namespace: Option<&str>,
    ) -> Option<&'a str> {
        let name = private.get(claim)?.get("name")?.as_str()?;
        let record = self.store.get(&storage_key("", table), &super::write::key(namespace, name))?;
        (*record.facts.uid == *object_uid(private, claim)?).then_some(name)
    }
}

fn object_uid<'a>(private: &'a Value, claim: &str) -> Option<&'a str> {
    private.get(claim)?.get("uid")?.as_str()
}
