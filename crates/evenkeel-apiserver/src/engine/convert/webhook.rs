//! Conversion of custom resources by a webhook of their definition or a function of the program: one review for all objects
//! of a response.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{Reason, Status};
use serde_json::{Value, json};

use crate::engine::request_error::RequestError;
use crate::engine::webhook_client::WebhookClient;
use crate::engine::{ApiEngine, decode, object};
use crate::field::FieldError;
use crate::go_json::kind_of;
use crate::meta;
use crate::outbound::{CallEndpoint, CallFunction, CallId, OutboundCall};
use crate::registry::Resource;
use crate::request_state::RequestState;

const TIMEOUT_SECONDS: u64 = 30;

/// The conversion webhook of a definition.
#[derive(Clone, Debug)]
pub(crate) struct ConversionWebhook {
    client: WebhookClient,
    /// The version of the review; `None` if this server supports none of those that the webhook accepts.
    review_version: Option<&'static str>,
}

impl ConversionWebhook {
    /// Reads `spec.conversion` of a definition; `None` without a webhook.
    pub(crate) fn of(conversion: &Value) -> Option<Self> {
        if conversion.get("strategy").and_then(Value::as_str) != Some("Webhook") {
            return None;
        }
        let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
        let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array).into_iter().flatten();
        Some(ConversionWebhook {
            client: WebhookClient::of(webhook.get("clientConfig").unwrap_or(&Value::Null)),
            review_version: versions.filter_map(Value::as_str).find_map(|version| match version {
                "v1" => Some("v1"),
                "v1beta1" => Some("v1beta1"),
                _ => None,
            }),
        })
    }
}

/// A function of the program that converts the objects of one kind.
#[derive(Clone)]
pub(crate) struct Converter {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) function: CallFunction,
}

impl std::fmt::Debug for Converter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Converter").field("group", &self.group).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What converts the objects of a resource.
#[derive(Clone, Debug)]
pub(super) enum ConverterRef<'a> {
    Webhook(&'a ConversionWebhook),
    Function(&'a Converter),
}

/// Whether one object or the items of a list are converted, which error messages tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    Single,
    List,
}

/// A conversion of objects of a resource.
pub(super) struct ConversionRequest<'a> {
    pub(super) converter: ConverterRef<'a>,
    pub(super) resource: &'a Resource,
    /// The resource in the requested version.
    pub(super) target: &'a Resource,
    /// The requested `apiVersion`.
    pub(super) version: &'a str,
    pub(super) batch: Batch,
}

impl ConversionRequest<'_> {
    /// Returns the error of a failed conversion (CWH-005). `from` is the version of the objects.
    fn error(&self, from: &str, what: std::fmt::Arguments<'_>) -> Status {
        let message = format!("conversion webhook for {from}, Kind={} {what}", self.resource.kind);
        Status::failure(500, Reason::default(), message)
    }

    pub(super) fn failed(&self, why: &str) -> Status {
        self.error(self.version, format_args!("failed: {why}"))
    }
}

impl ApiEngine {
    /// Returns what converts the objects of a resource: a function of the program, else the webhook of its definition.
    pub(super) fn converter_of<'a>(&'a self, resource: &'a Resource) -> Option<ConverterRef<'a>> {
        let custom = resource.custom.as_ref()?;
        let converters = self.settings.converters.iter();
        let function = converters.rev().find(|own| own.group == resource.group && own.kind == resource.kind);
        match function {
            Some(function) => Some(ConverterRef::Function(function)),
            None => custom.conversion.as_ref().map(ConverterRef::Webhook),
        }
    }

    pub(crate) fn has_converter(&self, resource: &Resource) -> bool {
        self.converter_of(resource).is_some()
    }

    /// Converts objects that are not in the requested version, by one call.
    pub(super) fn convert_by_call(
        &self,
        conversion: &ConversionRequest<'_>,
        objects: Vec<Value>,
        state: &RequestState,
    ) -> Result<Vec<Value>, RequestError> {
        let first = objects.first().and_then(|object| object.get("apiVersion")).and_then(Value::as_str);
        let from = first.unwrap_or_default().to_owned();
        let (review_version, receiver) = match &conversion.converter {
            ConverterRef::Function(_) => ("v1", "function"),
            ConverterRef::Webhook(webhook) => match webhook.review_version {
                Some(version) => (version, "webhook"),
                None => {
                    let message = "no supported conversion review versions";
                    return Err(Status::failure(500, Reason::default(), message).into());
                }
            },
        };
        let mut review = json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{review_version}"),
            "request": {"desiredAPIVersion": conversion.version, "objects": objects},
        });
        let id =
            CallId::new(&format!("convert {receiver} {}", conversion.resource.storage), review.to_string().as_bytes());
        let uid = state.review_uid(&id, &*self.env);
        let Some(result) = state.result(&id) else {
            review["request"]["uid"] = uid.into();
            let endpoint = match &conversion.converter {
                ConverterRef::Function(converter) => CallEndpoint::Function(Arc::clone(&converter.function)),
                ConverterRef::Webhook(webhook) => webhook.client.endpoint(self, TIMEOUT_SECONDS),
            };
            let (body, timeout) = (review.to_string().into(), Duration::from_secs(TIMEOUT_SECONDS));
            return Err(RequestError::NeedsCalls(vec![OutboundCall { id, endpoint, body, timeout }]));
        };
        let failed = |why: &str| conversion.error(&from, format_args!("failed: {why}"));
        let body = result.as_ref().as_ref().map_err(|error| failed(&error.0))?;
        let converted = read_response(review_version, &uid, body).map_err(|why| failed(&why))?;
        if converted.len() != objects.len() {
            let (got, expected) = (converted.len(), objects.len());
            return Err(conversion.error(&from, format_args!("returned {got} objects, expected {expected}")).into());
        }
        let accepted = objects.iter().zip(converted).enumerate().map(|(index, (original, converted))| {
            accept(conversion, original, converted).map_err(|fault| {
                let what = match conversion.batch {
                    Batch::List => format!("returned invalid converted object at index {index}: {fault}"),
                    Batch::Single => format!("returned invalid object at index 0: {fault}"),
                };
                conversion.error(&from, format_args!("{what}"))
            })
        });
        accepted.collect::<Result<_, Status>>().map_err(RequestError::from)
    }
}

/// Reads the converted objects of a response, or why there are none (CWH-005).
fn read_response(review_version: &str, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
    let mut review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if review_version == "v1" {
        let (version, kind) = (text(&review, "apiVersion"), text(&review, "kind"));
        if (version.as_str(), kind.as_str()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            let version = if version.contains('/') { version } else { format!("/{version}") };
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {version}, Kind={kind}"
            ));
        }
    }
    let Some(response) = review.get_mut("response").filter(|response| response.is_object()) else {
        return Err("no response provided".to_owned());
    };
    let got = text(response, "uid");
    if review_version == "v1" && got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let result = response.get("result").unwrap_or(&Value::Null);
    let (status, message) = (text(result, "status"), text(result, "message"));
    if status != "Success" {
        return Err(match message.is_empty() {
            true => format!("response.result.status was '{status}', not 'Success'"),
            false => message,
        });
    }
    match response.get_mut("convertedObjects").map(Value::take) {
        Some(Value::Array(objects)) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks a converted object and completes it: of its metadata only labels and annotations are taken (CWH-004).
fn accept(conversion: &ConversionRequest<'_>, original: &Value, mut converted: Value) -> Result<Value, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text(&converted, "apiVersion");
    if version != conversion.version {
        let expected = conversion.version;
        return Err(format!("invalid groupVersion (expected {expected}, received {version})"));
    }
    let (expected, kind) = (text(original, "kind"), text(&converted, "kind"));
    if kind != expected {
        return Err(format!("invalid kind (expected {expected}, received {kind})"));
    }
    for (key, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (object::text(original, key), object::text(&converted, key));
        if before != after {
            return Err(format!("must have the same {name}: {before} != {after}"));
        }
    }
    let sent = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(sent)) => sent,
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", kind_of(&other))),
    };
    let mut metadata = object::metadata(original).clone();
    if let Some(fields) = metadata.as_object_mut() {
        for key in ["labels", "annotations"] {
            match sent.get(key) {
                None | Some(Value::Null) => {
                    fields.remove(key);
                }
                Some(value) => {
                    let mut errors: Vec<FieldError> = Vec::new();
                    let path = format!("metadata.{key}");
                    let values = value.as_object().into_iter().flatten();
                    if let Some((name, _)) = values.into_iter().find(|(_, value)| !value.is_string()) {
                        return Err(format!("metadata.{key}[{name}] must be a string in converted object"));
                    }
                    match key {
                        "labels" => meta::validate_labels(Some(value), &path, &mut errors),
                        _ => meta::validate_annotations(Some(value), &path, &mut errors),
                    }
                    if let Some(error) = errors.first() {
                        return Err(error.to_string());
                    }
                    fields.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    if let Some(fields) = converted.as_object_mut() {
        fields.insert("metadata".to_owned(), metadata);
    }
    decode::normalise(conversion.target, &mut converted).map_err(|status| status.message)?;
    Ok(converted)
}
