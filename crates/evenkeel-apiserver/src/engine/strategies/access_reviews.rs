//! Reviews of access: creates that are answered by the authorizer and not stored (RBA-016, RBA-017).

use evenkeel_core::Status;
use serde_json::{Map, Value, json};

use super::{CreateAnswer, KindHooks};
use crate::authorization::{AccessAttributes, AccessDecision, AccessTarget, ResourceAttributes};
use crate::engine::ApiEngine;
use crate::engine::rbac::aggregate;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::Writer;
use crate::field::{self, FieldError};
use crate::http_types::User;

/// SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview.
#[derive(Debug)]
pub(crate) struct AccessReviewHooks;

impl KindHooks for AccessReviewHooks {
    fn answers_creates(&self) -> bool {
        true
    }

    fn answer_create(
        &self,
        engine: &ApiEngine,
        request: &ResourceRequest<'_>,
        review: &Value,
        _: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        let resource = request.resource();
        let namespace = request.namespace();
        let (is_self, is_local) = (resource.kind.starts_with("Self"), resource.namespaced);
        let mut review = review.clone();
        if let (Some(namespace), "") = (namespace, text(&review, "/metadata/namespace")) {
            review["metadata"]["namespace"] = namespace.into();
        }
        let errors = validate(&review, is_self, is_local);
        if !errors.is_empty() {
            return Err(field::invalid(&resource.group, &resource.kind, "", &errors).into());
        }
        if namespace.is_some_and(|namespace| namespace != text(&review, "/metadata/namespace")) {
            let namespace = namespace.unwrap_or_default();
            let why = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
            return Err(Status::bad_request(why).into());
        }
        let subject = subject(&review["spec"]);
        let user = if is_self { &request.http.user } else { &subject };
        let access = attributes(&review["spec"], user);
        let mut status = match engine.authorize(&access) {
            AccessDecision::Allowed { reason } if reason.is_empty() && !engine.evaluates_rbac() => {
                json!({"allowed": true, "reason": "RBAC is off: every authenticated user may do everything"})
            }
            AccessDecision::Allowed { reason } => json!({"allowed": true, "reason": reason}),
            AccessDecision::Denied { reason } => json!({"allowed": false, "reason": reason}),
        };
        if status["reason"] == ""
            && let Some(fields) = status.as_object_mut()
        {
            fields.remove("reason");
        }
        review["status"] = status;
        Ok(CreateAnswer::Object(review))
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the user that a review asks about.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

/// Returns what a review asks about.
fn attributes<'a>(spec: &'a Value, user: &'a User) -> AccessAttributes<'a> {
    match spec.get("resourceAttributes").filter(|attributes| attributes.is_object()) {
        Some(attributes) => AccessAttributes {
            user,
            verb: text(attributes, "/verb"),
            target: AccessTarget::Resource(ResourceAttributes {
                group: text(attributes, "/group"),
                resource: text(attributes, "/resource"),
                subresource: text(attributes, "/subresource"),
                namespace: text(attributes, "/namespace"),
                name: text(attributes, "/name"),
            }),
        },
        None => AccessAttributes {
            user,
            verb: text(spec, "/nonResourceAttributes/verb"),
            target: AccessTarget::Path(text(spec, "/nonResourceAttributes/path")),
        },
    }
}

fn validate(review: &Value, is_self: bool, is_local: bool) -> Vec<FieldError> {
    let spec = &review["spec"];
    let mut errors = Vec::new();
    let (of_resource, of_path) = (spec["resourceAttributes"].is_object(), spec["nonResourceAttributes"].is_object());
    if of_resource == of_path {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec", &spec["nonResourceAttributes"], detail));
    }
    let has_groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    if !is_self && text(spec, "/user").is_empty() && !has_groups {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &Value::from(""), detail));
    }
    if of_resource {
        for selector in ["fieldSelector", "labelSelector"] {
            validate_selector(&mut errors, &spec["resourceAttributes"][selector], selector);
        }
    }
    let mut metadata = review["metadata"].as_object().cloned().unwrap_or_default();
    metadata.remove("managedFields");
    if is_local {
        metadata.remove("namespace");
    }
    if metadata.values().any(|value| !value.is_null()) {
        let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid("metadata", &review["metadata"], detail));
    }
    if is_local {
        let namespace = text(spec, "/resourceAttributes/namespace");
        if of_resource && namespace != text(review, "/metadata/namespace") {
            let path = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(path, &Value::from(namespace), "must match metadata.namespace"));
        }
        if of_path {
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", &spec["nonResourceAttributes"], detail));
        }
    }
    errors
}

/// RBAC does not read selectors. Their form is checked all the same.
fn validate_selector(errors: &mut Vec<FieldError>, selector: &Value, name: &str) {
    if !selector.is_object() {
        return;
    }
    let path = format!("spec.resourceAttributes.{name}");
    let raw = text(selector, "/rawSelector");
    let has_requirements = selector["requirements"].as_array().is_some_and(|list| !list.is_empty());
    if !raw.is_empty() && has_requirements {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(format!("{path}.rawSelector"), &Value::from(raw), detail));
    }
    if raw.is_empty() && !has_requirements {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(format!("{path}.requirements"), detail));
    }
}

/// SelfSubjectRulesReview.
#[derive(Debug)]
pub(crate) struct RulesReviewHooks;

impl KindHooks for RulesReviewHooks {
    fn answers_creates(&self) -> bool {
        true
    }

    fn answer_create(
        &self,
        engine: &ApiEngine,
        request: &ResourceRequest<'_>,
        review: &Value,
        _: Writer<'_>,
    ) -> Result<CreateAnswer, RequestError> {
        let namespace = text(review, "/spec/namespace");
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request").into());
        }
        let resource = request.resource();
        let mut answer =
            json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {}, "spec": {}});
        answer["status"] = match engine.evaluates_rbac() {
            true => rules_status(engine, &request.http.user, namespace),
            false => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
        };
        Ok(CreateAnswer::Object(answer))
    }
}

/// Returns the rules of a user in a namespace, one by one and as they are (RBA-016).
fn rules_status(engine: &ApiEngine, user: &User, namespace: &str) -> Value {
    let (roles, missing) = engine.read_rbac(|index| index.rules_for(user, namespace));
    let (mut of_resources, mut of_paths) = (Vec::new(), Vec::new());
    for rule in roles.iter().flat_map(|rules| rules.iter()) {
        let part = |keys: &[&str]| {
            let Value::Object(fields) = rule.to_value() else { return Value::Null };
            Value::Object(fields.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect::<Map<_, _>>())
        };
        if !rule.resources.is_empty() {
            of_resources.push(part(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if !rule.urls.is_empty() {
            of_paths.push(part(&["verbs", "nonResourceURLs"]));
        }
    }
    let mut status = json!({"resourceRules": of_resources, "nonResourceRules": of_paths, "incomplete": false});
    if !missing.is_empty() {
        status["evaluationError"] = aggregate(&missing).into();
    }
    status
}
