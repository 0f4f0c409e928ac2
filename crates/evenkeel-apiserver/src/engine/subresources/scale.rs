//! The `scale` subresource: the replicas of an object, whatever field the kind keeps them in (SUB-6, SUB-7).

use std::sync::Arc;

use evenkeel_core::LabelSelector;
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::check_kind;
use crate::engine::object::set_path;
use crate::engine::options::WriteOptions;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{WriteScope, Writer, check_name, check_uid, key};
use crate::engine::{ApiEngine, decode, not_implemented, object, response, view};
use crate::field::{self, FieldError};
use crate::http_types::HandlerOutcome;
use crate::negotiate::{Endpoint, PatchType};
use crate::patch::{self, Patched};
use crate::registry::Resource;
use crate::route::Verb;
use crate::schema::Schema;

/// The OpenAPI name of a Scale.
pub(crate) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

impl ApiEngine {
    /// Serves `GET|PUT|PATCH scale`.
    pub(crate) fn scale(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let resource = request.resource();
        let representation = request.representation(Endpoint::Plain)?;
        let Some(fields) = ScaleFields::of(resource) else {
            return Err(not_implemented("scale for this resource").into());
        };
        let respond = |object: &Value| -> Result<HandlerOutcome, RequestError> {
            let scale = view::render(fields.scale_of(resource, object)?);
            Ok(HandlerOutcome::Response(response::ok(representation, view::encode(scale, representation)?)))
        };
        if request.route.verb == Verb::Get {
            let key = key(request.namespace(), request.name());
            let Some(record) = self.store.get(&resource.storage, &key) else {
                return Err(request.target(WriteScope::Main).not_found().into());
            };
            let object = self.object_in_version(resource, record.value(), Some(request.http))?;
            return respond(&object);
        }
        let replicas = fields.replicas_path();
        let scope = WriteScope::Field { subresource: "scale", path: &replicas };
        let mut warnings = Vec::new();
        let kind = match request.route.verb {
            Verb::Patch => Some(PatchType::of(&request.http.headers, resource.custom.is_some())?),
            _ => None,
        };
        let written = if kind == Some(PatchType::Apply) {
            let (written, complaints) = self.apply_scale(request, request.target(scope), &fields)?;
            warnings = complaints;
            written
        } else if let Some(kind) = kind {
            let options = WriteOptions::of_patch(request.query, false)?;
            let manager = request.manager(&options);
            let writer = Writer::new(request.http, &options, &manager);
            self.update_object(request.target(scope), writer, |old| {
                let before = fields.scale_of(resource, old)?;
                let Patched { object: scale, duplicates } =
                    patch::apply(kind, before, &request.http.body, Schema::builtin(SCALE))?;
                check_name(&scale, request.name())?;
                warnings = decode::check_scale(&scale, &duplicates, options.field_validation)
                    .map_err(|status| patch::unreadable_result(&scale, &status.message))?;
                scaled(request, &fields, &scale, old)
            })?
        } else {
            let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
            let manager = request.manager(&options);
            let writer = Writer::new(request.http, &options, &manager);
            let sent = decode::parse(request.http, "Scale")?;
            check_name(&sent.value, request.name())?;
            warnings = decode::check_scale(&sent.value, &sent.duplicates, options.field_validation)?;
            self.update_object(request.target(scope), writer, |old| scaled(request, &fields, &sent.value, old))?
        };
        let mut outcome = respond(&written.shown(resource).value())?;
        warnings.extend(written.warnings);
        if let HandlerOutcome::Response(response) = &mut outcome {
            response::warn(response, &warnings);
        }
        Ok(outcome)
    }
}

/// Returns the object with the replicas of a Scale. A uid in the Scale is a precondition.
fn scaled(request: &ResourceRequest<'_>, fields: &ScaleFields, scale: &Value, old: &Value) -> Result<Value, Status> {
    check_uid(request.target(WriteScope::Main), old, object::text(scale, "uid"))?;
    let mut new = old.clone();
    fields.write(request.resource(), scale, &mut new)?;
    Ok(new)
}

/// The fields of a kind that a Scale shows.
pub(crate) struct ScaleFields {
    replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: SelectorField,
}

enum SelectorField {
    /// A label selector object at `spec.selector`.
    Object,
    /// A map of labels at `spec.selector`.
    Labels,
    /// A string at this path.
    Text(Vec<String>),
    None,
}

impl ScaleFields {
    pub(crate) fn of(resource: &Resource) -> Option<ScaleFields> {
        let split = |path: &str| path.trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>();
        if let Some(custom) = &resource.custom {
            let scale = custom.scale.as_ref()?;
            return Some(ScaleFields {
                replicas: split(&scale.spec_replicas),
                status_replicas: split(&scale.status_replicas),
                selector: scale
                    .label_selector
                    .as_deref()
                    .map_or(SelectorField::None, |path| SelectorField::Text(split(path))),
            });
        }
        let labels = resource.kind == "ReplicationController";
        Some(ScaleFields {
            replicas: split("spec.replicas"),
            status_replicas: split("status.replicas"),
            selector: if labels { SelectorField::Labels } else { SelectorField::Object },
        })
    }

    pub(crate) fn replicas_path(&self) -> Vec<&str> {
        self.replicas.iter().map(String::as_str).collect()
    }

    /// Returns the Scale of an object.
    pub(crate) fn scale_of(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        let follow = |path: &[String]| path.iter().try_fold(object, |value, key| value.get(key));
        let replicas = match follow(&self.replicas).and_then(Value::as_i64) {
            Some(replicas) => replicas,
            None if resource.custom.is_some() => {
                let path = self.replicas.join(".");
                return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
            }
            None => 0,
        };
        let mut status = json!({"replicas": follow(&self.status_replicas).and_then(Value::as_i64).unwrap_or(0)});
        if let Some(selector) = self.selector_text(object) {
            status["selector"] = selector.into();
        }
        let mut metadata = serde_json::Map::new();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object::metadata(object).get(key) {
                metadata.insert(key.into(), value.clone());
            }
        }
        Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
                  "spec": {"replicas": replicas}, "status": status}))
    }

    fn selector_text(&self, object: &Value) -> Option<String> {
        let selector = object.pointer("/spec/selector");
        match &self.selector {
            SelectorField::Object => LabelSelector::from_json(selector?).ok().map(|selector| selector.to_string()),
            SelectorField::Labels => {
                LabelSelector::from_json(&json!({"matchLabels": selector?})).ok().map(|selector| selector.to_string())
            }
            SelectorField::Text(path) => {
                path.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str).map(str::to_owned)
            }
            SelectorField::None => None,
        }
    }

    /// Writes the replicas of a Scale into an object. A resource version in the Scale is a precondition.
    pub(crate) fn write(&self, resource: &Resource, scale: &Value, object: &mut Value) -> Result<(), Status> {
        check_kind(scale, &["autoscaling/v1"], "Scale")?;
        let name = object::text(object, "name").to_owned();
        let namespace = object::text(scale, "namespace");
        if !namespace.is_empty() && namespace != object::text(object, "namespace") {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) if resource.custom.is_some() => {
                return Err(Status::bad_request(format!(
                    "the spec replicas field \".{}\" cannot be empty",
                    self.replicas.join(".")
                )));
            }
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().and_then(|replicas| i32::try_from(replicas).ok()).ok_or_else(|| {
                Status::bad_request(
                    "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal the replicas into Go \
                     struct field ScaleSpec.spec.replicas of type int32",
                )
            })?,
        };
        if replicas < 0 {
            let detail = crate::meta::NEGATIVE;
            let error = FieldError::invalid("spec.replicas", &replicas.into(), detail);
            return Err(field::invalid("autoscaling", "Scale", &name, &[error]));
        }
        set_path(object, &self.replicas_path(), Some(replicas.into()));
        let version = object::text(scale, "resourceVersion");
        if !version.is_empty() {
            object::metadata_mut(object).insert("resourceVersion".into(), version.into());
        }
        Ok(())
    }
}
