//! The options of each verb, parsed from the query or the body and validated like kube-apiserver.

use evenkeel_core::Status;
use serde_json::Value;

use crate::field::{self, FieldError};
use crate::query::Query;

/// `?fieldValidation=`: the treatment of fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: FieldValidation,
    /// Whether an apply takes fields over from other managers.
    pub(crate) force: bool,
}

impl WriteOptions {
    /// Parses the options of a patch. An apply requires a field manager and may set `force`.
    pub(crate) fn of_patch(query: &Query, is_apply: bool) -> Result<Self, Status> {
        const KIND: &str = "PatchOptions";
        let force = query.bool("force")?;
        if is_apply && query.non_empty("fieldManager").is_none() {
            refuse(KIND, &[FieldError::required("fieldManager", "is required for apply patch")])?;
        }
        if !is_apply && force.is_some() {
            refuse(KIND, &[FieldError::forbidden("force", "may not be specified for non-apply patch")])?;
        }
        let options = WriteOptions::from_query(query, KIND)?;
        Ok(WriteOptions { force: force.unwrap_or(false), ..options })
    }

    /// Parses the options of a write. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    pub(crate) fn from_query(query: &Query, kind: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", &other.into(), &supported));
                FieldValidation::Warn
            }
        };
        let field_manager = query.get("fieldManager").filter(|manager| !manager.is_empty()).map(str::to_owned);
        if let Some(manager) = &field_manager {
            check_field_manager(manager, &mut errors);
        }
        refuse(kind, &errors)?;
        Ok(WriteOptions { dry_run, field_manager, field_validation, force: false })
    }
}

fn check_field_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > 128 {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    for (position, character) in manager.char_indices().filter(|(_, character)| !is_printable(*character)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
        errors.push(FieldError::invalid("fieldManager", &manager.into(), detail));
    }
}

/// Returns whether a character is printable. Of all white space only the plain space is.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}

/// DRY-3: subresources that reach into a container refuse a dry run.
pub(crate) fn refuse_dry_run(query: &Query) -> Result<(), Status> {
    match query.non_empty("dryRun") {
        None => Ok(()),
        Some(_) => Err(Status::bad_request("dryRun is not supported")),
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", &values.clone().into(), &["All"]));
    }
    !values.is_empty()
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(field::invalid("meta.k8s.io", kind, "", errors)) }
}

/// `propagationPolicy`: the treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The options of delete and of delete-collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    /// `orphanDependents` as sent: `false` changes the response code (DEL-6).
    pub(crate) orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Parses the body if there is one, else the query (DEL-1). `version` is that of the resource, in which the body may
    /// also be written.
    pub(crate) fn from_request(query: &Query, body: Option<&Value>, version: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let mut options = DeleteOptions::default();
        let policy;
        match body {
            Some(body) => {
                check_kind(body, version)?;
                let dry = typed(body, "dryRun", "[]string", texts)?.unwrap_or_default();
                options.dry_run = dry_run(dry.into_iter(), &mut errors);
                options.grace_period = typed(body, "gracePeriodSeconds", "int64", Value::as_i64)?;
                options.orphan_dependents = typed(body, "orphanDependents", "bool", Value::as_bool)?;
                policy = typed(body, "propagationPolicy", "string", Value::as_str)?.map(str::to_owned);
                let an_object = |value| Some(value).filter(|value: &&Value| value.is_object());
                if let Some(preconditions) = typed(body, "preconditions", "v1.Preconditions", an_object)? {
                    let text = |key| typed(preconditions, key, "string", Value::as_str);
                    options.uid = text("uid")?.map(str::to_owned);
                    options.resource_version = text("resourceVersion")?.map(str::to_owned);
                }
            }
            None => {
                options.dry_run = dry_run(query.all("dryRun"), &mut errors);
                options.grace_period = query.int("gracePeriodSeconds")?;
                options.orphan_dependents = query.bool("orphanDependents")?;
                policy = query.get("propagationPolicy").map(str::to_owned);
            }
        }
        options.propagation = match policy.as_deref() {
            None | Some("") => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", &other.into(), &supported));
                None
            }
        };
        if options.orphan_dependents.is_some() && policy.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let value = policy.as_deref().unwrap_or_default();
            errors.push(FieldError::invalid("propagationPolicy", &value.into(), detail));
        }
        refuse("DeleteOptions", &errors)?;
        Ok(options)
    }

    /// Returns the propagation that the client requests by `propagationPolicy` or `orphanDependents`.
    pub(crate) fn requested_propagation(&self) -> Option<Propagation> {
        self.propagation
            .or(self.orphan_dependents.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }))
    }
}

fn check_kind(body: &Value, own_version: &str) -> Result<(), Status> {
    if !body.is_object() {
        return Err(Status::bad_request("the delete options in the request body are not an object"));
    }
    let kind = typed(body, "kind", "string", Value::as_str)?.unwrap_or_default();
    if !matches!(kind, "" | "DeleteOptions") {
        let message = format!("the request body is of kind {kind:?}, but a delete takes DeleteOptions");
        return Err(Status::bad_request(message));
    }
    let version = typed(body, "apiVersion", "string", Value::as_str)?.unwrap_or_default();
    if matches!(version, "" | "v1" | "meta.k8s.io/v1") || version == own_version {
        return Ok(());
    }
    Err(Status::bad_request(format!("no kind \"DeleteOptions\" is registered for version {version:?}")))
}

/// Returns a list of strings; `None` if any item is not one.
fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

fn typed<'a, T>(
    body: &'a Value,
    key: &str,
    go_type: &str,
    get: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, Status> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match get(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Status::bad_request(format!("json: cannot unmarshal field {key} into {go_type}"))),
        },
    }
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// The options of list, watch and delete-collection without the selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    /// As sent; empty if absent.
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn from_query(query: &Query, watch: bool) -> Result<Self, Status> {
        let version_match = query.get("resourceVersionMatch").unwrap_or_default();
        let options = ListOptions {
            resource_version: query.get("resourceVersion").unwrap_or_default().to_owned(),
            version_match: match version_match {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: query.int("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0),
            continue_token: query.get("continue").unwrap_or_default().to_owned(),
            timeout_seconds: query.int("timeoutSeconds")?,
            allow_bookmarks: query.bool("allowWatchBookmarks")?.unwrap_or(false),
            send_initial_events: query.bool("sendInitialEvents")?,
        };
        let mut errors = Vec::new();
        if watch {
            options.check_watch(version_match, &mut errors);
        } else {
            options.check_list(version_match, &mut errors);
        }
        refuse("ListOptions", &errors)?;
        Ok(options)
    }

    fn check_list(&self, version_match: &str, errors: &mut Vec<FieldError>) {
        let field = "resourceVersionMatch";
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if self.version_match.is_none() {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(field, &version_match.into(), &supported));
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
    }

    fn check_watch(&self, version_match: &str, errors: &mut Vec<FieldError>) {
        let field = "resourceVersionMatch";
        if !version_match.is_empty() {
            if self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
            if self.version_match != Some(VersionMatch::NotOlderThan) {
                errors.push(FieldError::not_supported(field, &version_match.into(), &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
        } else if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, detail));
        }
    }

    /// WAT-40: refuses `sendInitialEvents` like a release without WatchList.
    pub(crate) fn refuse_initial_events(&self) -> Result<(), Status> {
        if self.send_initial_events.is_none() {
            return Ok(());
        }
        let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        refuse("ListOptions", &[FieldError::forbidden("sendInitialEvents", detail)])
    }

    /// Returns the resource version as a number; `None` if absent.
    pub(crate) fn revision(&self) -> Result<Option<u64>, FieldError> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        parse_revision(&self.resource_version).map(Some)
    }
}

/// Returns the error for a resource version that is not a number.
pub(crate) fn invalid_version(error: FieldError) -> Status {
    Status::bad_request(format!("invalid resource version: {error}"))
}

/// Parses a resource version, with the error message of Go.
pub(crate) fn parse_revision(text: &str) -> Result<u64, FieldError> {
    let complaint = |what| {
        let detail = format!("strconv.ParseUint: parsing {text:?}: {what}");
        FieldError::invalid("resourceVersion", &text.into(), detail)
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(complaint("invalid syntax"));
    }
    text.parse().map_err(|_| complaint("value out of range"))
}
