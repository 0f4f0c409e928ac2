//! [`AuditRequest`]: the audit of one request, from its authentication to the end of its response.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::event::{AuditEvent, AuditLevel, AuditStage, AuthenticationMetadata, ObjectReference, UserInfo};
use super::policy::AuditDecision;
use super::{AuditLog, MAX_EVENT};
use crate::env::rfc3339_micro;
use crate::http_types::User;
use crate::listener::request_info::RequestInfo;
use crate::protobuf;
use crate::query::percent_decode;

/// The longest text of a client in an event, in bytes.
const MAX_URI: usize = 8192;
const MAX_USER_AGENT: usize = 1024;
const MAX_AUDIT_ID: usize = 256;
/// The number of addresses that a client may claim to come from.
const MAX_SOURCES: usize = 8;

/// The annotations of authorization (AUD-003).
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// The part of a request that is known before its authentication.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    pub(crate) audit_id: String,
    pub(crate) received: Timestamp,
    uri: String,
    user_agent: String,
    sources: Vec<String>,
}

impl RequestHead {
    pub(crate) fn new(
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        audit_id: &str,
        received: Timestamp,
    ) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let forwarded = text(header::HeaderName::from_static("x-forwarded-for"));
        let claimed = forwarded.split(',').filter_map(|address| address.trim().parse::<IpAddr>().ok());
        let mut sources: Vec<String> = claimed.take(MAX_SOURCES).map(|address| address.to_string()).collect();
        if let Some(peer) = peer.map(|peer| peer.to_canonical().to_string())
            && sources.last() != Some(&peer)
        {
            sources.push(peer);
        }
        RequestHead {
            audit_id: shortened(audit_id, MAX_AUDIT_ID),
            received,
            uri: shortened(uri.path_and_query().map_or("/", |uri| uri.as_str()), MAX_URI),
            user_agent: shortened(text(header::USER_AGENT), MAX_USER_AGENT),
            sources,
        }
    }
}

fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit { text.to_owned() } else { text.chars().take(limit).collect() }
}

/// The audit of one request.
#[derive(Debug)]
pub(crate) struct AuditRequest {
    log: Arc<AuditLog>,
    decision: AuditDecision,
    event: AuditEvent,
    user: User,
}

impl AuditRequest {
    /// Records that a request has been received; `None` if the policy does not record it.
    pub(crate) fn receive(
        log: &Arc<AuditLog>,
        info: &RequestInfo<'_>,
        head: RequestHead,
        user: &User,
    ) -> Option<AuditRequest> {
        let request = Self::prepare(log, info, head, user)?;
        request.emit(AuditStage::RequestReceived);
        Some(request)
    }

    /// Records a request that was refused because of its credentials. Upstream has one event for it.
    pub(crate) fn refuse(log: &Arc<AuditLog>, info: &RequestInfo<'_>, head: RequestHead, now: Timestamp) {
        if let Some(mut request) = Self::prepare(log, info, head, &User::default()) {
            request.event.stage_timestamp = rfc3339_micro(now);
            let message = "Authentication failed";
            request.event.response_status = Some(json!({
                "metadata": {}, "status": "Failure", "message": message, "reason": "Unauthorized", "code": 401,
            }));
            request.emit(AuditStage::ResponseStarted);
        }
    }

    fn prepare(log: &Arc<AuditLog>, info: &RequestInfo<'_>, head: RequestHead, user: &User) -> Option<AuditRequest> {
        let decision = log.policy.decide(info, user)?;
        let RequestHead { audit_id, received, uri, user_agent, sources } = head;
        let event = AuditEvent {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: decision.level,
            audit_id,
            stage: AuditStage::RequestReceived,
            request_uri: uri,
            verb: info.verb.to_owned(),
            user: UserInfo::from(user),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: sources,
            user_agent,
            object_ref: info.is_resource.then(|| reference(info)),
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: rfc3339_micro(received),
            stage_timestamp: rfc3339_micro(received),
            annotations: BTreeMap::new(),
        };
        Some(AuditRequest { log: Arc::clone(log), decision, event, user: user.clone() })
    }

    /// Notes the user that the request acts as, and the verb that allowed it.
    pub(crate) fn acts_as(&mut self, user: &User, constraint: Option<String>) {
        self.event.impersonated_user = (*user != self.user).then(|| UserInfo::from(user));
        self.event.authentication_metadata =
            constraint.map(|impersonation_constraint| AuthenticationMetadata { impersonation_constraint });
    }

    /// Notes what authorization has decided (AUD-003).
    pub(crate) fn decide(&mut self, decision: &str, reason: String) {
        self.event.annotations.insert(DECISION.into(), decision.to_owned());
        self.event.annotations.insert(REASON.into(), reason);
    }

    /// Adds the annotations of admission.
    pub(crate) fn annotate(&mut self, annotations: BTreeMap<String, String>) {
        self.event.annotations.extend(annotations.into_iter().map(|(key, value)| (key.into(), value)));
    }

    /// Notes the body of the request.
    pub(crate) fn request_body(&mut self, body: &Bytes, headers: &HeaderMap) {
        let is_yaml = || {
            let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            media.is_some_and(|media| media.contains("yaml"))
        };
        if self.event.verb == "create" {
            self.complete_reference(body);
        }
        if self.event.level >= AuditLevel::Request && !body.is_empty() {
            self.event.request_object = self.object(body, is_yaml());
        }
    }

    /// Records that the head of a long-running response is sent.
    pub(crate) fn start(&mut self, code: StatusCode, now: Timestamp) {
        self.event.response_status = Some(json!({"metadata": {}, "code": code.as_u16()}));
        self.event.stage_timestamp = rfc3339_micro(now);
        self.emit(AuditStage::ResponseStarted);
    }

    /// Notes the body of a response that is not a stream.
    pub(crate) fn response_body(&mut self, code: StatusCode, body: &Bytes) {
        let failed = code.is_client_error() || code.is_server_error();
        if failed && body.len() <= MAX_EVENT {
            self.event.response_status =
                decode(body, false).filter(|status| status["kind"] == "Status").map(|status| {
                    let mut fields = json!({"metadata": {}});
                    for field in ["status", "message", "reason", "details", "code"] {
                        if !status[field].is_null() {
                            fields[field] = status[field].clone();
                        }
                    }
                    fields
                });
        }
        // Refused before it was authorized: by the permissions of impersonation, or as the request of a web page.
        if code == StatusCode::FORBIDDEN && !self.event.annotations.contains_key(DECISION) {
            let message = self.event.response_status.as_ref().and_then(|status| status["message"].as_str());
            self.decide("forbid", message.unwrap_or_default().to_owned());
        }
        if self.event.level >= AuditLevel::RequestResponse && !body.is_empty() {
            self.event.response_object = self.object(body, false);
        }
    }

    /// Records the end of the response. Without a code, there was none.
    pub(crate) fn complete(&mut self, code: Option<StatusCode>, now: Timestamp) {
        if self.event.response_status.is_none() {
            self.event.response_status = code.map(|code| json!({"metadata": {}, "code": code.as_u16()}));
        }
        self.event.stage_timestamp = rfc3339_micro(now);
        self.emit(AuditStage::ResponseComplete);
    }

    /// Records that the server panicked.
    pub(crate) fn panicked(&mut self, now: Timestamp) {
        self.event.response_status = Some(json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "APIServer panic'd",
        }));
        self.event.stage_timestamp = rfc3339_micro(now);
        self.emit(AuditStage::Panic);
    }

    fn emit(&self, stage: AuditStage) {
        if !self.decision.omit_stages.contains(&stage) {
            self.log.record(&AuditEvent { stage, ..self.event.clone() });
        }
    }

    /// Returns an object as an event contains it; `None` if it is too large or unreadable.
    fn object(&mut self, body: &Bytes, is_yaml: bool) -> Option<Value> {
        if body.len() > MAX_EVENT {
            self.event.mark_truncated();
            return None;
        }
        let mut object = decode(body, is_yaml)?;
        if self.decision.omit_managed_fields {
            remove_managed_fields(&mut object);
        }
        Some(object)
    }

    /// Adds to the reference what the URL of a create does not say.
    fn complete_reference(&mut self, body: &Bytes) {
        let Some(reference) = self.event.object_ref.as_mut().filter(|reference| reference.name.is_empty()) else {
            return;
        };
        let metadata = match serde_json::from_slice::<Partial>(body) {
            Ok(object) => object.metadata,
            Err(_) if body.len() <= MAX_EVENT => {
                let object = decode(body, false).and_then(|object| serde_json::from_value::<Partial>(object).ok());
                object.unwrap_or_default().metadata
            }
            Err(_) => PartialMetadata::default(),
        };
        // A valid name is shorter.
        reference.name = shortened(&metadata.name, 253);
    }
}

#[derive(Debug, Default, Deserialize)]
struct Partial {
    #[serde(default)]
    metadata: PartialMetadata,
}

#[derive(Debug, Default, Deserialize)]
struct PartialMetadata {
    #[serde(default)]
    name: String,
}

fn reference(info: &RequestInfo<'_>) -> ObjectReference {
    let decoded = |segment: &str| percent_decode(segment, false).unwrap_or_else(|| segment.to_owned());
    ObjectReference {
        resource: shortened(info.resource, MAX_AUDIT_ID),
        namespace: shortened(&decoded(info.namespace), MAX_AUDIT_ID),
        name: shortened(&decoded(info.name), MAX_AUDIT_ID),
        api_group: shortened(info.group, MAX_AUDIT_ID),
        api_version: shortened(info.version, MAX_AUDIT_ID),
        subresource: shortened(info.subresource, MAX_AUDIT_ID),
        ..ObjectReference::default()
    }
}

/// Decodes a body in protobuf, JSON, or YAML.
fn decode(body: &[u8], is_yaml: bool) -> Option<Value> {
    if body.starts_with(b"k8s\0") {
        return protobuf::decode(body).ok();
    }
    match serde_json::from_slice(body) {
        Ok(object) => Some(object),
        Err(_) if is_yaml => serde_saphyr::from_str(std::str::from_utf8(body).ok()?).ok(),
        Err(_) => None,
    }
}

/// Removes `metadata.managedFields` of an object, or of the items of a list.
fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove_managed_fields(item);
    }
}
