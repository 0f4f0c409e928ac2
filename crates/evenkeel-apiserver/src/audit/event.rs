//! [`AuditEvent`]: one stage of one request, as upstream writes it (AUD-001).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http_types::User;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum AuditLevel {
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// The moment in the life of a request at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum AuditStage {
    RequestReceived,
    /// The head of a long-running response has been sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEvent {
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) level: AuditLevel,
    #[serde(rename = "auditID")]
    pub(crate) audit_id: String,
    pub(crate) stage: AuditStage,
    #[serde(rename = "requestURI")]
    pub(crate) request_uri: String,
    pub(crate) verb: String,
    pub(crate) user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) impersonated_user: Option<UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    pub(crate) source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_object: Option<Value>,
    pub(crate) request_received_timestamp: String,
    pub(crate) stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<Cow<'static, str>, String>,
}

/// How the request came to its user.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthenticationMetadata {
    /// The verb that allowed an impersonation, such as `impersonate:user-info`.
    pub(crate) impersonation_constraint: String,
}

/// A user, as in `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct UserInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&User> for UserInfo {
    fn from(user: &User) -> Self {
        let User { name, uid, groups, extra } = user.clone();
        UserInfo { username: name, uid, groups, extra }
    }
}

/// The object of a request.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
}

impl AuditEvent {
    /// Encodes the event as one line.
    pub(crate) fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Returns the event without what can be large. Upstream marks it in the same way.
    pub(crate) fn truncated(&self) -> AuditEvent {
        let mut event = AuditEvent { request_object: None, response_object: None, ..self.clone() };
        event.mark_truncated();
        // A status repeats parts of the object, groups and extras are the client's choice when it impersonates.
        if let Some(Value::Object(status)) = &mut event.response_status {
            status.remove("details");
            status.remove("message");
        }
        for user in std::iter::once(&mut event.user).chain(&mut event.impersonated_user) {
            user.groups.truncate(10);
            user.extra.clear();
        }
        event
    }

    pub(crate) fn mark_truncated(&mut self) {
        self.annotations.insert("audit.k8s.io/truncated".into(), "true".to_owned());
    }
}
