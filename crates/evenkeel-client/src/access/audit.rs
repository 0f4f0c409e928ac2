//! Reads and writes uses as audit events, one JSON object per line.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

use super::log::AccessLog;
use super::request::{Access, AccessTarget, selected_name};
use crate::rest::Query;

/// The longest line. Events of API servers are smaller unless a policy records large objects.
const MAX_LINE: u64 = 8 << 20;

/// Why an audit log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditLogError {
    /// The log cannot be read.
    #[error("the audit log cannot be read after line {line}")]
    Io {
        /// The number of lines that were read.
        line: usize,
        /// Why.
        source: io::Error,
    },
    /// A line is no audit event.
    #[error("line {line} is no event of audit.k8s.io: {problem}")]
    NotAnEvent {
        /// The line, from 1.
        line: usize,
        /// What is wrong, without content of the line.
        problem: String,
    },
}

/// The part of an `audit.k8s.io/v1` event that tells what was used.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct AuditEvent {
    kind: String,
    api_version: String,
    level: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: AuditUser,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<AuditUser>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<AuditObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<AuditStatus>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct AuditUser {
    username: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct AuditObject {
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct AuditStatus {
    code: u16,
}

/// Reads an audit log: what each user has used of the API. Lines are `audit.k8s.io/v1` events in JSON, as API servers and the
/// embedded server write them (`evenkeel apiserver --audit-log`), at any level.
///
/// A request that impersonates counts for the user that it acts as. Requests without a user, which were refused, are skipped.
///
/// # Errors
/// The log cannot be read, or a line is no event.
pub fn read_audit_log(mut log: impl BufRead) -> Result<BTreeMap<String, AccessLog>, AuditLogError> {
    let mut users: BTreeMap<String, AccessLog> = BTreeMap::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let read = log.by_ref().take(MAX_LINE).read_until(b'\n', &mut text);
        let length = read.map_err(|source| AuditLogError::Io { line: line - 1, source })?;
        if length == 0 {
            break;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let not_an_event = |problem: String| AuditLogError::NotAnEvent { line, problem };
        if length as u64 == MAX_LINE && !text.ends_with(b"\n") {
            return Err(not_an_event("it is longer than 8 MiB".to_owned()));
        }
        let event: AuditEvent = serde_json::from_slice(&text).map_err(|error| {
            not_an_event(match error.classify() {
                serde_json::error::Category::Data => "a field has another type".to_owned(),
                _ => "it is not JSON".to_owned(),
            })
        })?;
        if event.kind != "Event" || !event.api_version.starts_with("audit.k8s.io/") {
            return Err(not_an_event(format!("its kind is {:?} of {:?}", event.kind, event.api_version)));
        }
        let user = event.impersonated_user.as_ref().unwrap_or(&event.user);
        if user.username.is_empty() {
            continue;
        }
        let log = match users.get_mut(&user.username) {
            Some(log) => log,
            None => users.entry(user.username.clone()).or_default(),
        };
        let access = event.access();
        log.extend(access.also_needs());
        if event.response_status.as_ref().is_some_and(|status| status.code == 201) {
            log.extend(access.if_created());
        }
        log.add(access);
    }
    Ok(users)
}

impl AuditEvent {
    fn access(&self) -> Access {
        let (path, query) = self.request_uri.split_once('?').unwrap_or((&self.request_uri, ""));
        let Some(object) = self.object_ref.as_ref().filter(|object| !object.resource.is_empty()) else {
            return Access { verb: self.verb.clone(), target: AccessTarget::Path(path.to_owned()) };
        };
        let mut parameters = Query::new();
        parameters.add_encoded(query);
        let name = match object.name.as_str() {
            "" => parameters.get("fieldSelector").and_then(selected_name).unwrap_or_default(),
            name => name,
        };
        Access::on(&self.verb, &object.api_group, (&object.resource, &object.subresource), &object.namespace, name)
    }
}

impl AccessLog {
    /// Writes the log as lines that [`read_audit_log`] and `evenkeel rbac` read, as the uses of this user.
    ///
    /// # Errors
    /// The lines cannot be written.
    pub fn write_audit_log(&self, user: &str, mut out: impl io::Write) -> io::Result<()> {
        for access in self.iter() {
            let (request_uri, object_ref) = match &access.target {
                AccessTarget::Path(path) => (path.clone(), None),
                AccessTarget::Resource { group, resource, subresource, namespace, name } => {
                    let object = AuditObject {
                        resource: resource.clone(),
                        namespace: namespace.clone(),
                        name: name.clone(),
                        api_group: group.clone(),
                        subresource: subresource.clone(),
                    };
                    (String::new(), Some(object))
                }
            };
            // A create has no name where it is authorized, unless it is part of another write.
            let is_part_of = |verb| access.is_created_by_name() && self.contains(&access.with_verb(verb));
            let (verb, code) = match () {
                () if is_part_of("update") => ("update", Some(201)),
                () if is_part_of("patch") => ("patch", Some(201)),
                () => (&*access.verb, None),
            };
            let event = AuditEvent {
                kind: "Event".to_owned(),
                api_version: "audit.k8s.io/v1".to_owned(),
                level: "Metadata".to_owned(),
                stage: "ResponseComplete".to_owned(),
                request_uri,
                verb: verb.to_owned(),
                user: AuditUser { username: user.to_owned() },
                impersonated_user: None,
                object_ref,
                response_status: code.map(|code| AuditStatus { code }),
            };
            serde_json::to_writer(&mut out, &event)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
