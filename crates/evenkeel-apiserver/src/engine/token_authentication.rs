//! Authenticates service-account tokens, of requests and of TokenReviews (AUT-5).
//!
//! A token is valid until it expires, while its account and the object that it is bound to exist, and for its audiences only.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ApiEngine;
use super::strategies::user_info;
use super::target::key;
use crate::http_types::User;
use crate::listener::auth::authenticated;
use crate::registry::storage_key;
use crate::store::Record;
use crate::token_keys::TokenKeys;

/// The issuer of the tokens of this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The audience of this server. A request authenticates only with a token for this audience.
pub(crate) const API_AUDIENCE: &str = ISSUER;

/// How far the clocks of the machines that a token passes may differ, in seconds.
const LEEWAY: i64 = 60;

/// Returns the key of a user's extra attribute.
fn attribute(name: &str) -> String {
    format!("authentication.kubernetes.io/{name}")
}

/// A valid token: its user, and those of its audiences that were requested.
struct AuthenticatedToken {
    user: User,
    audiences: Vec<String>,
}

/// An object of the claims: its name and uid.
struct ClaimedObject<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> ClaimedObject<'a> {
    fn of(private: &'a Value, claim: &str) -> Option<Self> {
        let text = |object: &'a Value, member| object.get(member).and_then(Value::as_str).unwrap_or_default();
        private.get(claim).map(|object| ClaimedObject { name: text(object, "name"), uid: text(object, "uid") })
    }
}

impl ApiEngine {
    /// Returns the service account of a token that is valid for requests to this server.
    pub(crate) fn user_of_token(&self, token: &[u8]) -> Option<User> {
        self.authenticate_token(token, &[API_AUDIENCE]).ok().map(|token| token.user)
    }

    /// Returns the status of a TokenReview. Without audiences the token must be valid for this server.
    pub(crate) fn review_token(&self, token: &[u8], audiences: &[&str]) -> Value {
        let wanted = if audiences.is_empty() { &[API_AUDIENCE][..] } else { audiences };
        // A static token has no audience of its own: it is valid for this server.
        let known = self.settings.static_tokens.find(token).filter(|_| wanted.contains(&API_AUDIENCE));
        let reviewed = match known {
            Some(user) => Ok(AuthenticatedToken { user: user.clone(), audiences: vec![API_AUDIENCE.to_owned()] }),
            None => self.authenticate_token(token, wanted),
        };
        match reviewed {
            Ok(AuthenticatedToken { user, audiences }) => {
                json!({"authenticated": true, "user": user_info(&authenticated(user)), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": error}),
        }
    }

    /// Returns the user of a token, or why it has none, in the words of kube-apiserver.
    fn authenticate_token(&self, token: &[u8], wanted: &[&str]) -> Result<AuthenticatedToken, String> {
        let invalid = || "invalid bearer token".to_owned();
        let token = std::str::from_utf8(token).map_err(|_| invalid())?;
        let claims = TokenKeys::claims(token, ISSUER).ok_or_else(invalid)?;
        self.settings.token_keys.verify(token).map_err(|fault| fault.to_string())?;
        let audiences: Vec<&str> = match claims.get("aud").and_then(Value::as_array) {
            Some(audiences) => audiences.iter().filter_map(Value::as_str).collect(),
            None => vec![API_AUDIENCE],
        };
        let common: Vec<String> = audiences
            .iter()
            .filter(|audience| wanted.contains(audience))
            .map(|audience| (*audience).to_owned())
            .collect();
        if common.is_empty() {
            let (has, wanted) = (go_strings(&audiences), go_strings(wanted));
            return Err(format!("token audiences {has} is invalid for the target audiences {wanted}"));
        }
        let user = self.user_of_claims(&claims)?;
        Ok(AuthenticatedToken { user, audiences: common })
    }

    /// Returns the user of authentic claims, if they are valid now.
    fn user_of_claims(&self, claims: &Value) -> Result<User, String> {
        let now = self.env.wall().as_second();
        let time = |name: &str| claims.get(name).and_then(Value::as_i64).unwrap_or_default();
        if now.saturating_add(LEEWAY) < time("nbf") {
            return Err("service account token is not valid yet".to_owned());
        }
        if now.saturating_sub(LEEWAY) > time("exp") {
            return Err("service account token has expired".to_owned());
        }
        let none = Value::Null;
        let private = claims.get("kubernetes.io").unwrap_or(&none);
        let namespace = private.get("namespace").and_then(Value::as_str).unwrap_or_default();
        let account = ClaimedObject::of(private, "serviceaccount").unwrap_or(ClaimedObject { name: "", uid: "" });
        let Some(record) = self.store.get(&storage_key("", "serviceaccounts"), &key(Some(namespace), account.name))
        else {
            return Err(format!("serviceaccounts {:?} not found", account.name));
        };
        if *record.facts.uid != *account.uid {
            return Err(format!("service account UID ({}) does not match claim ({})", record.facts.uid, account.uid));
        }
        if is_gone(&record, now) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        let mut user = User {
            name: format!("system:serviceaccount:{namespace}:{}", account.name),
            uid: account.uid.to_owned(),
            groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
            ..User::default()
        };
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(attribute(name), vec![value.to_owned()]);
            }
        };
        if let Some(id) = claims.get("jti").and_then(Value::as_str) {
            add("credential-id", &format!("JTI={id}"));
        }
        let has_pod = private.get("pod").is_some();
        for (claim, table, kind) in [("secret", "secrets", "secret"), ("pod", "pods", "pod"), ("node", "nodes", "node")]
        {
            let Some(object) = ClaimedObject::of(private, claim) else { continue };
            // The node of a pod is information only.
            if claim != "node" || !has_pod {
                let namespace = (claim != "node").then_some(namespace);
                self.check_bound(&object, table, kind, namespace, now)?;
            }
            if claim != "secret" {
                add(&format!("{claim}-name"), object.name);
                add(&format!("{claim}-uid"), object.uid);
            }
        }
        Ok(user)
    }

    fn check_bound(
        &self,
        object: &ClaimedObject<'_>,
        table: &str,
        kind: &str,
        namespace: Option<&str>,
        now: i64,
    ) -> Result<(), String> {
        let record = self.store.get(&storage_key("", table), &key(namespace, object.name));
        let Some(record) = record.filter(|record| !is_gone(record, now)) else {
            return Err("service account token has been invalidated".to_owned());
        };
        if *record.facts.uid != *object.uid {
            let (actual, claimed) = (&record.facts.uid, object.uid);
            return Err(format!("{kind} UID ({actual}) does not match service account {kind} ref claim ({claimed})"));
        }
        Ok(())
    }
}

/// Returns whether an object should have been removed by now, and only its finalizers keep it.
fn is_gone(record: &Record, now: i64) -> bool {
    if !record.facts.deleting {
        return false;
    }
    let object: Value = serde_json::from_slice(record.json()).unwrap_or_default();
    let deleted = object.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let deleted = deleted.and_then(|text| text.parse::<Timestamp>().ok());
    deleted.is_some_and(|deleted| deleted.as_second() < now.saturating_sub(LEEWAY))
}

/// Returns strings as Go prints a quoted slice.
fn go_strings(strings: &[&str]) -> String {
    let quoted: Vec<String> = strings.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}
